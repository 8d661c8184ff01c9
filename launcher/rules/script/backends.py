"""Whether the backend that a process group is made with is there."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import distribution
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.finding import found
from launcher.rules.script.plain_libraries import imports_the_unknown
from launcher.scripts.arguments import argument, constant, is_open
from launcher.scripts.distributed import GROUP
from launcher.scripts.program import Program

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
    for call, _ in program.calls(GROUP):
        backend = constant(program, argument(call, "backend", 0))
        if not is_open(call) and backend is not None and str(backend.value).lower() == "smddp":
            yield found(
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


RULES = (backends_are_imported,)
