"""A diagnosis on a terminal: the root cause, the lines that show it, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from launcher.diagnosis.model import Diagnosis

_ADVICE = {
    "never": "as it is, it would fail again",
    "same": "the same job may well succeed",
    "other-hosts": "a new job gets other hosts; the same warm pool does not",
    "later": "submit it again in a while",
}


def show_cause(terminal: Console, diagnosis: Diagnosis) -> None:
    """Print the root cause with its evidence, the remedy and whether to run again, where one is known."""
    from rich.padding import Padding
    from rich.text import Text

    cause = diagnosis.root_cause
    if cause is None:
        return
    finding, retry, bad = cause.finding, diagnosis.retry.value, diagnosis.verdict.is_bad
    terminal.print(
        Text.assemble((finding.code, f"bold {'red' if bad else 'yellow'}"), " ", (finding.message, "bold"))
    )
    for line in cause.evidence:
        if line not in finding.message:
            shown = Text(f"│ {line}", "dim", overflow="ellipsis", no_wrap=True)
            terminal.print(Padding(shown, (0, 0, 0, 2)))
    terminal.print(Text(f"→ {finding.remedy}"))
    if bad:
        terminal.print(Text(f"→ Retry {retry}: {_ADVICE[retry]}."))


def show_consequences(terminal: Console, diagnosis: Diagnosis) -> None:
    """Print what followed from the root cause and what else was found, a line each."""
    from rich.text import Text

    followed = {id(finding) for finding in diagnosis.consequences}
    for finding in diagnosis.findings[1 if diagnosis.root_cause else 0 :]:
        label = "followed" if id(finding) in followed else "also"
        line = f"{label}  {finding.code}  {finding.message}"
        terminal.print(Text(line, "dim", overflow="ellipsis", no_wrap=True))
