"""A diagnosis on a terminal: the root cause, the lines that show it, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from launcher.diagnosis.model import Diagnosis
    from launcher.failure_modes.model import Finding

_ADVICE = {
    "never": "as it is, it would fail again",
    "same": "the same job may well succeed",
    "other-hosts": "a new job gets other hosts; the same warm pool does not",
    "later": "submit it again in a while",
}


def show_verdict(terminal: Console, diagnosis: Diagnosis) -> None:
    """Print whether a job without a root cause is well; where nobody knows, what was read and is unusual."""
    from rich.padding import Padding
    from rich.text import Text

    if not diagnosis.verdict.is_bad:
        terminal.print(Text("No failure found.", "bold green"))
        return
    terminal.print(Text(f"Unknown: {diagnosis.summary}.", "bold yellow"))
    for line in diagnosis.unusual:
        terminal.print(Padding(Text(f"│ {line}", "dim", overflow="ellipsis", no_wrap=True), (0, 0, 0, 2)))


def show_cause(terminal: Console, diagnosis: Diagnosis) -> None:
    """Print the root cause with its evidence, the remedy and whether to run again, where one is known."""
    from rich.padding import Padding
    from rich.text import Text

    from launcher.diagnosis.model import CheckOutcome, Confidence

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
    for check in diagnosis.checked:
        colour = {CheckOutcome.WRONG: "bold red", CheckOutcome.RIGHT: "green"}.get(check.outcome, "yellow")
        terminal.print(Text.assemble(("Checked: ", colour), check.message))
        if check.outcome is CheckOutcome.WRONG:
            terminal.print(Text(f"→ {check.remedy}"))
    if bad:
        terminal.print(Text(f"→ Retry {retry}: {_ADVICE[retry]}."))
    sureness = cause.sureness
    if bad and sureness.confidence is not Confidence.SURE:
        terminal.print(Text(f"This is {sureness.confidence.value}: {sureness.why}.", "dim"))
    if bad and diagnosis.runner_up is not None:
        other = f"It may as well be {diagnosis.runner_up.code}: {diagnosis.runner_up.message}"
        terminal.print(Text(other, "dim", overflow="ellipsis", no_wrap=True))


def show_warning(terminal: Console, finding: Finding) -> None:
    """Print what was found against a job's success, and what to do."""
    from rich.text import Text

    terminal.print(Text.assemble((f"warning {finding.code}", "bold yellow"), " ", (finding.message, "bold")))
    terminal.print(Text(f"→ {finding.remedy}"))
    terminal.print(Text(f"launch explain {finding.code}", "cyan"))


def show_consequences(terminal: Console, diagnosis: Diagnosis) -> None:
    """Print what followed from the root cause and what else was found, a line each."""
    from rich.text import Text

    followed = {id(finding) for finding in diagnosis.consequences}
    for finding in diagnosis.findings[1 if diagnosis.root_cause else 0 :]:
        label = "followed" if id(finding) in followed else "also"
        line = f"{label}  {finding.code}  {finding.message}"
        terminal.print(Text(line, "dim", overflow="ellipsis", no_wrap=True))
