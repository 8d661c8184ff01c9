"""The files of a script's data: the order in which they are listed, who downloads them, and the channels."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Fix, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.bindings import bind_arguments
from launcher.program.dataflow import all_arguments, argument_of
from launcher.program.guards import Guard, Guards
from launcher.program.index import (
    FunctionNode,
    ancestors,
    class_of,
    file_of,
    is_main_guard,
    last_name,
    parent_of,
    scope_of,
)
from launcher.program.participants import Uniformity
from launcher.program.program import Program
from launcher.program.reachability import Reachability, is_for_one_host, process_starts
from launcher.program.values import Defined, External, Made, RankValue, alternatives
from launcher.rules.script.findings import (
    ScriptSubject,
    as_attribute,
    finding_at,
    is_given,
    related_at,
    wrap_node,
)
from launcher.rules.script.loaders import Loaders
from launcher.rules.script.shards import is_cut_by_rank
from launcher.text.values import nearest

LISTINGS = (
    "os.listdir",
    "os.scandir",
    "os.walk",
    "glob.glob",
    "glob.iglob",
    "pathlib.Path.iterdir",
    "pathlib.Path.glob",
    "pathlib.Path.rglob",
)
"""What answers in the order of the file system."""

_KEEPING = frozenset({"list", "tuple", "iter", "filter", "map", "enumerate", "set", "frozenset"})
"""What keeps the order of its argument, or gives it that of a set, which differs between processes."""

_DEEPEST_LISTING = 4
"""So many times is a list followed from one variable to the next."""


@finds(Stage.SCRIPT, data.FILES_UNSORTED)
def listings_are_sorted(program: Program) -> Iterator[Finding]:
    """A listing of files in the order of the file system, whose order decides which rank reads what.

    Two hosts may list one folder in different orders. Found where the list is cut by rank, or where a Dataset
    keeps it and reads it by index while a DistributedSampler gives each rank its indices: ranks of different
    hosts then read some files twice, and others never. Listing to count, to delete, to look for a file or for
    the newest checkpoint is fine, and so is what is sorted before it is used. Informational where it is not
    known that a sampler cuts just this Dataset: another may be the one that it cuts; and where the program
    spawns its processes itself, as one host lists a folder for all of them alike.

    Bad: `files = glob.glob(pattern)[rank::world_size]`
    Good: `files = sorted(glob.glob(pattern))[rank::world_size]`

    Source: Python documentation of os.listdir and glob.
    """
    distributed = None
    severity = Severity.INFO if is_for_one_host(program) else None
    for call, name in program.calls(*LISTINGS):
        if name == "os.walk" and _is_sorted_within(call):
            continue
        for end in _ends_in_call(program, call):
            if is_cut_by_rank(program, end):
                related = [] if end is call else [related_at(end, "cut by rank here")]
                yield finding_at(
                    data.FILES_UNSORTED,
                    call,
                    f"{_last(name)} answers in the order of the file system, and the ranks cut the list as "
                    "if it were the same on every host: files are read twice, and others never",
                    related=related,
                    severity=severity,
                    fix=_sorted(call, name),
                )
                break
            kept = _kept_by_dataset(program, end)
            if kept is not None:
                if distributed is None:
                    distributed = _splits_by_index(program)
                if distributed:
                    yield finding_at(
                        data.FILES_UNSORTED,
                        call,
                        f"{_last(name)} answers in the order of the file system, and an index of a sampler "
                        "means another file on another host: files are read twice, and others never",
                        related=[related_at(kept, "read by index here")],
                        severity=severity if _is_sampled(program, kept) else Severity.INFO,
                        fix=_sorted(call, name),
                    )
                    break


def _sorted(listing: ast.Call, name: str) -> Fix | None:
    """`sorted(...)` around a listing.

    Not of scandir, whose entries have no order, nor of walk, whose folders have one of their own, nor where a
    set may bring it out of order again.
    """
    if name in ("os.scandir", "os.walk") or {"set", "frozenset"} & set(file_of(listing).calls_of):
        return None
    return Fix(True, wrap_node(listing, "sorted(", ")"))


def _is_sorted_within(walk: ast.Call) -> bool:
    """Whether the loop over `os.walk` sorts anything: `dirs.sort()`, `for name in sorted(names)`."""
    loop = parent_of(walk)
    if not isinstance(loop, ast.For):
        return True  # What becomes of the triples is not followed.
    return any(
        isinstance(node, ast.Call) and last_name(node.func) in ("sort", "sorted", "natsorted")
        for node in ast.walk(loop)
    )


def _splits_by_index(program: Program) -> bool:
    """Whether ranks get indices of one dataset: by a sampler of the script, or of a library that wraps it."""
    loaders = program.analysis(Loaders)
    return bool(loaders.samplers) or any(True for _ in program.calls("accelerate.Accelerator.prepare"))


def _is_sampled(program: Program, kept: ast.Subscript) -> bool:
    """Whether a DistributedSampler is made of an object of the Dataset that reads here."""
    owner = _class_around(kept)
    for sampler in program.analysis(Loaders).samplers:
        given = argument_of(sampler, "dataset", 0)
        made = alternatives(program.value(given)) if given is not None else ()
        if any(isinstance(each, Made) and each.definition is owner for each in made):
            return True
    return False


def _ends_in_call(program: Program, call: ast.Call) -> Iterator[ast.expr]:
    """The listing, and every place to which its list is handed on, unless it is sorted on the way."""
    waiting: list[tuple[ast.expr, int]] = [(call, 0)]
    seen = set[ast.AST]()
    while waiting:
        node, depth = waiting.pop(0)
        value = _outermost(program, node)
        if value is None or value in seen:
            continue
        seen.add(value)
        yield value
        if depth < _DEEPEST_LISTING:
            for uses in _handed_on(program, value):
                if not any(_sorts(each) for each in uses):
                    waiting += [(each, depth + 1) for each in uses]


def _handed_on(program: Program, value: ast.expr) -> Iterator[list[ast.expr]]:
    """The uses of each variable, attribute and parameter that gets a list."""
    parent = parent_of(value)
    if isinstance(parent, ast.Assign):
        for target in parent.targets:
            yield [each for each in _uses(target, parent) if _is_given_to(program, each, value)]
    elif isinstance(parent, ast.AugAssign) and parent.value is value:
        yield list(_uses(parent.target, parent))
    elif isinstance(parent, ast.For) and parent.iter is value:
        for node in ast.walk(parent):
            if isinstance(node, ast.Call) and last_name(node.func) in ("append", "extend"):
                assert isinstance(node.func, ast.Attribute | ast.Name)
                if isinstance(node.func, ast.Attribute):
                    yield list(_uses(node.func.value, parent))
    elif isinstance(parent, ast.Call | ast.keyword):
        yield from _as_parameter(program, value, parent)


def _is_given_to(program: Program, use: ast.expr, value: ast.expr) -> bool:
    """Whether a variable has this list where it is read: not one that it got in between."""
    if not isinstance(use, ast.Name):
        return True
    bindings = program.evaluation.sources(use)
    return not bindings or any(each.value is value for each in bindings)


def _as_parameter(
    program: Program, value: ast.expr, parent: ast.Call | ast.keyword
) -> Iterator[list[ast.expr]]:
    """The uses of the parameter as which a function or class of the program gets a list."""
    call = parent_of(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call):
        return
    called = program.value(call.func)
    if not isinstance(called, Defined):
        return
    function: ast.AST | None = called.node
    bound = called.owner is not None
    if isinstance(function, ast.ClassDef):
        bound = True
        function = next(
            (each for each in function.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"),
            None,
        )
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    arguments = bind_arguments(function, call, bound) or {}
    name = next((name for name, given in arguments.items() if given is value), None)
    if name is not None:
        scope = file_of(function).scopes[function]
        yield [
            each for each in file_of(function).names.get(name, ()) if scope_of(each).holder_of(name) is scope
        ]


def _uses(target: ast.expr, statement: ast.stmt) -> Iterator[ast.expr]:
    """Where a variable, or an attribute of the method's object, is read."""
    file = file_of(statement)
    if isinstance(target, ast.Name):
        holder = scope_of(statement).holder_of(target.id)
        for name in file.names.get(target.id, ()):
            if scope_of(name).holder_of(target.id) is holder:
                yield name
    elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
        owner = _class_around(statement)
        for attribute in file.attributes.get(target.attr, ()):
            if owner is not None and _class_around(attribute) is owner:
                yield attribute


def _class_around(node: ast.AST) -> ast.ClassDef | None:
    function = scope_of(node).function
    return None if function is None else class_of(function.node)


def _outermost(program: Program, node: ast.expr) -> ast.expr | None:
    """An expression with all around it that keeps its order: `list(...)`, a comprehension; None if sorted."""
    while True:
        parent = parent_of(node)
        if isinstance(parent, ast.Call) and node in parent.args:
            called = program.value(parent.func)
            if isinstance(called, External) and called.name in ("sorted", "natsort.natsorted", "len"):
                return None
            if not isinstance(called, External) or called.name not in _KEEPING:
                return node
            node = parent
        elif isinstance(parent, ast.comprehension) and parent.iter is node:
            outer = parent_of(parent)
            if not isinstance(outer, ast.ListComp | ast.GeneratorExp) or len(outer.generators) != 1:
                return None
            node = outer
        else:
            return node


def _sorts(use: ast.expr) -> bool:
    """Whether a list is sorted, or replaced by a sorted one, where it is read here."""
    for outer in ancestors(use):
        if isinstance(outer, ast.Call):
            if last_name(outer.func) in ("sort", "sorted", "natsorted", "min", "max", "argsort"):
                return True
        elif isinstance(outer, ast.stmt):
            return False
    return False


def _kept_by_dataset(program: Program, node: ast.expr) -> ast.Subscript | None:
    """Where a map-style Dataset reads by its index what a method of it sets: `self.files[index]`."""
    statement = parent_of(node)
    if isinstance(statement, ast.Subscript) and statement.value is node:
        owner = _class_around(node)
        return _by_index(program, statement, owner) if isinstance(node, ast.Attribute) else None
    return None


def _by_index(program: Program, read: ast.Subscript, owner: ast.ClassDef | None) -> ast.Subscript | None:
    """A subscript of `__getitem__` by its index, in a Dataset of torch."""
    function = scope_of(read).function
    if function is None or owner is None or not _is_dataset(program, owner):
        return None
    node = function.node
    if not isinstance(node, ast.FunctionDef) or node.name != "__getitem__" or len(node.args.args) != 2:
        return None
    index = node.args.args[1].arg
    return read if isinstance(read.slice, ast.Name) and read.slice.id == index else None


def _is_dataset(program: Program, definition: ast.ClassDef) -> bool:
    for base in definition.bases:
        for each in alternatives(program.value(base)):
            if isinstance(each, External) and each.name == "torch.utils.data.Dataset":
                return True
            if (
                isinstance(each, Defined)
                and isinstance(each.node, ast.ClassDef)
                and each.node is not definition
            ):
                return _is_dataset(program, each.node)
    return False


# Whether every rank writes the same files when the data is not there yet.


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

_DEEPEST_DOWNLOAD = 6
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
    if not fetches or not program.analysis(Reachability).joins_others(
        call for call, _ in program.calls(*_GROUP)
    ):
        return
    paths = _Paths(program)
    # After a rank has fetched it alone, the others find it there.
    fetched = {name for call, name in fetches if paths.is_guarded(call)}
    for call, name in fetches:
        if name not in fetched and not _differs(program, call) and paths.is_run_by_all(call):
            yield finding_at(
                data.EVERY_RANK_DOWNLOADS,
                call,
                f"every rank runs {_last(name)} at the same moment, into one folder: one reads what another "
                "has half written",
            )


def _last(name: str) -> str:
    return ".".join(name.rsplit(".", 2)[-2:])


def _fetches(program: Program) -> Iterator[tuple[ast.Call, str]]:
    yield from program.calls(*FETCHING)
    for file in program.files:
        for call in file.calls:
            download = argument_of(call, "download")
            if isinstance(download, ast.Constant) and download.value is True:
                name = program.qualified(call.func)
                if name is not None and name.startswith(_DATASETS):
                    yield call, name


def _differs(program: Program, call: ast.Call) -> bool:
    """Whether the path may differ between the ranks: a rank or a temporary folder is in it."""
    given = all_arguments(call)
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
        self.uniformity = program.analysis(Uniformity)
        # A program that is started is mostly a tool, and no parent of ranks.
        self.spawns = frozenset(
            each for each in process_starts(program) if program.qualified(each.func) != "subprocess.Popen"
        )

    def is_guarded(self, call: ast.Call) -> bool:
        """Whether a call stands where some ranks come alone."""
        return any(
            isinstance(outer, ast.If | ast.IfExp)
            and isinstance(self.program.analysis(Guards).truth(outer.test), Guard)
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
        if function in seen or depth >= _DEEPEST_DOWNLOAD:
            return False
        seen.add(function)
        if not isinstance(function, ast.Lambda) and function.decorator_list:
            return False
        sites = self.program.evaluation.callers.call_sites(function)
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
        if self.program.analysis(Guards).truth(test) is True or _tests_for_main(test) or self._chooses(test):
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
        return literal and self.uniformity.is_uniform(test)

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
            and not isinstance(self.program.analysis(Guards).truth(branch.test), bool)
            and not self._chooses(branch.test)
            and _may_part(branch, self.program)
            for branch in file.statements.get(ast.If, ())
        )


def _tests_for_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and any(
        isinstance(each, ast.Name) and each.id == "__name__" for each in (test.left, *test.comparators)
    )


def _may_part(branch: ast.If, program: Program) -> bool:
    """Whether a branch is for some ranks alone, or ends its function for what may be some."""
    if isinstance(program.analysis(Guards).truth(branch.test), Guard):
        return True
    return any(isinstance(each, ast.Return) for each in ast.walk(branch))


# The channels that a script reads, against those that the job has.


VARIABLE = "SM_CHANNEL_"
FOLDER = "/opt/ml/input/data"
_ANY = frozenset({"SM_CHANNELS", "SM_INPUT_DIR", "SM_TRAINING_ENV", "SM_INPUT_DATA_CONFIG"})
"""Variables by which a script may read channels whose names it does not write."""


@dataclass(frozen=True, slots=True)
class ChannelRead:
    """A place that names a channel: `key` as SageMaker's variable has it; whether it must be there."""

    node: ast.expr
    key: str
    name: str
    is_needed: bool
    by_variable: bool


@finds(Stage.SCRIPT, data.CHANNELS_DIFFER)
def channels_are_there(subject: ScriptSubject) -> Iterator[Finding]:
    """A channel that the script reads and the job lacks, or one that the job has and nobody reads.

    `os.environ["SM_CHANNEL_TRAIN"]` without a channel `train` is a KeyError on every host, once they run. A
    path below /opt/ml/input/data that is not there is a warning, as the script may not come to it, and so is
    a channel that no text of the script, hyperparameter or argument names: every host downloads it for
    nothing. Reads under a test or in a try statement, and options that the job gives, are left alone.

    Bad: `parser.add_argument("--data", default=os.environ["SM_CHANNEL_TRAINING"])`, for a job with `train`
    Good: `parser.add_argument("--data", default=os.environ["SM_CHANNEL_TRAIN"])`

    Source: SageMaker's documentation of training storage.
    """
    # The job's models cost time that a lint without a job does not pay.
    from launcher.jobs.job_sections import CHECKPOINT_CHANNEL, RESERVED_CHANNEL

    job, program = subject.job, subject.program
    there = {_key(name) for name in (*job.inputs, RESERVED_CHANNEL, CHECKPOINT_CHANNEL)}
    there |= {name.removeprefix(VARIABLE) for name in job.environment if name.startswith(VARIABLE)}
    reads = list(_reads(program))
    for read in reads:
        option = _option_of(read.node)
        if (
            read.key in there
            or not read.is_needed
            or (not read.by_variable and _is_option_given(subject, option))
        ):
            continue
        meant = nearest(read.name, list(job.inputs))
        has = ", ".join(sorted(job.inputs)) or "none"
        what = "KeyError" if read.by_variable else "no such folder on the hosts"
        yield finding_at(
            data.CHANNELS_DIFFER,
            read.node,
            f"the job has no channel `{read.name}` (it has {has}): {what}",
            severity=None if read.by_variable else Severity.WARNING,
            remedy=f"Did you mean the channel `{meant[0]}`?" if meant else None,
        )
    if reads and not _reads_any(program):
        texts = {text.lower() for text in _texts(subject)}
        for name in job.inputs:
            if _key(name) not in {read.key for read in reads} and not any(
                name.lower() in text for text in texts
            ):
                yield finding_at(
                    data.CHANNELS_DIFFER,
                    reads[0].node,
                    f"the script reads other channels, and nowhere `{name}` of the job: every host downloads "
                    "it for nothing",
                    severity=Severity.WARNING,
                    remedy=f"Remove `inputs.{name}`, or read it from {VARIABLE}{_key(name)}.",
                )


def _key(name: str) -> str:
    return name.upper()


def _reads(program: Program) -> Iterator[ChannelRead]:
    for file in program.files:
        for node in ast.walk(file.tree):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            if node.value.startswith(VARIABLE) and len(node.value) > len(VARIABLE):
                yield from _by_variable(program, node, node.value)
            elif node.value.startswith(f"{FOLDER}/"):
                name = node.value[len(FOLDER) + 1 :].partition("/")[0]
                if name and not isinstance(parent_of(node), ast.JoinedStr | ast.Expr):
                    yield ChannelRead(node, _key(name), name, _is_sure(node), by_variable=False)


def _by_variable(program: Program, node: ast.Constant, variable: str) -> Iterator[ChannelRead]:
    """A read of SageMaker's variable of a channel; one that is set or deleted by the script is none."""
    key = variable.removeprefix(VARIABLE)
    parent = parent_of(node)
    if isinstance(parent, ast.Subscript) and program.value(parent.value) == External("os.environ"):
        needed = isinstance(parent.ctx, ast.Load) and _is_sure(parent)
        yield ChannelRead(parent, key, key.lower(), needed, by_variable=True)
    else:
        yield ChannelRead(node, key, key.lower(), False, by_variable=True)


def _is_sure(node: ast.AST) -> bool:
    """Whether an expression is surely evaluated, or meant, where its function runs."""
    inner = node
    for outer in ancestors(node):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            return True
        if isinstance(outer, ast.If | ast.IfExp | ast.While):
            if inner is not outer.test and not is_main_guard(outer.test):
                return False
            if inner is outer.test:
                return False
        if isinstance(outer, ast.Try | ast.BoolOp | ast.Compare | ast.ExceptHandler):
            return False
        if isinstance(outer, ast.Call) and last_name(outer.func) in ("exists", "isdir", "is_dir", "getenv"):
            return False
        if isinstance(outer, ast.Call) and last_name(outer.func) == "get" and inner is not outer.func:
            return False
        inner = outer
    return True


def _option_of(node: ast.expr) -> str | None:
    """The option whose default an expression is."""
    for outer in ancestors(node):
        if isinstance(outer, ast.Call) and last_name(outer.func) == "add_argument":
            names = (each.value for each in outer.args if isinstance(each, ast.Constant))
            return next((as_attribute(str(each)) for each in names if str(each).startswith("-")), None)
        if isinstance(outer, ast.stmt):
            return None
    return None


def _is_option_given(subject: ScriptSubject, option: str | None) -> bool:
    return option is not None and is_given(subject.job, option)


def _reads_any(program: Program) -> bool:
    """Whether a script may read channels whose names it calculates."""
    for file in program.files:
        for node in ast.walk(file.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
                if (
                    text in _ANY
                    or text == VARIABLE
                    or text.rstrip("/") in (FOLDER, "/opt/ml/input", "/opt/ml")
                ):
                    return True
                if isinstance(parent_of(node), ast.JoinedStr) and (VARIABLE in text or FOLDER in text):
                    return True
    return False


def _texts(subject: ScriptSubject) -> Iterator[str]:
    """All that could name a channel: texts of the script, and what the job gives it."""
    for file in subject.program.files:
        for node in ast.walk(file.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
    job = subject.job
    yield from map(str, (*job.hyperparameters.values(), *job.code.arguments, *job.environment.values()))
