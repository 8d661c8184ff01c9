"""Findings on a terminal."""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from launcher.failure_modes.model import Finding, Location, Severity, Stage
from launcher.text.secrets import without_credentials

if TYPE_CHECKING:
    from rich.console import Console

EXCERPT_WIDTH = 72
_PRIVATE_FIELDS = re.compile(r"\b(environment|hyperparameters|arguments|secrets)\b")
STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}


def show_findings(console: Console, findings: Sequence[Finding]) -> None:
    """Print the findings, the worst first: what, where, and what to do.

    Informations on a script are for `launch lint --verbose`: most public scripts have some.
    """
    from rich.table import Table
    from rich.text import Text

    order = list(Severity)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    told = [each for each in findings if (each.stage, each.severity) != (Stage.SCRIPT, Severity.INFO)]
    for finding in sorted(told, key=lambda finding: (finding.ignored, order.index(finding.severity))):
        style = "dim" if finding.ignored else STYLES[finding.severity]
        body = Text(finding.message)
        if finding.location is not None:
            body.append(f"\nat {finding.location}", "dim")
            body.append(_excerpt(finding.location), "dim")
        for each in finding.related:
            body.append(f"\n{each.message}: {each.location}", "dim")
        if not finding.ignored:
            body.append(f"\n→ {finding.remedy}")
        label = "ignored" if finding.ignored else finding.severity.value
        grid.add_row(Text(label, style), finding.code, body)
    console.print(grid)


def _excerpt(location: Location) -> str:
    """The line of the file with a caret below the place, or nothing where there is no such line.

    Long lines are cut around the place; tabs count as one column, as in the location. Lines that may
    hold a secret are not shown, and credentials in addresses are hidden.
    """
    line = linecache.getline(location.file, location.line).rstrip("\n").replace("\t", " ")
    if not line.strip() or _may_hold_secret(location):
        return ""
    before = without_credentials(line[: location.column - 1])
    shown = before + without_credentials(line[location.column - 1 :])
    start = max(0, len(before) - EXCERPT_WIDTH // 2)
    return f"\n  {shown[start : start + EXCERPT_WIDTH]}\n  {' ' * (len(before) - start)}^"


def _may_hold_secret(location: Location) -> bool:
    """Whether the line belongs to a field whose values are not for the terminal."""
    for number in range(location.line, 0, -1):
        line = linecache.getline(location.file, number)
        if _PRIVATE_FIELDS.search(line):
            return True
        if line[:1].strip() and not line.startswith("#"):
            return False  # The top-level key that the line belongs to.
    return False


def summary_of(findings: Sequence[Finding]) -> str:
    """Such as `2 errors, 1 warning`."""
    counted = [finding for finding in findings if not finding.ignored]
    parts = []
    for severity, word in ((Severity.ERROR, "error"), (Severity.WARNING, "warning")):
        number = sum(finding.severity is severity for finding in counted)
        if number:
            parts.append(f"{number} {word}{'s' if number > 1 else ''}")
    return ", ".join(parts) or "no errors"
