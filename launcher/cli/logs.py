"""`launch logs NAME`: what all hosts of a job printed, merged by time."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from launcher.cli.attendance import attend, leave, screen_for
from launcher.cli.job_options import OutputOption
from launcher.cli.output import EXIT_INTERRUPTED, OutputFormat, message, print_json
from launcher.cli.status import JobName

if TYPE_CHECKING:
    from launcher.aws.clients import Clients
    from launcher.backends.interface import JobStatus, LogLine
    from launcher.cli.job_view import JobView
    from launcher.session.following.log_filter import LogFilter
    from launcher.session.following.progress import TrainingProgress
    from launcher.session.following.stall import Moving, Stall
    from launcher.session.jobs import FoundJob


def logs(
    name: JobName,
    /,
    *,
    follow: Annotated[bool, Parameter(negative="", help="Go on until the job ends.")] = False,
    host: Annotated[
        list[str] | None,
        Parameter(negative="", help="Only lines of this host, by name (algo-2) or number."),
    ] = None,
    rank: Annotated[int | None, Parameter(help="Only lines that this global rank printed.")] = None,
    grep: Annotated[str | None, Parameter(help="Only lines that match a regular expression.")] = None,
    since: Annotated[
        str | None,
        Parameter(help="Only lines since: 10m (by this machine's clock), or a time as 2026-08-20T11:30Z."),
    ] = None,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Show a job's logs, of all hosts in the order of time; with --output json one object a line."""
    from launcher.aws.bounded import FIND_SECONDS, bounded
    from launcher.aws.clients import Clients
    from launcher.aws.session import session_region
    from launcher.session.following.log_filter import log_filter
    from launcher.session.jobs import find_job

    clients = Clients(brisk=not follow)
    job = bounded(FIND_SECONDS, f"find {name}", lambda: find_job(name, clients, session_region()))
    chosen = log_filter(job.status, hosts=host or (), rank=rank, grep=grep, since=since)
    if output is OutputFormat.JSON:
        return _print_json(job, chosen, follow)
    if follow:
        return _follow(job, chosen, clients)
    return _show(job, chosen)


def _follow(job: FoundJob, chosen: LogFilter, clients: Clients) -> int:
    from launcher.cli.job_view import show_outcome
    from launcher.session.checked import account_check

    check = account_check(clients)
    outcome = attend(job.backend, job.name, OutputFormat.TEXT, lambda tell: chosen, check)
    if outcome is None:
        return EXIT_INTERRUPTED
    show_outcome(screen_for(OutputFormat.TEXT), outcome)
    return 0 if outcome.succeeded else 1


def _show(job: FoundJob, chosen: LogFilter) -> int:
    from launcher.cli.job_view import JobView
    from launcher.session.run import show_logs

    # Not entered: a panel is for a job that is being followed.
    show_logs(job.backend, job.name, _LinesAlone(JobView(screen_for(OutputFormat.TEXT))), chosen)
    return 0


def _print_json(job: FoundJob, chosen: LogFilter, follow: bool) -> int:
    from launcher.session.run import Interrupted, show_logs
    from launcher.session.run import follow as follow_job

    screen = _JsonLines()
    if not follow:
        show_logs(job.backend, job.name, screen, chosen)
        return 0
    try:
        outcome = follow_job(job.backend, job.name, screen, chosen)
    except Interrupted as interrupted:
        leave(job.backend, interrupted)
        return EXIT_INTERRUPTED
    return 0 if outcome.succeeded else 1


class _Silent:
    """What screens for lines alone leave out; only why nothing can be read goes to stderr."""

    def status(self, status: JobStatus) -> None:
        """Leave the status out."""

    def progress(self, progress: TrainingProgress) -> None:
        """Leave the progress out."""

    def stall(self, change: Stall | Moving) -> None:
        """Leave out that the job stands still, or moves again."""

    def trouble(self, text: str | None) -> None:
        """Say on stderr why nothing can be read, or that it can again."""
        message(text or "connected again")


class _LinesAlone(_Silent):
    def __init__(self, view: JobView) -> None:
        self._view = view

    def lines(self, lines: Sequence[LogLine]) -> None:
        """Print the lines in the colours of a followed job."""
        self._view.lines(lines)


class _JsonLines(_Silent):
    def lines(self, lines: Sequence[LogLine]) -> None:
        """Print one JSON object for each line."""
        for line in lines:
            print_json({"time": line.time, "host": line.host, "text": line.text}, indent=None)
        sys.stdout.flush()
