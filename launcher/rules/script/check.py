"""All rules on a script, in the order in which their findings are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from launcher.failure_modes.model import Finding
from launcher.rules.script.collectives import (
    collectives_are_run_by_every_rank,
    no_collectives_in_exception_handlers,
)
from launcher.scripts.program import Program

RULES: tuple[Callable[[Program], Iterator[Finding]], ...] = (
    collectives_are_run_by_every_rank,
    no_collectives_in_exception_handlers,
)


def check_program(program: Program) -> list[Finding]:
    """The findings of every rule on the program alone, in the order of RULES."""
    return [finding for rule in RULES for finding in rule(program)]
