"""A running job on the terminal: its state, its log lines, and how it ended."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from launcher.backends.interface import JobState, JobStatus, LogLine

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from launcher.session.run import Outcome

HOST_STYLES = ("cyan", "magenta", "green", "yellow", "blue")
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")


class JobView:
    """Shows a followed job: log lines as they come, and on a terminal a live line with its state."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Status | None = None
        self._phase = ""
        self._started = time.monotonic()

    def __enter__(self) -> JobView:
        if self._console.is_terminal:
            self._live = self._console.status("submitting")
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def status(self, status: JobStatus) -> None:
        """Renew the live line; without a terminal print a line when the phase changes."""
        if self._live is not None:
            elapsed = time.monotonic() - self._started
            self._live.update(f"[bold]{status.phase}[/bold] [dim]{status.name} · {duration(elapsed)}[/dim]")
        elif status.phase != self._phase:
            self._console.print(f"[{status.phase}]", style="dim", markup=False)
        self._phase = status.phase

    def lines(self, lines: Sequence[LogLine]) -> None:
        """Print log lines, each with its host; control characters of the job do not reach the terminal."""
        from rich.text import Text

        for line in lines:
            number = int("".join(filter(str.isdigit, line.host)) or 0)
            style = HOST_STYLES[number % len(HOST_STYLES)]
            text = Text.assemble((f"{line.host} ", style), _ESCAPES.sub("", line.text))
            self._console.print(text, soft_wrap=True)


def show_outcome(console: Console, outcome: Outcome) -> None:
    """Print how the job ended: the cause of a failure and what to do, and where its results are."""
    from rich.padding import Padding
    from rich.text import Text

    status, failure = outcome.status, outcome.failure
    style = {JobState.COMPLETED: "bold green", JobState.FAILED: "bold red"}.get(status.state, "bold yellow")
    took = f" after {duration(status.seconds)}" if status.seconds is not None else ""
    console.print(Text.assemble((str(status.state), style), f" {status.name}{took}"))
    if failure is not None:
        console.print(Text.assemble((f"{failure.code} ", "bold"), failure.message))
        console.print(Padding(f"→ {failure.remedy}", (0, 0, 0, 2)), markup=False)
        console.print(f"  launch explain {failure.code}", style="dim")
    elif status.failure_reason:
        console.print(status.failure_reason, markup=False)
    for label, place in (("checkpoints", status.checkpoints), ("output", status.output)):
        if place:
            console.print(Text.assemble((f"{label:<12}", "dim"), place), soft_wrap=True)


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """How a job ended, for a program."""
    status = outcome.status
    return {
        "name": status.name,
        "state": status.state.value,
        "failure": outcome.failure.to_json() if outcome.failure else None,
        "failure_reason": status.failure_reason,
        "checkpoints": status.checkpoints,
        "output": status.output,
        "seconds": status.seconds,
    }


def duration(seconds: float) -> str:
    """Such as 42s, 3m07s, 2h05m."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
