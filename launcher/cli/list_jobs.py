"""`launch list`: the jobs of the account and region, or of this project, newest first."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from launcher.cli.job_options import OutputOption
from launcher.cli.output import OutputFormat, console, message, print_json
from launcher.failure_modes.refusal import Refusal

if TYPE_CHECKING:
    from launcher.backends.interface import JobState, JobSummary

DEFAULT_LIMIT = 50


def list_jobs(
    *,
    name: Annotated[str | None, Parameter(help="Only jobs whose name has this in it.")] = None,
    status: Annotated[str | None, Parameter(help="Only jobs of this state, such as InProgress.")] = None,
    since: Annotated[
        str | None, Parameter(help="Only jobs created since: 7d, or a time as 2026-08-20T11:30.")
    ] = None,
    limit: Annotated[int, Parameter(help="How many at most; 0 for all.")] = DEFAULT_LIMIT,
    local: Annotated[bool, Parameter(negative="", help="The local runs of this project.")] = False,
    queue: Annotated[str | None, Parameter(help="The jobs in the queue of this cluster.")] = None,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """List jobs, newest first."""
    from launcher.aws.bounded import LOOK_SECONDS, bounded
    from launcher.aws.clients import Clients
    from launcher.aws.session import session_region
    from launcher.backends.interface import JobQuery
    from launcher.session.following.log_filter import parse_since
    from launcher.session.jobs import list_jobs as jobs_of

    if limit < 0:
        raise Refusal(f"--limit {limit} is not a number of jobs.", "Give a number above 0, or 0 for all.")
    query = JobQuery(
        name=name,
        state=_state(status) if status else None,
        since=parse_since(since, datetime.now().astimezone()) if since else None,
        limit=limit or None,
    )
    clients = Clients(brisk=True)
    jobs = bounded(
        LOOK_SECONDS,
        "list the jobs",
        lambda: jobs_of(query, clients, session_region(), local=local, queue=queue, tell=message),
    )
    if output is OutputFormat.JSON:
        print_json({"jobs": [_json(job) for job in jobs]})
        return 0
    _show(jobs)
    if limit and len(jobs) == limit:
        message(f"the newest {limit}; --limit 0 lists all")
    return 0


def _state(text: str) -> JobState:
    from launcher.backends.interface import JobState

    states = {state.value.lower(): state for state in JobState}
    plain = text.lower().replace("-", "").replace("_", "")
    if plain not in states:
        raise Refusal(
            f"--status {text} is not a state of a job.",
            f"Choose of: {', '.join(state.value for state in JobState)}.",
        )
    return states[plain]


def _show(jobs: list[JobSummary]) -> None:
    from launcher.cli.job_table import job_lines

    if not jobs:
        message("no jobs")
        return
    screen = console()
    for line in job_lines(jobs, screen.width):
        screen.print(line, soft_wrap=True)


def _json(job: JobSummary) -> dict[str, Any]:
    return {
        "name": job.name,
        "state": job.state.value,
        "phase": job.phase,
        "created": job.created.isoformat(),
        "ended": job.ended.isoformat() if job.ended else None,
    }
