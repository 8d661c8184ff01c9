"""How process groups are made and ended, and whether their backend is there."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from launcher.failure_modes import ddp, distribution
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import argument_of, constant_argument, has_star_arguments
from launcher.program.guards import Guard
from launcher.program.index import (
    FunctionNode,
    Scope,
    file_of,
    scope_of,
)
from launcher.program.participants import Participants
from launcher.program.program import Program
from launcher.program.values import DDP, INIT_PROCESS_GROUP, Constant, Instance
from launcher.rules.script.findings import destroy_group_at_end, finding_at, related_at

SHORT_TIMEOUT = 300
"""Seconds: what catalogue and tutorials call short, and a large checkpoint or download may take longer."""

_SECONDS = {
    "seconds": 1.0,
    "minutes": 60.0,
    "hours": 3600.0,
    "days": 86400.0,
    "milliseconds": 1e-3,
    "microseconds": 1e-6,
    "weeks": 604800.0,
}
_POSITIONS = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")

_LONG = {
    "torch.save": "saves",
    "torch.hub.load_state_dict_from_url": "downloads",
    "torch.hub.download_url_to_file": "downloads",
    "urllib.request.urlretrieve": "downloads",
    "huggingface_hub.snapshot_download": "downloads",
    "huggingface_hub.hf_hub_download": "downloads",
    "datasets.load_dataset": "downloads",
    "shutil.copytree": "copies",
    "tarfile.TarFile.extractall": "unpacks",
    "tarfile.open.extractall": "unpacks",
    "zipfile.ZipFile.extractall": "unpacks",
}
"""What one rank may do for minutes while the others wait, and the word for it."""


@finds(Stage.SCRIPT, ddp.FIND_UNUSED_LEFT_ON)
def unused_parameters_are_not_looked_for(program: Program) -> Iterator[Finding]:
    """`find_unused_parameters=True` written at the wrapper.

    It walks the graph after every forward. Informational: only a run shows whether it is needed.

    Bad: `DDP(model, find_unused_parameters=True)`. Good: `DDP(model)`. Source: torch's DDP documentation.
    """
    wrappers = (
        DDP,
        "accelerate.DistributedDataParallelKwargs",
        "accelerate.utils.DistributedDataParallelKwargs",
    )
    strategies = ("lightning.pytorch.strategies.DDPStrategy", "lightning.fabric.strategies.DDPStrategy")
    for call, _ in program.calls(*wrappers, *strategies):
        given = argument_of(call, "find_unused_parameters")
        if given is not None and program.value(given) == Constant(True):
            yield finding_at(
                ddp.FIND_UNUSED_LEFT_ON,
                given,
                "find_unused_parameters=True walks the whole graph after every forward pass, on each rank "
                "and step: lost time where every parameter is used",
            )


@finds(Stage.SCRIPT, ddp.GROUP_TIMEOUT_UNSUITABLE)
def groups_have_a_fitting_timeout(program: Program) -> Iterator[Finding]:
    """A process group without a timeout, or with one shorter than what one rank does while others wait.

    Without one it is informational. A timeout of at most 300 s is a warning where the program lets some
    ranks alone save, download or unpack: the others are in their next collective meanwhile.

    Bad: `init_process_group("nccl", timeout=timedelta(seconds=60))` and a `torch.save` under
    `if rank == 0:`. Good: `timeout=timedelta(minutes=30)`. Source: torch.distributed's documentation.
    """
    participants = program.analysis(Participants)
    for call, _ in program.calls(INIT_PROCESS_GROUP):
        given = argument_of(call, "timeout", 2)
        if given is None:
            if not has_star_arguments(call):
                yield finding_at(
                    ddp.GROUP_TIMEOUT_UNSUITABLE,
                    call,
                    "no timeout is given: the default ends a rank that waits longer for another one's "
                    "checkpoint or download, and is how long a real hang keeps the whole cluster",
                    severity=Severity.INFO,
                )
            continue
        seconds = _seconds(program, given)
        if seconds is None or not 0 < seconds <= SHORT_TIMEOUT:
            continue
        work = next(_work_of_some_ranks(program, participants), None)
        if work is not None:
            place, word, guard = work
            yield finding_at(
                ddp.GROUP_TIMEOUT_UNSUITABLE,
                given,
                f"the timeout is {seconds:g} s, and {guard.described} alone {word} while the others wait in "
                "their next collective: where that takes longer, they are killed",
                related=[related_at(place, f"run by {guard.described} alone")],
            )


def _work_of_some_ranks(
    program: Program, participants: Participants
) -> Iterator[tuple[ast.Call, str, Guard]]:
    for call, name in program.calls(*_LONG):
        who = participants.ranks_running(call)
        if isinstance(who, Guard):
            yield call, _LONG[name], who


def _seconds(program: Program, node: ast.expr) -> float | None:
    """How long a `timedelta(...)` of literals is."""
    value = program.value(node)
    if (
        not isinstance(value, Instance)
        or value.name != "datetime.timedelta"
        or has_star_arguments(value.call)
    ):
        return None
    given = dict(zip(_POSITIONS, value.call.args, strict=False))
    given.update({each.arg: each.value for each in value.call.keywords if each.arg is not None})
    total = 0.0
    for unit, amount in given.items():
        number = program.value(amount)
        if not isinstance(number, Constant) or not isinstance(number.value, int | float):
            return None
        total += _SECONDS.get(unit, 0.0) * number.value
    return total


@finds(Stage.SCRIPT, ddp.GROUP_NEVER_DESTROYED)
def groups_are_destroyed(program: Program) -> Iterator[Finding]:
    """A program that makes a process group and nowhere destroys one: informational.

    A rank that exits with operations pending may keep another one from exiting. Silent about a function that
    the program never calls.

    Bad: a `main()` that ends after training. Good: `dist.destroy_process_group()` as its last line.

    Source: torch.distributed's documentation, on shutdown.
    """
    if program.unread or any("destroy_process_group" in file.text for file in program.files):
        return
    for call, _ in program.calls(INIT_PROCESS_GROUP):
        function = scope_of(call).function
        if function is not None and _is_never_called(program, function):
            continue
        yield finding_at(
            ddp.GROUP_NEVER_DESTROYED,
            call,
            "the process group that is made here is never destroyed: a rank that exits with operations "
            "pending may keep another one from exiting",
            fix=destroy_group_at_end(program, call),
        )


def _is_never_called(program: Program, scope: Scope, deepest: int = 8) -> bool:
    """Whether a function stands in a module that another program may use, and this one calls it nowhere, or
    from functions alone that it never calls.
    """
    function = scope.node
    if not isinstance(function, FunctionNode) or file_of(function) is program.entry or deepest == 0:
        return False
    sites = program.evaluation.callers.call_sites(function)
    scopes = [scope_of(site.call).function for site in sites or ()]
    return sites is not None and all(
        each is not None and _is_never_called(program, each, deepest - 1) for each in scopes
    )


GROUP_RULES = (unused_parameters_are_not_looked_for, groups_have_a_fitting_timeout, groups_are_destroyed)


# Whether the backend that a process group is made with is there.


_BY_NAME = ("import_module", "__import__", "exec", "load_module")
"""Calls that may import anything."""


@finds(Stage.SCRIPT, distribution.SCRIPT_DOES_NOT_FIT_STRATEGY)
def backends_are_imported(program: Program) -> Iterator[Finding]:
    """`init_process_group("smddp")` in a program that imports nothing of SMDDP.

    The backend is registered when its module is imported; without that torch knows of none by this name, and
    every process ends there. Silent where a library that nobody has read may import it.

    Bad: `import torch.distributed as dist` and `dist.init_process_group("smddp")`. Good: before it
    `import smdistributed.dataparallel.torch.torch_smddp`.

    Source: AWS's guide to SMDDP; torch/distributed/distributed_c10d.py (Backend._plugins).
    """
    if _may_register(program):
        return
    for call, _ in program.calls(INIT_PROCESS_GROUP):
        backend = constant_argument(program, argument_of(call, "backend", 0))
        if not has_star_arguments(call) and backend is not None and str(backend.value).lower() == "smddp":
            yield finding_at(
                distribution.SCRIPT_DOES_NOT_FIT_STRATEGY,
                call,
                "nothing imports smdistributed.dataparallel.torch.torch_smddp, which registers the backend "
                "smddp: torch knows of none by this name, and every process ends here",
                remedy="Put `import smdistributed.dataparallel.torch.torch_smddp` before it.",
            )


def _may_register(program: Program) -> bool:
    """Whether anything that a program imports may register a backend."""
    return imports_the_unknown(program) or any(
        any(name in file.calls_of for name in _BY_NAME)
        or any((each.module or "").startswith("torch.sagemaker") for each in file.imports)
        for file in program.files
    )


BACKEND_RULES = (backends_are_imported,)


# Whether a program imports only libraries of which it is known what they do with process groups.


_PLAIN = frozenset(
    {
        "numpy",
        "torch",
        "torchvision",
        "torchaudio",
        "tqdm",
        "PIL",
        "pandas",
        "yaml",
        "matplotlib",
        "sklearn",
        "scipy",
        "tensorboard",
        "tensorboardX",
        "boto3",
        "botocore",
        "cv2",
        "requests",
        "smdebug",
    }
)
"""The libraries of which it is known that they make no process group and register no backend."""


def imports_the_unknown(program: Program) -> bool:
    """Whether anything that a program imports could make a group, or a backend; what cannot be read could."""
    if program.unread:
        return True
    for file in program.files:
        if any(star.startswith(".") for star in file.stars):
            return True
        for binding in file.imports:
            root = (binding.module or "").partition(".")[0]
            own = program.module(binding.module or "", file) or program.module(root, file)
            if own is None and root not in _PLAIN and root not in sys.stdlib_module_names:
                return True
    return False
