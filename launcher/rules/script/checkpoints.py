"""Checkpoints: who writes them, with which keys, and whether their upload is looked at."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import checkpoints
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.finding import found, note
from launcher.rules.script.hosts_paths import is_a_hosts_own
from launcher.rules.script.rank_fixes import on_rank_zero
from launcher.scripts.arguments import argument, is_open
from launcher.scripts.distributed import starts
from launcher.scripts.guard import Guard
from launcher.scripts.participants import Participants
from launcher.scripts.program import Program
from launcher.scripts.scopes import ancestors, file_of, last_name, parent_of, scope_of
from launcher.scripts.values import Constant, Instance, RankKind, RankValue

_SAVERS = {
    "torch.save": ("f", 1),
    "torch.jit.save": ("f", 1),
    "safetensors.torch.save_file": ("filename", 1),
    "safetensors.torch.save_model": ("filename", 1),
    "joblib.dump": ("filename", 1),
}
"""What writes a checkpoint to one file, and which argument is its path.

Not texts such as metrics.json, which are small and the same, nor pickle and numpy, which also write caches.
"""

_FOLDER = ("save_directory", 0)
"""Where a transformers model is saved."""

_RUNNERS = ("subprocess.run", "subprocess.call", "subprocess.Popen", "os.system")
_ENDS = frozenset({"wait", "communicate"})


@finds(Stage.SCRIPT, checkpoints.RANKS_WRITE_SAME_FILE)
def one_rank_writes_a_file(program: Program) -> Iterator[Finding]:
    """`torch.save` that every rank, or one rank of each host, runs with one path.

    The ranks overwrite each other's file, in the middle of the write where the file system is shared. A path
    that may differ between ranks, and a save that some ranks may not come to, say nothing; nor does one of
    each host below /tmp, which each has for itself. The same holds for safetensors, joblib, torch.jit and
    save_pretrained of a transformers model. Informational where the script comes to nothing that makes it one
    of several processes, as a converter does that shares a module with the training, and where only what it
    imports makes the group and nothing is trained, as in inference: of 67 places of public code that nobody
    had seen, this rule was right about 39 at first.

    Bad: `torch.save(model.state_dict(), "model.pt")`. Good: the same under `if dist.get_rank() == 0:`, or
    with `f"model-{rank}.pt"`. Source: developer guide, model-checkpoints.
    """
    making = [call for call, _ in starts(program)]
    if not making:
        return
    participants = Participants(program)
    severity = None if program.reach.is_one_of_several(making) else Severity.INFO
    for call, name in (*program.calls(*_SAVERS), *_models_saved(program)):
        path = _opened(program, argument(call, *_SAVERS.get(name, _FOLDER)))
        if path is None or not participants.agreement.holds(path):
            continue
        who = participants.who(call)
        written = ast.unparse(path)
        if who is True:
            yield found(
                checkpoints.RANKS_WRITE_SAME_FILE,
                call,
                f"every rank saves to `{written}`: they overwrite each other, on a shared file system in the "
                "middle of the write, and the file that is left may be torn",
                remedy="Save on one rank, under `if dist.get_rank() == 0:`, or put the rank into the file's "
                "name where each rank holds another part.",
                severity=severity,
                fix=on_rank_zero(call),
            )
        elif (
            isinstance(who, Guard)
            and who.kind is RankKind.LOCAL
            and who.members == frozenset({0})
            and not who.outside
            and not _is_spawned(program, who)
            and not is_a_hosts_own(program, path)
        ):
            yield found(
                checkpoints.RANKS_WRITE_SAME_FILE,
                call,
                f"one rank of every host saves to `{written}`: on a file system that the hosts share, or in "
                "the one S3 prefix that their checkpoint folders go to, they overwrite each other",
                remedy="Save on global rank 0 alone, or put the host's number into the name.",
                severity=severity or Severity.WARNING,
                related=[] if who.test is None else [note(who.test, "true on one rank of every host")],
            )


def _opened(program: Program, path: ast.expr | None) -> ast.expr | None:
    """The path of what is written to: that of `open(path, "wb")`, where it is such a file."""
    value = None if path is None else program.value(path)
    if isinstance(value, Instance) and value.name == "open":
        return argument(value.call, "file", 0)
    return path


def _models_saved(program: Program) -> Iterator[tuple[ast.Call, str]]:
    """The calls of save_pretrained of a transformers model, where nothing tells which rank saves."""
    for file in program.files:
        for call in file.calls_of.get("save_pretrained", ()):
            if not isinstance(call.func, ast.Attribute) or is_open(call) or argument(call, "is_main_process"):
                continue
            model = program.value(call.func.value)
            name = model.name if isinstance(model, Instance) else ""
            if name.startswith("transformers.") and "Model" in name and name.endswith(".from_pretrained"):
                yield call, "save_pretrained"


def _is_spawned(program: Program, guard: Guard) -> bool:
    """Whether a guard asks for the number that `spawn` gives, which is a global rank on a single host."""
    parts = (
        [] if guard.test is None else [each for each in ast.walk(guard.test) if isinstance(each, ast.expr)]
    )
    values = [program.value(each) for each in parts]
    return any(isinstance(each, RankValue) and each.source == "spawn" for each in values)


@finds(Stage.SCRIPT, checkpoints.UNEXPECTED_KEY_PREFIX)
def keys_are_not_cut_by_partition(program: Program) -> Iterator[Finding]:
    """`key.partition("module.")[2]`, which turns a key without the prefix into the empty string.

    All but one of those keys are lost. Right where a test for the prefix goes before it.

    Bad: `{k.partition("module.")[2]: v for k, v in state.items()}`. Good: `k.removeprefix("module.")`.
    Source: the recipe of AWS's guide distributed-troubleshooting-data-parallel.
    """
    for file in program.files:
        for call in file.calls_of.get("partition", ()):
            taken = parent_of(call)
            if not (isinstance(taken, ast.Subscript) and taken.value is call and len(call.args) == 1):
                continue
            item, prefix = program.value(taken.slice), program.value(call.args[0])
            if item not in (Constant(2), Constant(-1)) or not isinstance(prefix, Constant):
                continue
            key = call.func.value if isinstance(call.func, ast.Attribute) else None
            if not isinstance(prefix.value, str) or not prefix.value.endswith(".") or key is None:
                continue
            if not _becomes_a_key(taken) or _asked_before(taken, ast.unparse(key), prefix.value):
                continue
            yield found(
                checkpoints.UNEXPECTED_KEY_PREFIX,
                taken,
                f"`{ast.unparse(taken)}` is the empty string for every key without {prefix.value!r}: all of "
                "them become one key, and all but one of their tensors are lost",
                remedy=f"Use `{ast.unparse(key)}.removeprefix({prefix.value!r})`, which keeps other keys.",
            )


def _becomes_a_key(node: ast.expr) -> bool:
    """Whether an expression is the key of a dictionary that a loop over another one fills."""
    parent = parent_of(node)
    if isinstance(parent, ast.DictComp):
        return parent.key is node
    if isinstance(parent, ast.Tuple):  # `dict((k.partition("module.")[2], v) for k, v in ...)`
        return isinstance(parent_of(parent), ast.GeneratorExp | ast.ListComp) and parent.elts[0] is node
    if isinstance(parent, ast.Subscript) and parent.slice is node:
        return isinstance(parent.ctx, ast.Store) and any(
            isinstance(each, ast.For) for each in ancestors(node)
        )
    return False


def _asked_before(node: ast.expr, key: str, prefix: str) -> bool:
    """Whether a test around an expression looks at the key, or for the prefix in another one: keys of a
    wrapped model all have it, so that people ask for the first."""
    inner: ast.AST = node
    for outer in ancestors(node):
        tests: list[ast.expr] = []
        if isinstance(outer, ast.If | ast.IfExp) and inner is not outer.test:
            tests = [outer.test]
        elif isinstance(outer, ast.DictComp | ast.GeneratorExp | ast.ListComp):
            tests = [test for each in outer.generators for test in each.ifs]
        asked = [part for test in tests for part in ast.walk(test) if isinstance(part, ast.expr)]
        if any(ast.unparse(part) == key or _looks_for(part, prefix) for part in asked):
            return True
        inner = outer
    return False


def _looks_for(test: ast.expr, prefix: str) -> bool:
    """Whether something is asked for beginning with the prefix."""
    return (
        isinstance(test, ast.Call)
        and last_name(test.func) == "startswith"
        and any(isinstance(each, ast.Constant) and each.value == prefix for each in test.args)
    )


@finds(Stage.SCRIPT, checkpoints.LARGE_UPLOAD_FAILS)
def uploads_are_looked_at(program: Program) -> Iterator[Finding]:
    """`aws s3 sync` whose exit code nobody reads.

    An upload that failed looks like one that went well, and the checkpoint is not there when it is needed.

    Bad: `subprocess.Popen(["aws", "s3", "sync", path, uri]).wait()`. Good: `subprocess.run([...],
    check=True)`. Source: AWS's guide distributed-troubleshooting-model-parallel, whose function has this
    fault.
    """
    for call, name in program.calls(*_RUNNERS):
        command = argument(call, "command" if name == "os.system" else "args", 0)
        if command is None or not _is_upload(program, command):
            continue
        check = argument(call, "check")
        if name == "subprocess.run" and check is not None and program.value(check) != Constant(False):
            continue
        if _result_is_read(call):
            continue
        yield found(
            checkpoints.LARGE_UPLOAD_FAILS,
            call,
            "nobody reads the exit code of this `aws s3` command: an upload that failed looks like one that "
            "went well, and the checkpoint is missing when it is needed",
            remedy="Use subprocess.run([...], check=True), or look at the return code and try again.",
            severity=Severity.WARNING,
        )


def _is_upload(program: Program, command: ast.expr) -> bool:
    """Whether a command begins with `aws s3 sync` or `aws s3 cp`, as a list or as a text; not a download."""
    words: list[str] = []
    value = program.value(command)
    if isinstance(value, Constant):
        words = str(value.value).split()
    else:
        node = getattr(value, "node", command)
        parts = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
        for part in parts[:3]:
            first = part.values[0] if isinstance(part, ast.JoinedStr) and part.values else part
            if isinstance(first, ast.BinOp):
                first = first.left
            if isinstance(first, ast.Call) and isinstance(first.func, ast.Attribute):
                first = first.func.value  # `"aws s3 sync {} {}".format(...)`
            words += str(first.value).split() if isinstance(first, ast.Constant) else [""]
    brought = words[3:4] and words[3].startswith("s3://")  # What is missing then, the program misses at once.
    return words[:2] == ["aws", "s3"] and words[2:3] in (["sync"], ["cp"]) and not brought


def _result_is_read(call: ast.Call) -> bool:
    """Whether anybody may see how a command ended; a process that is only waited for is not looked at."""
    parent = parent_of(call)
    if isinstance(parent, ast.Expr):
        return False
    if isinstance(parent, ast.Attribute) and parent.attr in _ENDS:
        waited = parent_of(parent)
        return not (isinstance(waited, ast.Call) and isinstance(parent_of(waited), ast.Expr))
    if (
        isinstance(parent, ast.Assign)
        and len(parent.targets) == 1
        and isinstance(parent.targets[0], ast.Name)
    ):
        return _name_is_read(parent.targets[0])
    return True


def _name_is_read(target: ast.Name) -> bool:
    """Whether what a process is called is used for more than waiting for it."""
    scope = scope_of(target)
    for use in file_of(target).names.get(target.id, ()):
        if scope_of(use).holder_of(use.id) is not scope:
            continue
        member = parent_of(use)
        called = None if member is None else parent_of(member)
        waits = isinstance(member, ast.Attribute) and member.attr in _ENDS and isinstance(called, ast.Call)
        if not waits or not (called is not None and isinstance(parent_of(called), ast.Expr)):
            return True
    return False


RULES = (one_rank_writes_a_file, keys_are_not_cut_by_partition, uploads_are_looked_at)
