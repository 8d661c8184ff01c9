"""The commands on jobs: `launch list`, `status`, `logs`, `stop`, `resume`, and `clean` for local runs."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from launcher.cli.interaction import (
    EXIT_INTERRUPTED,
    HIDDEN,
    OutputFormat,
    OutputOption,
    RunIdOption,
    choose_lines,
    confirm,
    console,
    console_for_output,
    is_asking_possible,
    leave,
    message,
    passing,
    print_json,
)
from launcher.failure_modes.model import AwsRefusal, Refusal

if TYPE_CHECKING:
    from rich.console import Console

    from launcher.aws.clients import Clients
    from launcher.backends.interface import (
        Backend,
        FoundJob,
        JobState,
        JobStatus,
        JobSummary,
        LogLine,
        Transition,
    )
    from launcher.cli.job_view import JobView
    from launcher.session.local_runs import Cleaning, OldFolder
    from launcher.session.managed.show_run import ManagedRun
    from launcher.session.runs.diagnose_job import Outcome
    from launcher.session.runs.follow_job import Notice
    from launcher.session.runs.measure_goodput import Goodput
    from launcher.session.runs.read_job_lines import LogFilter, TrainingProgress

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
    slurm: Annotated[
        bool, Parameter(negative="", help="The runs on the Slurm clusters that this machine has launched to.")
    ] = False,
    queue: Annotated[str | None, Parameter(help="The jobs in the queue of this cluster.")] = None,
    managed: Annotated[str | None, Parameter(help="The managed runs of this cluster.")] = None,
    watch: Annotated[bool, Parameter(negative="", help="Show them anew until Ctrl-C.")] = False,
    goodput: Annotated[
        bool, Parameter(negative="", help="What their billed time went to; reads their logs.")
    ] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """List jobs, newest first; without AWS the local runs of this project."""
    from launcher.aws.bounded_calls import LOOK_SECONDS, bounded
    from launcher.aws.clients import Clients
    from launcher.aws.session import session_region
    from launcher.backends.interface import JobQuery
    from launcher.session.find_jobs import list_jobs as jobs_of
    from launcher.session.runs.read_job_lines import parse_since

    if managed is not None:
        if name or status or since or local or slurm or queue or watch or goodput:
            raise Refusal(
                "--managed lists the runs of a cluster, the newest.", "Leave out the other options."
            )
        return _list_runs(managed, limit, output)
    if limit < 0:
        raise Refusal(f"--limit {limit} is not a number of jobs.", "Give a number above 0, or 0 for all.")
    query = JobQuery(
        name=name,
        state=_parse_state(status) if status else None,
        since=parse_since(since, datetime.now().astimezone()) if since else None,
        limit=limit or None,
    )
    if sum((local, slurm, queue is not None)) > 1:
        raise Refusal("--local, --slurm and --queue are three places.", "Give one of them.")
    clients = Clients(brisk=True)

    def look(tell: Callable[[str], None] = message) -> list[JobSummary]:
        def ask() -> list[JobSummary]:
            # A program that asks for the account's jobs is not given others.
            is_text = output is OutputFormat.TEXT and not goodput
            return jobs_of(
                query,
                clients,
                session_region(),
                local=local,
                slurm=slurm,
                queue=queue,
                or_local=is_text,
                tell=tell,
            )

        return bounded(LOOK_SECONDS, "list the jobs", ask)

    if goodput and (local or slurm or queue or watch):
        raise Refusal(
            "--goodput is of what SageMaker bills for training jobs.",
            "Leave out --local, --slurm, --queue and --watch; an attempt of a queued job is a training job.",
        )
    if watch:
        return watch_jobs(look, output)
    jobs = look()
    if goodput:
        if limit and len(jobs) == limit:
            message(f"of the newest {limit} alone; --limit 0 takes all")
        return _show_goodput(jobs, clients, output)
    if output is OutputFormat.JSON:
        print_json({"jobs": [_job_summary_json(job) for job in jobs]})
        return 0
    _show_job_list(jobs)
    if limit and len(jobs) == limit:
        message(f"the newest {limit}; --limit 0 lists all")
    return 0


def _list_runs(cluster: str, limit: int, output: OutputFormat) -> int:
    from launcher.aws.bounded_calls import LOOK_SECONDS, bounded
    from launcher.aws.clients import Clients
    from launcher.cli.job_view import run_line
    from launcher.session.find_jobs import managed_runs

    runs = bounded(LOOK_SECONDS, "list the runs", lambda: managed_runs(cluster, Clients(brisk=True)))
    runs = runs[: limit or None]
    if output is OutputFormat.JSON:
        print_json({"runs": [run.to_json() for run in runs]})
        return 0
    if not runs:
        message("no managed runs")
    for run in runs:
        console().print(run_line(run), soft_wrap=True)
    return 0


WATCH_SECONDS = 10.0


def watch_jobs(
    look: Callable[[Callable[[str], None]], list[JobSummary]],
    output: OutputFormat,
    pause: Callable[[float], None] = time.sleep,
) -> int:
    """Show the jobs in place of what was shown before, until Ctrl-C; it stays while AWS is silent."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from launcher.cli.job_view import job_lines

    screen = console()
    if output is OutputFormat.JSON or not screen.is_terminal:
        raise Refusal("--watch draws on a terminal.", "Leave it out, and call `launch list` again.")
    told: list[str] = []
    jobs = look(told.append)
    with contextlib.suppress(KeyboardInterrupt), Live(console=screen, auto_refresh=False) as live:
        while True:
            lines = list(job_lines(jobs, screen.width)) if jobs else [Text("no jobs")]
            notes = [*told, f"at {datetime.now():%H:%M:%S}; Ctrl-C ends this"]
            live.update(Group(*lines, *(Text(note, "dim") for note in notes)), refresh=True)
            pause(WATCH_SECONDS)
            told.clear()
            try:
                jobs = look(told.append)
            except AwsRefusal as refusal:
                told.append(f"as it was; now {refusal.message} {refusal.remedy}")
    return 0


def _parse_state(text: str) -> JobState:
    from launcher.backends.interface import JobState

    states = {state.value.lower(): state for state in JobState}
    plain = text.lower().replace("-", "").replace("_", "")
    if plain not in states:
        raise Refusal(
            f"--status {text} is not a state of a job.",
            f"Choose of: {', '.join(state.value for state in JobState)}.",
        )
    return states[plain]


def _show_job_list(jobs: list[JobSummary]) -> None:
    from launcher.cli.job_view import job_lines

    if not jobs:
        message("no jobs")
        return
    screen = console()
    for line in job_lines(jobs, screen.width):
        screen.print(line, soft_wrap=True)


GROUPS = ("team", "cluster", "type")


def _show_goodput(jobs: list[JobSummary], clients: Clients, output: OutputFormat) -> int:
    """What the billed time of the jobs went to, together and by team, cluster and instance type."""
    from launcher.aws.session import session_region
    from launcher.session.find_jobs import sagemaker_backend
    from launcher.session.runs.measure_goodput import by_group, measure_goodput, read_attempts

    backend, skipped = sagemaker_backend(clients, session_region()), list[str]()
    attempts = []
    for count, attempt in enumerate(read_attempts(backend, jobs, skipped.append), 1):
        attempts.append(attempt)
        if sys.stderr.isatty():
            passing(f"{count} of {len(jobs)} jobs read")
    message(f"{len(attempts)} of {len(jobs)} jobs had hosts and have ended")
    for text in skipped:
        message(text)
    whole = measure_goodput(attempts)
    groups = {group: by_group(attempts, group) for group in GROUPS}
    if output is OutputFormat.JSON:
        by = {
            group: {name: each.to_json() for name, each in found.items()} for group, found in groups.items()
        }
        print_json({**whole.to_json(), "by": by})
        return 0
    screen = console()
    for line in goodput_lines(whole, groups):
        screen.print(line, soft_wrap=True, markup=False, highlight=False)
    return 0


def goodput_lines(whole: Goodput, groups: Mapping[str, Mapping[str, Goodput]]) -> Iterator[str]:
    """The goodput of some jobs, as lines of a table."""
    from launcher.session.runs.measure_goodput import PARTS

    if not whole.total:
        yield "nothing was billed"
        return
    usd = "" if whole.usd is None else f", {whole.usd:,.2f} USD on demand"
    yield f"{whole.share('useful'):.0%} of {_hours(whole.total)} host hours was useful work{usd}"
    for part in PARTS:
        seconds = whole.seconds.get(part, 0.0)
        if seconds:
            yield f"  {part:<9} {_hours(seconds):>10} h  {whole.share(part):>4.0%}"
    for code, seconds in sorted(whole.lost.items(), key=lambda each: -each[1]):
        yield f"  lost to {code}: {_hours(seconds)} h"
    for group, found in groups.items():
        if len(found) > 1:
            shares = (
                f"{name} {each.share('useful'):.0%} of {_hours(each.total)} h" for name, each in found.items()
            )
            yield f"by {group}: {', '.join(shares)}"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.1f}"


def _job_summary_json(job: JobSummary) -> dict[str, Any]:
    return {
        "name": job.name,
        "state": job.state.value,
        "phase": job.phase,
        "created": job.created.isoformat(),
        "ended": job.ended.isoformat() if job.ended else None,
    }


# `launch status NAME`: how a job is, and through which phases it went.


JobName = Annotated[str, Parameter(help="The job's name.")]


def tell_news(found: FoundJob) -> None:
    """Say where a job is another one than the name that was asked for."""
    if found.news:
        message(found.news)


def status(name: JobName, /, *, output: OutputOption = OutputFormat.TEXT) -> int:
    """Show how a job is: its phases, how long it took, what its watchdog warns of, and why it failed or was
    stopped.

    Exit code 1 for one that failed.
    """
    from launcher.aws.bounded_calls import LOOK_SECONDS, bounded
    from launcher.aws.clients import Clients
    from launcher.aws.session import session_region
    from launcher.cli.job_view import show_run
    from launcher.session.find_jobs import find_job, find_run
    from launcher.session.runs.diagnose_job import outcome_of

    clients = Clients(brisk=True)

    def look() -> tuple[Outcome, ManagedRun | None]:
        found = find_job(name, clients, session_region())
        tell_news(found)
        return outcome_of(found.backend, found.status), find_run(found, clients, session_region())

    outcome, run = bounded(LOOK_SECONDS, f"look at {name}", look)
    if output is OutputFormat.JSON:
        print_json({**_status_json(outcome), **({} if run is None else {"run": run.to_json()})})
    else:
        _show_status(outcome)
        if run is not None:
            show_run(console(), run, outcome.status)
    return 1 if outcome.verdict is not None and outcome.verdict.is_bad else 0


def _show_status(outcome: Outcome) -> None:
    from rich.text import Text

    from launcher.cli.job_view import bill_rows, show_outcome, show_warning
    from launcher.text.values import elapsed_time

    screen, job = console(), outcome.status
    if job.state.is_final:
        show_outcome(screen, outcome)
    else:
        took = f" for {elapsed_time(job.seconds)}" if job.seconds is not None else ""
        screen.print(Text.assemble((job.phase, "bold"), f" {job.name}{took}"))
        if job.explanation:
            screen.print(job.explanation, style="dim", markup=False)
        for warning in outcome.warnings or ():
            show_warning(screen, warning)
        _show_progress(screen, outcome)
        for label, text in bill_rows(job):
            screen.print(f"{label}: {text}", style="dim", markup=False)
        screen.print(f"launch logs {job.name} --follow", style="dim", markup=False)
        _show_shell_access(screen, job)
    for transition in job.transitions:
        screen.print(Text.assemble((f"{transition.phase:<26}", "dim"), _span(transition)))


def _show_progress(screen: Console, outcome: Outcome) -> None:
    from launcher.cli.job_view import metrics_line
    from launcher.session.runs.estimate_end import limit_of

    if outcome.progress is not None:
        screen.print(metrics_line(outcome.progress), soft_wrap=True)
    limit = limit_of(outcome.status, outcome.progress.remaining if outcome.progress else None)
    if limit is not None and limit.remaining is not None:
        style = "yellow" if limit.is_too_late else "dim"
        screen.print(limit.message, style=style, markup=False)
        if limit.is_too_late:
            screen.print(f"  → {limit.remedy}", style=style, markup=False)


def _show_shell_access(screen: Console, job: JobStatus) -> None:
    if not job.shell:
        return
    which = f", the first of {job.hosts} hosts" if (job.hosts or 1) > 1 else ""
    screen.print(f"a shell in algo-1{which}:", style="dim", markup=False)
    for command in job.shell:
        screen.print(f"  {command}", style="dim", markup=False, soft_wrap=True)


def _span(transition: Transition) -> str:
    from launcher.text.values import elapsed_time

    return elapsed_time(transition.ended - transition.started) if transition.ended is not None else "now"


def _status_json(outcome: Outcome) -> dict[str, Any]:
    from launcher.cli.job_view import outcome_json

    job: JobStatus = outcome.status
    phases = [{"phase": each.phase, "started": each.started, "ended": each.ended} for each in job.transitions]
    more = {"phase": job.phase, "explanation": job.explanation, "hosts": job.hosts, "phases": phases}
    progress = {"progress": _progress_json(outcome)}
    return {**outcome_json(outcome), **more, **progress, "shell": list(job.shell)}


def _progress_json(outcome: Outcome) -> dict[str, Any] | None:
    """How far a running job is, and when it ends; None where its lines do not tell."""
    from launcher.session.runs.estimate_end import limit_of

    progress = outcome.progress
    if progress is None:
        return None
    limit = limit_of(outcome.status, progress.remaining)
    ends = None if limit is None or limit.remaining is None else not limit.is_too_late
    return {
        "metrics": dict(progress.values),
        "remaining_seconds": progress.remaining,
        "limit_seconds": None if limit is None else limit.left,
        "ends_before_limit": ends,
    }


# `launch logs NAME`: what all hosts of a job printed, merged by time.


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
    from launcher.aws.bounded_calls import FIND_SECONDS, bounded
    from launcher.aws.clients import Clients
    from launcher.aws.session import session_region
    from launcher.session.find_jobs import find_job
    from launcher.session.runs.read_job_lines import log_filter

    clients = Clients(brisk=not follow)
    job = bounded(FIND_SECONDS, f"find {name}", lambda: find_job(name, clients, session_region()))
    tell_news(job)
    chosen = log_filter(job.status, hosts=host or (), rank=rank, grep=grep, since=since)
    if output is OutputFormat.JSON:
        return _print_logs_json(job, chosen, follow)
    if follow:
        return _follow_logs(job, chosen, clients)
    return _show_logs(job, chosen)


def _follow_logs(job: FoundJob, chosen: LogFilter, clients: Clients) -> int:
    from launcher.cli.job_view import attend, show_outcome
    from launcher.session.account_checks import account_check

    check = account_check(clients)
    outcome = attend(job.backend, job.name, OutputFormat.TEXT, lambda tell: chosen, check)
    if outcome is None:
        return EXIT_INTERRUPTED
    show_outcome(console_for_output(OutputFormat.TEXT), outcome)
    return 0 if outcome.succeeded else 1


def _show_logs(job: FoundJob, chosen: LogFilter) -> int:
    from launcher.cli.job_view import JobView
    from launcher.session.runs.follow_job import show_logs

    # Not entered: a panel is for a job that is being followed.
    show_logs(job.backend, job.name, _LinesAlone(JobView(console_for_output(OutputFormat.TEXT))), chosen)
    return 0


def _print_logs_json(job: FoundJob, chosen: LogFilter, follow: bool) -> int:
    from launcher.session.runs.follow_job import Interrupted, show_logs
    from launcher.session.runs.follow_job import follow as follow_job

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

    def notice(self, notice: Notice) -> None:
        """Leave out that the job stands still, moves again, or comes near its limit."""

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


def stop(name: JobName, /, *, output: OutputOption = OutputFormat.TEXT) -> int:
    """Ask a job to stop; it has two minutes to save a checkpoint. Nothing happens to one that has ended."""
    from launcher.aws.clients import Clients
    from launcher.aws.session import session_region
    from launcher.session.find_jobs import stop_job

    answer = stop_job(name, Clients(), session_region())
    if output is OutputFormat.JSON:
        run = {} if answer.run is None else {"run": answer.run}
        print_json({"name": name, "state": answer.state, "asked_to_stop": answer.asked, **run})
    elif answer.run is not None:
        newest = "was asked to stop" if answer.asked else f"is {answer.state} already"
        message(
            f"the managed run {answer.run} is stopped: its newest attempt {newest}, and none starts any more"
        )
    elif answer.asked:
        message(f"{name} was asked to stop; see it end with: launch logs {name} --follow")
    else:
        message(f"{name} is {answer.state} already")
    return 0


# `launch resume NAME`: the same job again, from the earlier one's newest checkpoint.


def resume(
    name: JobName,
    /,
    *,
    yes: Annotated[bool, Parameter(negative="", help="Submit without asking.")] = False,
    detach: Annotated[bool, Parameter(negative="", help="Submit, and do not follow.")] = False,
    run_id: RunIdOption = None,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Start a new job with the plan and code of an earlier one, from its newest checkpoint."""
    from launcher.aws.clients import Clients
    from launcher.aws.session import session_region
    from launcher.session.find_jobs import find_job
    from launcher.session.submit_job import run_id_of

    region, run = session_region(), run_id_of(run_id, os.environ)
    clients = Clients()
    job = find_job(name, clients, region)
    if not job.status.state.is_final:
        raise Refusal(
            f"{job.name} is {job.status.state} and still writes its checkpoints.",
            f"Stop it first: launch stop {job.name}",
        )
    if not job.backend.runs_here:
        return _resume_there(job.backend, job.name, region, run, yes, detach, output, clients)
    if detach or run_id is not None:
        raise Refusal("a local job runs here and now.", "Leave out --detach and --run-id.")
    return _resume_here(job.backend, job.name, output)


_SAME_CODE = "with its code: repaired code takes `launch JOB.yaml --set checkpoint.resume_from={name}`"


def _resume_here(backend: Backend, name: str, output: OutputFormat) -> int:
    from contextlib import closing

    from launcher.cli.job_view import JobView, conclude, conclude_interrupted
    from launcher.session.runs.follow_job import Interrupted, follow_local_run
    from launcher.session.submit_job import Start, plan_resumption

    resumption = plan_resumption(Start(backend), name)
    message(f"resuming {name} as {resumption.name}")
    message(_SAME_CODE.format(name=name))
    view = JobView(console_for_output(output))
    choice = choose_lines(resumption.plan.view, None, None, lambda: view.note(HIDDEN))
    try:
        with view, closing(backend):
            outcome = follow_local_run(backend, resumption.run_here, view, choice)
    except Interrupted as interrupted:
        return conclude_interrupted(interrupted, output, {"resumed_from": name})
    return conclude(outcome, output, {"resumed_from": name})


def _resume_there(
    backend: Backend,
    name: str,
    region: str | None,
    run_id: str | None,
    yes: bool,
    detach: bool,
    output: OutputFormat,
    clients: Clients,
) -> int:
    from launcher.cli.job_view import attend, conclude, show_progress, show_started
    from launcher.planning.job_cost import cost_in_words
    from launcher.planning.request_view import RequestView
    from launcher.session.account_checks import account_check
    from launcher.session.submit_job import Start, plan_resumption

    resumption = plan_resumption(Start(backend, run_id, on_progress=show_progress), name, region)
    if resumption.begun is None:
        if output is OutputFormat.TEXT:
            console().print(f"resume {name} as {resumption.name}", markup=False)
            if backend.bills:
                cost = cost_in_words(RequestView(resumption.plan.request or {}), region)
                console().print(f"cost: {cost}", markup=False)
            console().print(_SAME_CODE.format(name=name), markup=False)
        if is_asking_possible(yes, output) and not confirm("Submit it?"):
            message("not submitted")
            return 0
    started = resumption.run()
    if detach:
        show_started(started, output, resumed_from=name)
        return 0
    choose = partial(choose_lines, resumption.plan.view, None, None)
    outcome = attend(backend, started.name, output, choose, account_check(clients))
    return EXIT_INTERRUPTED if outcome is None else conclude(outcome, output, {"resumed_from": name})


# `launch clean`: delete old local runs and mirrors, after showing which, and asking.


KEPT_RUNS = 10


def clean(
    *,
    keep: Annotated[int, Parameter(help="How many of the newest runs stay.")] = KEPT_RUNS,
    all_: Annotated[bool, Parameter(name="--all", negative="", help="Keep none.")] = False,
    yes: Annotated[bool, Parameter(negative="", help="Delete without asking.")] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Delete the project's old local runs with their checkpoints, and mirrors of old runs on Slurm. Exit code
    1 where one cannot be deleted."""
    from launcher.backends.slurm.shared_folder import mirrored_runs
    from launcher.session.local_runs import local_home, plan_cleaning
    from launcher.text.values import size_in_words

    if keep < 0:
        raise Refusal(f"--keep {keep} is not a number of runs.", "Give 0 or more.")
    home = local_home()
    found = plan_cleaning(home, 0 if all_ else keep, mirrors=mirrored_runs())
    if output is OutputFormat.TEXT:
        _show_old_runs(found)
    if not found.goes:
        message(f"nothing to delete in {home}; {_describe_kept_runs(found)}")
    elif not yes:
        if not is_asking_possible(yes, output):
            raise Refusal("there is nobody to ask whether that is to be deleted; nothing was.", "Add --yes.")
        if not confirm(
            f"Delete {_count_old_runs(found)}, {size_in_words(found.size)}? {_describe_kept_runs(found)}"
        ):
            message("nothing was deleted")
            return 0
    failed = _delete_old_runs(found)
    deleted = [each for each in found.goes if each.folder not in failed]
    if output is OutputFormat.JSON:
        print_json(_cleaning_json(found, deleted, failed))
    elif deleted:
        freed = size_in_words(sum(each.size for each in deleted))
        console().print(f"deleted {len(deleted)}, {freed}", markup=False)
    return 1 if failed else 0


def _delete_old_runs(found: Cleaning) -> dict[Any, str]:
    from launcher.session.local_runs import delete

    failed = {}
    for old in found.goes:
        try:
            delete(old)
        except OSError as error:
            failed[old.folder] = error.strerror or str(error)
            message(f"not deleted: {old.folder}: {failed[old.folder]}")
    return failed


def _show_old_runs(found: Cleaning) -> None:
    from rich.table import Table
    from rich.text import Text

    from launcher.text.values import size_in_words

    if not found.goes:
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("NAME", no_wrap=True, overflow="ignore")
    table.add_column("STATE", no_wrap=True)
    table.add_column("CREATED", no_wrap=True)
    table.add_column("SIZE", no_wrap=True, justify="right")
    for old in found.goes:
        created = f"{datetime.fromtimestamp(old.created).astimezone():%Y-%m-%d %H:%M}"
        table.add_row(Text(old.name), _describe_run(old), created, size_in_words(old.size))
    console().print(table, soft_wrap=True)


def _describe_run(old: OldFolder) -> str:
    if old.state is not None:
        return f"{old.state}, mirror" if old.kind == "mirror" else old.state
    return "unreadable" if old.kind == "run" else str(old.kind)


def _count_old_runs(found: Cleaning) -> str:
    runs = sum(each.kind == "run" for each in found.goes)
    others = len(found.goes) - runs
    words = [f"{runs} run{'s' * (runs != 1)}"] if runs else []
    words += [f"{others} other folder{'s' * (others != 1)}"] if others else []
    return " and ".join(words)


def _describe_kept_runs(found: Cleaning) -> str:
    running = f", and {len(found.running)} that run{'s' * (len(found.running) == 1)}" if found.running else ""
    return f"{found.kept} ended run{'s' * (found.kept != 1)} stay{'s' * (found.kept == 1)}{running}."


def _cleaning_json(found: Cleaning, deleted: list[OldFolder], failed: dict[Any, str]) -> dict[str, Any]:
    return {
        "deleted": [
            {
                "name": each.name,
                "kind": each.kind.value,
                "state": each.state,
                "created": datetime.fromtimestamp(each.created).astimezone().isoformat(),
                "bytes": each.size,
            }
            for each in deleted
        ],
        "failed": [{"folder": str(folder), "problem": problem} for folder, problem in failed.items()],
        "kept": found.kept,
        "running": list(found.running),
    }
