"""Which programs can be started: Python's own, shell scripts, and with the toolkit whatever can be run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from launcher.failure_modes import training_script
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import JobSpec

PYTHON = ("", ".py", ".pyc", ".pyz")
"""The endings of what Python runs; a script may have none."""

SHELL = ".sh"

_SHELL_REMEDY = (
    "Use `strategy: none`: each host then runs the script once, and it starts the ranks itself (`accelerate "
    "launch`, `deepspeed`, `torchrun`), as docs/starting-scripts.md shows. Or name the Python script that it "
    "starts."
)


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def python_alone(job: JobSpec, starter: str, endings: tuple[str, ...] = PYTHON) -> Iterator[Finding]:
    """An entry point that is no Python program, where `starter` starts nothing else."""
    entry_point = job.code.entry_point
    if entry_point is None or PurePosixPath(entry_point).suffix in endings:
        return
    is_shell = entry_point.endswith(SHELL)
    yield training_script.ENTRY_POINT_MISSING.at(
        ("code", "entry_point"),
        f"{starter} starts Python programs only: {entry_point} would end in a SyntaxError on every host",
        remedy=_SHELL_REMEDY if is_shell else _by_a_script(entry_point),
    )


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def python_or_shell(job: JobSpec) -> Iterator[Finding]:
    """An entry point that is neither for Python nor for a shell, by its ending."""
    entry_point = job.code.entry_point
    if entry_point is not None and PurePosixPath(entry_point).suffix not in (*PYTHON, SHELL):
        yield training_script.ENTRY_POINT_MISSING.at(
            ("code", "entry_point"),
            f"{entry_point} is neither a Python program nor a shell script (.sh), by its name: Python would "
            "try to run it, and end in a SyntaxError",
            remedy=_by_a_script(entry_point),
        )


def _by_a_script(entry_point: str) -> str:
    return (
        f'Call it in a shell script: `entry_point: run.sh` with the line `./{entry_point} "$@"`, and '
        "`strategy: none`. Or name a .py file."
    )
