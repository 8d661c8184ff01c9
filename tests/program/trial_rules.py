"""Two rules that are simple enough to say what they find, for tests of what is done with findings."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from launcher.failure_modes import ddp, registry, training_script
from launcher.failure_modes.model import Finding, Fix, Stage
from launcher.program.index import ancestors
from launcher.program.program import Program
from launcher.rules.script import check
from launcher.rules.script.findings import finding_at, related_at, replace_node


def no_barrier(program: Program) -> Iterator[Finding]:
    """Each call of something called `barrier`."""
    for file in program.files:
        for call in file.calls_of.get("barrier", ()):
            guards = [node for node in ancestors(call) if isinstance(node, ast.If)]
            related = [related_at(guards[0], f"under `if {file.source(guards[0].test)}`")] if guards else []
            yield finding_at(ddp.COLLECTIVE_UNDER_RANK_GUARD, call, "barrier is called", related=related)


def no_group_left(program: Program) -> Iterator[Finding]:
    """Each call of something called `init_process_group`: an information."""
    for file in program.files:
        for call in file.calls_of.get("init_process_group", ()):
            yield finding_at(ddp.GROUP_NEVER_DESTROYED, call, "the group is never destroyed")


def environment_holds_text(program: Program) -> Iterator[Finding]:
    """Each number that is put into a subscript: with a fix, which is right for small numbers alone."""
    for file in program.files:
        for statement in file.nodes(ast.Assign):
            if not isinstance(statement.targets[0], ast.Subscript):
                continue
            value = statement.value
            if isinstance(value, ast.Constant) and isinstance(value.value, int):
                text = f'"{value.value}"' if value.value < 100 else f"{value.value + 1}"
                fix = Fix(value.value < 50, (replace_node(value, text),))
                yield finding_at(training_script.ENVIRONMENT_VALUE_NOT_STRING, value, "no text", fix=fix)


def use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge by these rules alone, as if they were the product's."""
    rules = (no_barrier, no_group_left, environment_holds_text)
    modes = (
        ddp.COLLECTIVE_UNDER_RANK_GUARD,
        ddp.GROUP_NEVER_DESTROYED,
        training_script.ENVIRONMENT_VALUE_NOT_STRING,
    )
    monkeypatch.setattr(registry, "REGISTRY", registry.REGISTRY.copy())
    monkeypatch.setattr(check, "REGISTRY", registry.REGISTRY)
    for rule, mode in zip(rules, modes, strict=True):
        registry.register(Stage.SCRIPT, (mode,), rule.__name__, rule)
    monkeypatch.setattr(check, "RULES", rules)
    monkeypatch.setattr(check, "RUN_RULES", ())
