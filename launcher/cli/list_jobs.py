"""`launch list`: the jobs of the account and region, or of this folder, newest first."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from launcher.cli.job_options import OutputOption
from launcher.cli.output import OutputFormat, console, message, print_json
from launcher.failure_modes.refusal import Refusal

if TYPE_CHECKING:
    from rich.console import Console

    from launcher.backends.interface import JobState, JobSummary

DEFAULT_LIMIT = 50

_PHASES = {
    "MaxRuntimeExceeded": "time up",
    "MaxWaitTimeExceeded": "max wait",
    "DownloadingTrainingImage": "image",
    "PreparingTrainingStack": "preparing",
    "LaunchingMLInstances": "launching",
}
"""The long ones of the service, as the table has room for them."""

_LONGEST_STATE = len("InProgress")
_GAP = "  "


def list_jobs(
    *,
    name: Annotated[str | None, Parameter(help="Only jobs whose name has this in it.")] = None,
    status: Annotated[str | None, Parameter(help="Only jobs of this state, such as InProgress.")] = None,
    since: Annotated[
        str | None, Parameter(help="Only jobs created since: 7d, or a time as 2026-08-20T11:30.")
    ] = None,
    limit: Annotated[int, Parameter(help="How many at most; 0 for all.")] = DEFAULT_LIMIT,
    local: Annotated[bool, Parameter(negative="", help="The local runs of this folder.")] = False,
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
    if not jobs:
        message("no jobs")
        return 0
    show_jobs(console(), jobs)
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


def show_jobs(screen: Console, jobs: list[JobSummary]) -> None:
    """Print a line for each of at least one job.

    A name that is cut is of no use to whoever copies it: on a narrow terminal the details of the state go
    first, and then lines are longer than the terminal is wide.
    """
    from rich.text import Text

    from launcher.cli.job_view import STATE_STYLES
    from launcher.text.durations import elapsed_time

    created = [f"{job.created.astimezone():%Y-%m-%d %H:%M}" for job in jobs]
    took = [elapsed_time((job.ended - job.created).total_seconds()) if job.ended else "" for job in jobs]
    states = [_state_of(job) for job in jobs]
    name_width = max(4, *(len(job.name) for job in jobs))
    took_width = max(4, *map(len, took))
    room = screen.width - name_width - len(created[0]) - took_width - len(_GAP) * 3
    state_width = min(max(5, *map(len, states)), max(room, _LONGEST_STATE))
    text = Text()
    head = ("NAME".ljust(name_width), "STATE".ljust(state_width), "CREATED".ljust(len(created[0])))
    text.append(_GAP.join((*head, "TOOK".rjust(took_width))), "dim")
    for job, state, start, time in zip(jobs, states, created, took, strict=True):
        if len(state) > state_width:
            fits = state_width > len(job.state) + 4
            state = f"{state[: state_width - 1]}…" if fits else job.state
        text.append(f"\n{job.name:<{name_width}}{_GAP}")
        text.append(state[: len(job.state)], STATE_STYLES.get(job.state, ""))
        text.append(f"{state[len(job.state) :]:<{state_width - len(job.state)}}", "dim")
        text.append(f"{_GAP}{start}{_GAP}{time:>{took_width}}")
    screen.print(text, soft_wrap=True)


def _state_of(job: JobSummary) -> str:
    return job.state if job.phase == job.state.value else f"{job.state}: {_PHASES.get(job.phase, job.phase)}"


def _json(job: JobSummary) -> dict[str, Any]:
    return {
        "name": job.name,
        "state": job.state.value,
        "phase": job.phase,
        "created": job.created.isoformat(),
        "ended": job.ended.isoformat() if job.ended else None,
    }
