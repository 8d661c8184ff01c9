"""A job that runs, from the first look to its end: here or elsewhere, and how it ended."""

from __future__ import annotations

import signal
from collections.abc import Callable

from launcher.backends.interface import Backend, JobStatus
from launcher.session.diagnosis import Check
from launcher.session.following.follow import Follower, Pace
from launcher.session.following.monitor import LineChoice, Monitor, Screen
from launcher.session.interruption import ended_in_order, exit_code_of, who_interrupted
from launcher.session.outcome import Outcome, outcome_of


class Interrupted(Exception):
    """The user interrupted the following; `status` is the job as it was last seen, `remedy` how to go on.

    `outcome` is how a job ended that ran here, and ended with it; `exit_code` is what a command then gives.
    """

    def __init__(
        self,
        name: str,
        status: JobStatus | None,
        remedy: str,
        outcome: Outcome | None = None,
        exit_code: int = 128 + signal.SIGINT,
    ) -> None:
        super().__init__(remedy)
        self.name = name
        self.status = status
        self.remedy = remedy
        self.outcome = outcome
        self.exit_code = exit_code


def follow_here(
    backend: Backend, start: Callable[[], str], screen: Screen, choice: LineChoice | None = None
) -> Outcome:
    """Start a job that runs here and ends with this process, and follow it; close the backend afterwards.

    Raises Interrupted on Ctrl-C, SIGTERM or SIGHUP, after the job was stopped, had time to save a checkpoint,
    and left no process behind; and what `start` raises.
    """
    monitor = Monitor(screen, choice)
    with ended_in_order():
        name = start()
        follower = Follower(backend, name, monitor, pace_of(backend))
        try:
            status = follower.until_end()
            monitor.finish()
        except KeyboardInterrupt as interruption:
            backend.stop(name, who_interrupted(interruption))
            status = follower.until_end()
            monitor.finish()
            raise Interrupted(
                name,
                status,
                f"Resume it with: launch resume {name}, or from its checkpoints with "
                f"--set checkpoint.resume_from={name}",
                outcome_of(backend, status, monitor.furthest_step),
                exit_code_of(interruption),
            ) from None
        return outcome_of(backend, status, monitor.furthest_step, monitor.warnings)


def follow(
    backend: Backend,
    name: str,
    screen: Screen,
    choice: LineChoice | None = None,
    pace: Pace | None = None,
    check: Check | None = None,
) -> Outcome:
    """Follow a job that runs without this terminal. Raises Interrupted on Ctrl-C, which leaves it running.

    `check` holds the diagnosis of one that failed against its account.
    """
    monitor = Monitor(screen, choice)
    follower = Follower(backend, name, monitor, pace or pace_of(backend))
    try:
        status = follower.until_end()
        monitor.finish()
        return outcome_of(backend, status, monitor.furthest_step, monitor.warnings, check)
    except KeyboardInterrupt:
        raise Interrupted(name, follower.seen, f"Come back with: launch logs {name} --follow") from None


def show_logs(backend: Backend, name: str, screen: Screen, choice: LineChoice | None = None) -> JobStatus:
    """Show what a job has printed so far; return its status."""
    display = Monitor(screen, choice)
    return Follower(backend, name, display, pace_of(backend)).what_is_there()


def pace_of(backend: Backend) -> Pace:
    """How a backend's jobs are followed: as often as it may be asked about them."""
    polling = backend.polling
    return Pace(poll=polling.seconds, poll_per_host=polling.seconds_per_host, end_reads=polling.end_reads)
