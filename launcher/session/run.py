"""A job that runs, from the first look to its end: here or elsewhere, and how it ended."""

from __future__ import annotations

from launcher.backends.interface import Backend, JobStatus
from launcher.session.following.follow import Follower, Pace
from launcher.session.following.log_filter import LogFilter
from launcher.session.following.monitor import Monitor, Screen
from launcher.session.outcome import Outcome, outcome_of


class Interrupted(Exception):
    """The user pressed Ctrl-C; `status` is the job as it was last seen, `remedy` how to go on."""

    def __init__(self, name: str, status: JobStatus | None, remedy: str) -> None:
        super().__init__(remedy)
        self.name = name
        self.status = status
        self.remedy = remedy


def follow_here(backend: Backend, name: str, screen: Screen) -> Outcome:
    """Follow a job that runs on this machine and ends with this process; close the backend afterwards.

    Raises Interrupted on Ctrl-C, after the job was stopped, had time to save a checkpoint, and left
    no process behind.
    """
    monitor = Monitor(screen)
    follower = Follower(backend, name, monitor, pace_of(backend))
    try:
        status = follower.until_end()
    except KeyboardInterrupt:
        backend.stop(name)
        status = follower.until_end()
        raise Interrupted(
            name,
            status,
            f"Resume it with: launch resume {name}, or from its checkpoints with "
            f"--set checkpoint.resume_from={name}",
        ) from None
    return outcome_of(backend, status, monitor.furthest_step, monitor.warnings)


def follow(
    backend: Backend, name: str, screen: Screen, log_filter: LogFilter | None = None, pace: Pace | None = None
) -> Outcome:
    """Follow a job that runs without this terminal. Raises Interrupted on Ctrl-C, which leaves it running."""
    monitor = Monitor(screen, log_filter)
    follower = Follower(backend, name, monitor, pace or pace_of(backend))
    try:
        status = follower.until_end()
        return outcome_of(backend, status, monitor.furthest_step, monitor.warnings)
    except KeyboardInterrupt:
        raise Interrupted(name, follower.seen, f"Come back with: launch logs {name} --follow") from None


def show_logs(backend: Backend, name: str, screen: Screen, log_filter: LogFilter | None = None) -> JobStatus:
    """Show what a job has printed so far; return its status."""
    display = Monitor(screen, log_filter)
    return Follower(backend, name, display, pace_of(backend)).what_is_there()


def pace_of(backend: Backend) -> Pace:
    """How a backend's jobs are followed: as often as it may be asked about them."""
    polling = backend.polling
    return Pace(poll=polling.seconds, poll_per_host=polling.seconds_per_host, end_reads=polling.end_reads)
