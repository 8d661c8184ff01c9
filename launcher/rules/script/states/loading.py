"""Where states are loaded to, beside each GPU or all on the first one, and the commands that upload them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from launcher.failure_modes import checkpoints, distribution
from launcher.failure_modes.model import Finding, Fix, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import (
    argument_of,
    has_star_arguments,
)
from launcher.program.index import (
    ancestors,
    file_of,
    last_name,
    parent_of,
    scope_of,
)
from launcher.program.program import Program
from launcher.program.ranks.participants import Participants
from launcher.program.values import DDP, FSDP, Constant
from launcher.rules.script.findings import finding_at, wrap_node

# Where a checkpoint is loaded to: beside each process's own GPU, or all on the first one.


@finds(Stage.SCRIPT, distribution.MORE_PROCESSES_THAN_DEVICES)
def checkpoints_are_loaded_beside_the_gpu(program: Program) -> Iterator[Finding]:
    """`torch.load` without `map_location`, on every rank, of a state that this program saves from a GPU.

    Tensors come back to the device that they were saved from: those of rank 0 to GPU 0, in every process of
    the host, whichever device it has set. Informational, as that memory is needed until the state is copied.

    Silent where the state is not given to load_state_dict, where nothing in the program saves a state from
    `cuda`, and where not every rank loads.

    Bad: `model.load_state_dict(torch.load(path))`. Good: `torch.load(path, map_location="cpu")`.

    Source: torch's documentation of torch.load.
    """
    if not any(True for _ in program.calls(DDP, FSDP)) or not _saves_from_cuda(program):
        return
    participants = program.analysis(Participants)
    for call, _ in program.calls("torch.load"):
        if (
            argument_of(call, "map_location", 1) is not None
            or has_star_arguments(call)
            or not _is_a_state(call)
        ):
            continue
        if participants.ranks_running(call) is True:
            yield finding_at(
                distribution.MORE_PROCESSES_THAN_DEVICES,
                call,
                "without map_location the tensors come back to the GPU that they were saved from: every "
                "process of the host takes memory of the first one",
                remedy='Load with map_location="cpu": load_state_dict copies to the device of each process.',
                severity=Severity.INFO,
                fix=_onto_the_cpu(call),
            )


def _saves_from_cuda(program: Program) -> bool:
    """Whether a state is saved, in a program that moves to `cuda` and brings no state back to the CPU."""
    states = (each for file in program.files for each in file.calls_of.get("state_dict", ()))
    if not any(True for _ in program.calls("torch.save")) or not any(True for _ in states):
        return False
    moves = any(
        file.calls_of.get("cuda") or '"cuda' in file.text or "'cuda" in file.text for file in program.files
    )
    return moves and not any(
        _is_of_a_state(each) for file in program.files for each in file.calls_of.get("cpu", ())
    )


_STATES = re.compile(r"state|model|net\b|ckpt|checkpoint|param|weight|\.items\(\)")


def _is_of_a_state(moved: ast.Call) -> bool:
    """Whether `.cpu()` may be of a state that is saved, by what stands around it; a loss says its number."""
    around: ast.AST = moved
    for outer in ancestors(moved):
        if isinstance(outer, ast.DictComp | ast.For | ast.GeneratorExp | ast.ListComp):
            around = outer.iter if isinstance(outer, ast.For) else outer
        elif isinstance(outer, ast.stmt):
            break
    owner = moved.func.value if isinstance(moved.func, ast.Attribute) else moved
    called = isinstance(owner, ast.Call) and last_name(owner.func) not in ("state_dict", "items", "module")
    return bool(_STATES.search(ast.unparse(around))) and not (around is moved and called)


def _is_a_state(load: ast.Call) -> bool:
    """Whether what is loaded is given to load_state_dict: at once, or by the name that it gets."""
    if any(
        isinstance(each, ast.Call) and last_name(each.func) == "load_state_dict" for each in ancestors(load)
    ):
        return True
    statement = parent_of(load)
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return False
    name, scope = statement.targets[0].id, scope_of(statement)
    return any(
        scope_of(use) is scope
        and any(
            isinstance(each, ast.Call) and last_name(each.func) == "load_state_dict"
            for each in ancestors(use)
        )
        for use in file_of(statement).names.get(name, ())
    )


def _onto_the_cpu(load: ast.Call) -> Fix | None:
    """`map_location="cpu"` behind the path; unsafe, as a program may use the loaded tensors themselves."""
    if len(load.args) != 1 or isinstance(load.args[0], ast.GeneratorExp):
        return None
    return Fix(False, wrap_node(load.args[0], "", ', map_location="cpu"'))


LOADING_RULES = (checkpoints_are_loaded_beside_the_gpu,)
"""The rules of this family, in the order in which their findings are shown."""


# Commands that a script runs to bring checkpoints elsewhere.


_RUNNERS = ("subprocess.run", "subprocess.call", "subprocess.Popen", "os.system")
_ENDS = frozenset({"wait", "communicate"})


@finds(Stage.SCRIPT, checkpoints.LARGE_UPLOAD_FAILS)
def uploads_are_looked_at(program: Program) -> Iterator[Finding]:
    """`aws s3 sync` whose exit code nobody reads.

    An upload that failed looks like one that went well, and the checkpoint is not there when it is needed.

    Bad: `subprocess.Popen(["aws", "s3", "sync", path, uri]).wait()`. Good: `subprocess.run([...],
    check=True)`. Source: AWS's guide distributed-troubleshooting-model-parallel, whose function has this
    fault.
    """
    for call, name in program.calls(*_RUNNERS):
        command = argument_of(call, "command" if name == "os.system" else "args", 0)
        if command is None or not _is_upload(program, command):
            continue
        check = argument_of(call, "check")
        if name == "subprocess.run" and check is not None and program.value(check) != Constant(False):
            continue
        if _result_is_read(call):
            continue
        yield finding_at(
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


COMMAND_RULES = (uploads_are_looked_at,)
