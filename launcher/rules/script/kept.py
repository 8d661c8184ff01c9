"""What a script saves and loads, judged with the job: what is left when the hosts are gone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import checkpoints
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.container_paths import CODE_FOLDER, CONTAINER_ROOT
from launcher.rules.script.finding import found
from launcher.rules.script.subject import ScriptSubject
from launcher.scripts.arguments import argument
from launcher.scripts.program import Program
from launcher.scripts.scopes import last_name
from launcher.scripts.values import Constant

_LOST = ("/tmp/", "/root/", "/home/", "~/", "/var/", f"{CODE_FOLDER}/")
"""Folders of a host that are deleted with it."""

_MOVERS = ("shutil.", "subprocess.", "os.system", "os.rename", "os.replace", "os.chdir", "contextlib.chdir")
_MOVING = frozenset({"put_object", "push_to_hub", "log_artifact", "log_artifacts", "log_model", "main"})
"""What may bring a file elsewhere, or make a relative path mean another folder, as hydra's `main` does."""

_LOADERS = (
    "load_state",
    "load_checkpoint",
    "load_model",
    "load_ckpt",
    "load_weights",
    "load_snapshot",
    "restore",
    "resum",
    "checkpoint",
    "snapshot",
)
_PATHS = ("os.path.join", "pathlib.Path", "str")
_OTHER_LOADS = ("json.", "yaml.", "numpy.", "csv.", "toml")


@finds(Stage.SCRIPT, checkpoints.PATH_NOT_KEPT)
def saves_go_where_they_are_kept(subject: ScriptSubject) -> Iterator[Finding]:
    """With a job: `torch.save` to a folder of the host that is deleted with it.

    That is the working directory, /tmp, home, and the checkpoints' folder where the job keeps none. Silent
    where the path is not written in the program, and where anything in it may bring the file elsewhere. A
    warning where the program also saves to other places.

    Bad: `torch.save(state, "model.pt")`. Good: `os.path.join(os.environ["SM_MODEL_DIR"], "model.pt")`.
    Source: developer guide, model-train-storage.
    """
    program, planned = subject.program, subject.plan.checkpoints
    if _may_move_files(program):
        return
    kept = () if planned is None else (planned.local_path,)
    saves = [call for call, _ in program.calls("torch.save")]
    lost = [call for call in saves if _is_lost(program, call, kept)]
    for call in lost:
        path = argument(call, "f", 1)
        assert path is not None
        where = f"keeps {planned.local_path}" if planned is not None else "keeps no folder for checkpoints"
        yield found(
            checkpoints.PATH_NOT_KEPT,
            call,
            f"`{ast.unparse(path)}` is on the host's own disk, which is deleted with the job; beside the "
            f"folders of the model and the output this job {where}",
            severity=Severity.WARNING if len(lost) < len(saves) else None,
        )


def _may_move_files(program: Program) -> bool:
    for file in program.files:
        for call in file.calls:
            last, whole = last_name(call.func) or "", program.qualified(call.func) or ""
            if "upload" in last.lower() or whole.startswith(_MOVERS):
                return True
            if last in _MOVING and (last != "main" or whole == "hydra.main"):
                return True
    return False


def _is_lost(program: Program, call: ast.Call, kept: tuple[str, ...]) -> bool:
    path = argument(call, "f", 1)
    begins = None if path is None else _beginning(program, path)
    if begins is None:
        return False
    whole = f"{begins.rstrip('/')}/"
    if any(whole.startswith(f"{each.rstrip('/')}/") for each in kept):
        return False
    if not begins.startswith(("/", "~")):
        return "://" not in begins
    return whole.startswith((*_LOST, f"{CONTAINER_ROOT}/checkpoints/"))


def _beginning(program: Program, path: ast.expr) -> str | None:
    """What a path begins with, where that is written in the program."""
    value = program.value(path)
    if isinstance(value, Constant):
        return value.value if isinstance(value.value, str) and value.value else None
    if isinstance(path, ast.JoinedStr) and path.values:
        first = path.values[0]
        return _beginning(program, first.value if isinstance(first, ast.FormattedValue) else first)
    if isinstance(path, ast.BinOp) and isinstance(path.op, ast.Add | ast.Div | ast.Mod):
        return _beginning(program, path.left)
    if isinstance(path, ast.Call) and path.args and program.qualified(path.func) in _PATHS:
        return _beginning(program, path.args[0])
    if isinstance(path, ast.Name):
        bindings = program.evaluation.sources(path)
        if len(bindings) == 1 and bindings[0].value is not None and bindings[0].item is None:
            return _beginning(program, bindings[0].value) if not _is_loop(bindings[0].node) else None
    return None


def _is_loop(node: ast.AST) -> bool:
    return isinstance(node, ast.For | ast.AsyncFor | ast.comprehension | ast.withitem)


@finds(Stage.SCRIPT, checkpoints.NOTHING_TO_RESUME_FROM)
def what_restarts_loads_a_checkpoint(subject: ScriptSubject) -> Iterator[Finding]:
    """With a job on spot capacity or with retries: a program with a training loop that loads nothing.

    After an interruption it starts from the beginning, though its checkpoints are there. Silent where
    anything in the program may load or resume, by its name or by an argument's.

    Bad: a loop that only saves. Good: `torch.load` of the newest checkpoint before it. Source: developer
    guide, model-managed-spot-training.
    """
    job, program = subject.job, subject.program
    spot = job.resources.capacity.kind == "spot"
    if not spot and not job.limits.max_retries:
        return
    if subject.plan.checkpoints is None or program.unread or _may_load(program):
        return
    why = (
        "`capacity: spot` may be interrupted"
        if spot
        else f"`max_retries: {job.limits.max_retries}` starts again"
    )
    for file in program.files:
        for call in file.calls_of.get("backward", ()):
            yield found(
                checkpoints.NOTHING_TO_RESUME_FROM,
                call,
                f"{why}, and nothing in this program loads a checkpoint: it would train from the beginning, "
                "and what was done until then is paid for twice",
                remedy=f"Load the newest checkpoint of {subject.plan.checkpoints.local_path} at the start, "
                "with the states of model, optimizer and scheduler.",
            )
            return


def _may_load(program: Program) -> bool:
    for file in program.files:
        if file.stars:
            return True
        for call in file.calls:
            name = (last_name(call.func) or "").lower()
            if any(word in name for word in _LOADERS) and not name.startswith("save"):
                return True
            if name == "load" and not (program.qualified(call.func) or "").startswith(_OTHER_LOADS):
                return True
            if any((each.arg or "").lower().startswith(("resume", "ckpt")) for each in call.keywords):
                return True
    return False


JOB_RULES = (saves_go_where_they_are_kept, what_restarts_loads_a_checkpoint)
