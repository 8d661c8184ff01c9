"""Where a checkpoint is loaded to: beside each process's own GPU, or all on the first one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import distribution
from launcher.failure_modes.model import Finding, Fix, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.finding import found
from launcher.scripts.arguments import argument, is_open
from launcher.scripts.distributed import DDP, FSDP
from launcher.scripts.edits import wrapped
from launcher.scripts.participants import Participants
from launcher.scripts.program import Program
from launcher.scripts.scopes import ancestors, file_of, last_name, parent_of, scope_of


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
    participants = Participants(program)
    for call, _ in program.calls("torch.load"):
        if argument(call, "map_location", 1) is not None or is_open(call) or not _is_a_state(call):
            continue
        if participants.who(call) is True:
            yield found(
                distribution.MORE_PROCESSES_THAN_DEVICES,
                call,
                "without map_location the tensors come back to the GPU that they were saved from: every "
                "process of the host takes memory of the first one",
                remedy='Load with map_location="cpu": load_state_dict copies to the device of each process.',
                severity=Severity.INFO,
                fix=_onto_the_cpu(call),
            )


def _saves_from_cuda(program: Program) -> bool:
    """Whether a state is saved, in a program that moves to `cuda` and brings nothing back to the CPU."""
    saved = [call for call, _ in program.calls("torch.save") if "state_dict" in ast.unparse(call)]
    moves = any(
        file.calls_of.get("cuda") or '"cuda' in file.text or "'cuda" in file.text for file in program.files
    )
    return bool(saved) and moves and not any(file.calls_of.get("cpu") for file in program.files)


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
    return Fix(False, wrapped(load.args[0], "", ', map_location="cpu"'))


RULES = (checkpoints_are_loaded_beside_the_gpu,)
"""The rules of this family, in the order in which their findings are shown."""
