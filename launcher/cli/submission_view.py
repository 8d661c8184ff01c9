"""How far a submission is, and what becomes of its attempts: a line for each step."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from launcher.backends.interface import JobState
from launcher.cli.output import OutputFormat, message, passing, print_json
from launcher.text.sizes import size_in_words

if TYPE_CHECKING:
    from rich.console import Console

    from launcher.backends.interface import Progress
    from launcher.session.outcome import Outcome
    from launcher.session.retry import GiveUp, TryAgain
    from launcher.session.submission import Started


def show_progress(progress: Progress) -> None:
    """Print a step on stderr when it is done; on a terminal also how far it is."""
    if not progress.total:
        message(progress.step)
        return
    share = f"{progress.step}: {100 * progress.done // progress.total}% of {size_in_words(progress.total)}"
    done = progress.done >= progress.total
    if sys.stderr.isatty():
        passing(share, last=done)
    elif done:
        message(share)


def show_started(job: Started, output: OutputFormat, **more: Any) -> None:
    """A job that nobody follows, as JSON with `more`; as text its progress has told of it already."""
    if output is OutputFormat.JSON:
        state = JobState.IN_PROGRESS if job.begun is None else job.begun.state
        before = {} if job.begun is None else {"launched_before": True}
        print_json({"name": job.name, "state": state.value, **before, **more})


class AttemptsView:
    """Tells of the attempts of a job; `names` are those submitted so far."""

    def __init__(self, screen: Console) -> None:
        self.names: list[str] = []
        self._screen = screen

    def started(self, job: Started) -> None:
        """Keep the name, which its progress has told; from the second attempt on say which it is."""
        self.names.append(job.name)
        if len(self.names) > 1:
            message(f"{job.name} is attempt {len(self.names)}")

    def decided(self, outcome: Outcome, decision: TryAgain | GiveUp) -> None:
        """Before another attempt, show how the last one ended and why and when the next one comes."""
        from launcher.cli.job_view import show_outcome
        from launcher.failure_modes.model import Retry
        from launcher.session.retry import GiveUp
        from launcher.text.durations import elapsed_time

        if isinstance(decision, GiveUp):
            if len(self.names) > 1 or (outcome.diagnosis and outcome.diagnosis.retry is not Retry.NEVER):
                message(f"not tried again: {decision.why}")
            return
        show_outcome(self._screen, outcome)
        wait = f" in {elapsed_time(decision.wait_seconds)}" if decision.wait_seconds else ""
        message(f"trying again{wait} on {decision.instance_type}: {decision.why}")
