"""A running job on the terminal: its state, its log lines, its progress, and how it ended."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from launcher.backends.interface import JobState, JobStatus, LogLine
from launcher.cli.live_panel import LivePanel
from launcher.cli.output import OutputFormat, console, message, print_json
from launcher.diagnosis.ending import Stop, StopCause
from launcher.diagnosis.redaction import redacted
from launcher.session.following.stall import Moving, Stall
from launcher.text.controls import without_controls
from launcher.text.durations import elapsed_time
from launcher.text.line_origin import origin_of

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table

    from launcher.session.following.progress import TrainingProgress
    from launcher.session.outcome import Outcome
    from launcher.session.run import Interrupted

COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_red")
STATE_STYLES = {JobState.COMPLETED: "bold green", JobState.FAILED: "bold red"}
_CURVE_WIDTH = 48


class JobView(LivePanel):
    """Shows a followed job: log lines as they come, and on a terminal a live panel with its state, its
    metrics and a curve; without a terminal, plain lines alone."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._status: JobStatus | None = None
        self._seen_at = time.monotonic()
        self._progress: TrainingProgress | None = None
        self._trouble: str | None = None

    def status(self, status: JobStatus) -> None:
        """Renew the live line; without a terminal print a line when the phase changes."""
        changed = self._status is None or status.phase != self._status.phase
        self._status, self._seen_at = status, time.monotonic()
        if self._live is None and changed:
            after = f" after {elapsed_time(status.seconds)}" if status.seconds else ""
            self._console.print(f"[{status.phase}]{after}", style="dim", markup=False)

    def lines(self, lines: Sequence[LogLine]) -> None:
        """Print log lines, each with its host; control characters of the job do not reach the terminal."""
        self._console.print(_Lines(lines), soft_wrap=True, end="")

    def note(self, text: str) -> None:
        """Print a remark of the launcher's own among the lines."""
        self._console.print(text, style="dim", markup=False)

    def trouble(self, text: str | None) -> None:
        """Say what keeps the job from being seen: in the live line, else once."""
        if self._live is None and (text is None) != (self._trouble is None):
            message(text or "connected again")
        self._trouble = text

    def progress(self, progress: TrainingProgress) -> None:
        """Show the newest metrics in the panel; without a terminal nothing is printed."""
        self._progress = progress

    def stall(self, change: Stall | Moving) -> None:
        """Print a warning above the log's end, or that it is over."""
        if isinstance(change, Moving):
            self._console.print(f"{change.job_name} moves again", style="green", markup=False)
            return
        self._console.print(f"warning: {change.message}", style="yellow", markup=False)
        self._console.print(f"  → {change.remedy}", style="yellow", markup=False)

    def _panel(self) -> Table:
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1))
        if self._status is None:
            grid.add_row(Spinner("dots"), "waiting for the job")
            return grid
        grid.add_row(Spinner("dots"), self._status_line(self._status))
        if self._trouble:
            grid.add_row("", Text(self._trouble, style="yellow"))
        if self._progress is not None:
            grid.add_row("", metrics_line(self._progress))
        return grid

    def _status_line(self, status: JobStatus) -> Any:
        from rich.text import Text

        since = time.monotonic() - self._seen_at
        parts = [status.name]
        if status.seconds is not None:
            parts.append(elapsed_time(status.seconds + since))
        if status.explanation:
            parts.append(status.explanation)
        return Text.assemble((status.phase, "bold"), (f" {' · '.join(parts)}", "dim"))


class _Lines:
    """Log lines as rich prints them, without the cost of laying out each: jobs print very many."""

    def __init__(self, lines: Sequence[LogLine]) -> None:
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.segment import Segment

        if console.color_system is None:
            yield Segment("".join([f"{host} {_harmless(text)}\n" for _, host, text in self._lines]))
            return
        styles = [console.get_style(colour) for colour in COLOURS]

        @cache
        def coloured(text: str, number: int) -> Segment:
            return Segment(text, styles[number % len(styles)])

        for _, host, text in self._lines:
            yield coloured(f"{host} ", _number_of(host))
            text = _harmless(text)
            origin = origin_of(text)
            if origin.mark is not None:
                start, end = origin.mark
                if start:
                    yield Segment(text[:start])
                rank = origin.local_rank if origin.rank is None else origin.rank
                yield coloured(text[start:end], rank or 0)
                text = text[end:]
            yield Segment(f"{text}\n")


def _harmless(text: str) -> str:
    """A line without control characters and without its end; most have neither."""
    return text if text.isprintable() else without_controls(text).rstrip("\n")


def metrics_line(progress: TrainingProgress) -> Any:
    """Step, metrics and the curve of the one that is drawn."""
    from rich.text import Text

    from launcher.session.following.progress import curve_in_blocks

    text = Text()
    for name, value in progress.values.items():
        text.append(f"{name} ", "dim")
        text.append(f"{value:.6g}  ", "bold")
    if progress.drawn and len(progress.curve) > 1:
        text.append(f"{progress.drawn} ", "dim")
        text.append(curve_in_blocks(progress.curve, _CURVE_WIDTH), "cyan")
    return text


def conclude(outcome: Outcome, output: OutputFormat, more: Mapping[str, Any]) -> int:
    """Print how a job ended, in JSON with `more` beside it; the exit code: 0 done, 1 failed or stopped."""
    if output is OutputFormat.JSON:
        print_json({**outcome_json(outcome), **more})
    else:
        show_outcome(console(), outcome)
    return 0 if outcome.succeeded else 1


def conclude_interrupted(interrupted: Interrupted, output: OutputFormat, more: Mapping[str, Any]) -> int:
    """Print how a job ended that ran here and was interrupted, as `conclude`; the exit code of the signal."""
    if interrupted.outcome is None:
        message(f"stopped. {interrupted.remedy}")
    else:
        conclude(interrupted.outcome, output, more)
    return interrupted.exit_code


def show_outcome(console: Console, outcome: Outcome) -> None:
    """Print how the job ended: the cause of a failure or a stop and what to do, and where its results are."""
    from rich.text import Text

    from launcher.cli.diagnosis_view import show_cause, show_warning
    from launcher.session.results import places_of

    status = outcome.status
    style = STATE_STYLES.get(status.state, "bold yellow")
    took = f" after {elapsed_time(status.seconds)}" if status.seconds is not None else ""
    console.print(Text.assemble((str(status.state), style), f" {status.name}{took}"))
    if outcome.diagnosis is not None and outcome.cause is not None:
        show_cause(console, outcome.diagnosis)
        console.print(Text(f"launch explain {outcome.cause.code}", "cyan"))
    elif status.failure_reason:
        console.print(redacted(status.failure_reason), markup=False)
    for warning in outcome.warnings or ():
        show_warning(console, warning)
    for label, place in places_of(status):
        console.print(Text.assemble((f"{label:<11} ", "dim"), place), soft_wrap=True)
    console.print(Text(f"launch report {status.name}", "cyan"))


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """How a job ended, in the shape that `--output json` prints."""
    status = outcome.status
    failure, stop = outcome.failure, outcome.stop
    return {
        "name": status.name,
        "state": status.state.value,
        "verdict": outcome.verdict.value if outcome.verdict else None,
        "failure": failure.to_json() if failure else None,
        "stop": {**stop.finding.to_json(), **_stop_json(status.stop)} if stop else None,
        "failure_reason": redacted(status.failure_reason) if status.failure_reason else None,
        "checkpoints": status.checkpoints,
        "output": status.output,
        "seconds": status.seconds,
        "warnings": None if outcome.warnings is None else [warning.to_json() for warning in outcome.warnings],
    }


def _stop_json(stop: Stop | None) -> dict[str, Any]:
    """What ended the job, who in words, when in seconds since the epoch, and the limit in seconds."""
    stop = stop or Stop(StopCause.ASKED)
    return {"cause": stop.cause.value, "who": stop.who, "at": stop.at, "limit": stop.limit}


@cache
def _number_of(host: str) -> int:
    """The digits of a host's name as one number, 0 where it has none: hosts side by side differ in colour."""
    return int("".join(filter(str.isdecimal, host)) or 0)
