"""How a rule on a script reports."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace

from launcher.failure_modes.model import FailureMode, Finding, Fix, Related, Severity, Stage
from launcher.scripts.scopes import file_of


def found(
    mode: FailureMode,
    node: ast.AST,
    message: str,
    *,
    remedy: str | None = None,
    severity: Severity | None = None,
    related: Iterable[Related] = (),
    fix: Fix | None = None,
) -> Finding:
    """A finding at a statement or expression of a program, which is its subject, as it is written."""
    file = file_of(node)
    finding = mode.finding(
        Stage.SCRIPT,
        message,
        remedy=remedy,
        severity=severity,
        location=file.location(node),
        subject=file.source(node),
    )
    return replace(finding, related=tuple(related), fix=fix)


def note(node: ast.AST, message: str) -> Related:
    """Another place that a finding speaks of."""
    return Related(file_of(node).location(node), message)
