"""Whether every rank writes the same files when the data is not there yet."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.finding import found
from launcher.scripts.agreement import Agreement
from launcher.scripts.arguments import argument
from launcher.scripts.guard import Guard
from launcher.scripts.launching import spawns
from launcher.scripts.program import Program
from launcher.scripts.scopes import FunctionNode, ancestors, scope_of
from launcher.scripts.values import External, RankValue, alternatives

FETCHING = (
    "torch.hub.download_url_to_file",
    "torchvision.datasets.utils.download_url",
    "torchvision.datasets.utils.download_and_extract_archive",
    "urllib.request.urlretrieve",
    "wget.download",
    "gdown.download",
    "shutil.unpack_archive",
    "tarfile.open.extractall",
    "tarfile.TarFile.extractall",
    "zipfile.ZipFile.extractall",
)
"""What writes files in place, without a lock. huggingface_hub and datasets take locks, and are not here."""

_DATASETS = ("torchvision.datasets.", "torchaudio.datasets.")
_GROUP = (
    "torch.distributed.init_process_group",
    "deepspeed.init_distributed",
    "horovod.torch.init",
)
_EXISTENCE = frozenset(
    {"os.path.exists", "os.path.isfile", "os.path.isdir", "pathlib.Path.exists", "pathlib.Path.is_dir"}
)
_HARMLESS = frozenset({"tarfile.open", "zipfile.ZipFile", "open", "torch.no_grad", "warnings.catch_warnings"})
"""Context managers that let every rank through at once."""

_DEEPEST = 6
"""So many calls are followed from a function to its callers."""


@finds(Stage.SCRIPT, data.EVERY_RANK_DOWNLOADS)
def one_rank_downloads(program: Program) -> Iterator[Finding]:
    """A download or the unpacking of an archive that every rank surely runs, into a path that all share.

    The processes of a host write the same files at once: one reads what another has half written, checksums
    differ, archives are torn. Asking first whether the file is there does not help, as all ask at the same
    moment. Found only in programs that make a process group, where no test, context manager or decorator
    stands around it that may let one rank through before the others; a data set that all ranks choose by
    its name, `if args.data == "CIFAR10":`, is one that all of them fetch. Not found in a demo that shares a
    module with the training and makes no group itself.

    Bad: `dataset = torchvision.datasets.CIFAR10("data", download=True)`
    Good: `if local_rank == 0: CIFAR10("data", download=True)`, then `dist.barrier()` for all, then
    `dataset = CIFAR10("data")`

    Source: torchvision/datasets/utils.py, which writes to the final name, without a lock.
    """
    fetches = list(_fetches(program))
    if not fetches or not program.reach.joins_others(call for call, _ in program.calls(*_GROUP)):
        return
    paths = _Paths(program)
    # After a rank has fetched it alone, the others find it there.
    fetched = {name for call, name in fetches if paths.is_guarded(call)}
    for call, name in fetches:
        if name not in fetched and not _differs(program, call) and paths.is_run_by_all(call):
            yield found(
                data.EVERY_RANK_DOWNLOADS,
                call,
                f"every rank runs {_short(name)} at the same moment, into one folder: one reads what another "
                "has half written",
            )


def _short(name: str) -> str:
    return ".".join(name.rsplit(".", 2)[-2:])


def _fetches(program: Program) -> Iterator[tuple[ast.Call, str]]:
    yield from program.calls(*FETCHING)
    for file in program.files:
        for call in file.calls:
            download = argument(call, "download")
            if isinstance(download, ast.Constant) and download.value is True:
                name = program.qualified(call.func)
                if name is not None and name.startswith(_DATASETS):
                    yield call, name


def _differs(program: Program, call: ast.Call) -> bool:
    """Whether the path may differ between the ranks: a rank or a temporary folder is in it."""
    given = [*call.args, *(each.value for each in call.keywords)]
    for node in (each for one in given for each in ast.walk(one)):
        if isinstance(node, ast.Name | ast.Attribute | ast.Call):
            value = program.value(node)
            if isinstance(value, RankValue) or (program.qualified(node) or "").startswith("tempfile."):
                return True
            for binding in program.evaluation.sources(node):
                if binding.value is not None and any(
                    isinstance(part, ast.expr) and isinstance(program.value(part), RankValue)
                    for part in ast.walk(binding.value)
                ):
                    return True
    return False


class _Paths:
    """The ways from the start of a program to a call."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.agreement = Agreement(program)
        # A program that is started is mostly a tool, and no parent of ranks.
        self.spawns = frozenset(
            each for each in spawns(program) if program.qualified(each.func) != "subprocess.Popen"
        )

    def is_guarded(self, call: ast.Call) -> bool:
        """Whether a call stands where some ranks come alone."""
        return any(
            isinstance(outer, ast.If | ast.IfExp) and isinstance(self.program.guards.truth(outer.test), Guard)
            for outer in ancestors(call)
        )

    def is_run_by_all(self, call: ast.Call) -> bool:
        """Whether a call is surely run by every rank, all at the same time."""
        return self._reached(call, set(), 0)

    def _reached(self, node: ast.Call, seen: set[ast.AST], depth: int) -> bool:
        if not self._is_open(node):
            return False
        scope = scope_of(node).function
        if scope is None:
            # Where processes are spawned, a module's own code runs in the parent as well.
            return not self.spawns
        function = scope.node
        assert isinstance(function, FunctionNode)
        if function in seen or depth >= _DEEPEST:
            return False
        seen.add(function)
        if not isinstance(function, ast.Lambda) and function.decorator_list:
            return False
        sites = self.program.evaluation.callers.of(function)
        for site in sites or ():
            if site.call in self.spawns:
                return True
            if self._reached(site.call, seen, depth + 1):
                return True
        return False

    def _is_open(self, node: ast.Call) -> bool:
        """Whether nothing within its function may hold some ranks back from a node, or let one go first."""
        inner: ast.AST = node
        for outer in ancestors(node):
            if isinstance(outer, FunctionNode):
                break
            if isinstance(outer, ast.If | ast.IfExp) and inner is not outer.test and not self._passes(outer):
                return False
            if isinstance(outer, ast.With) and not all(self._is_harmless(each) for each in outer.items):
                return False
            if isinstance(outer, ast.While | ast.Match | ast.ExceptHandler | ast.ClassDef):
                return False
            inner = outer
        return not self._waits_before(node)

    def _passes(self, branch: ast.If | ast.IfExp) -> bool:
        test = branch.test
        if self.program.guards.truth(test) is True or _asks_for_main(test) or self._chooses(test):
            return True
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test = test.operand
        return isinstance(test, ast.Call) and self.program.qualified(test.func) in _EXISTENCE

    def _chooses(self, test: ast.expr) -> bool:
        """Whether a test chooses by a name that all ranks have alike: `args.data == "CIFAR10"`.

        Not an option that is on or off: `--download` may be given to one process before the others start.
        """
        if isinstance(test, ast.BoolOp):
            return all(map(self._chooses, test.values))
        if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq | ast.In | ast.NotEq):
            return False
        names = [*ast.walk(test.comparators[-1]), test.left]
        literal = any(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in names)
        return literal and self.agreement.holds(test)

    def _is_harmless(self, item: ast.withitem) -> bool:
        expression = item.context_expr
        called = self.program.value(expression.func) if isinstance(expression, ast.Call) else None
        return called is not None and all(
            isinstance(each, External) and each.name in _HARMLESS for each in alternatives(called)
        )

    def _waits_before(self, node: ast.Call) -> bool:
        """Whether ranks part ways in the function before a call: some wait, return, or fetch the files."""
        file = scope_of(node).file
        return any(
            isinstance(branch, ast.If)
            and branch.lineno < node.lineno
            and scope_of(branch) is scope_of(node)
            and not isinstance(self.program.guards.truth(branch.test), bool)
            and not self._chooses(branch.test)
            and _may_part(branch, self.program)
            for branch in file.statements.get(ast.If, ())
        )


def _asks_for_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and any(
        isinstance(each, ast.Name) and each.id == "__name__" for each in (test.left, *test.comparators)
    )


def _may_part(branch: ast.If, program: Program) -> bool:
    """Whether a branch is for some ranks alone, or ends its function for what may be some."""
    if isinstance(program.guards.truth(branch.test), Guard):
        return True
    return any(isinstance(each, ast.Return) for each in ast.walk(branch))
