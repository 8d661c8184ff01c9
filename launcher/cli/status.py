"""`launch status NAME`: how a job is, and through which phases it went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from launcher.cli.job_options import OutputOption
from launcher.cli.output import OutputFormat, console, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from launcher.backends.interface import JobStatus, Transition
    from launcher.session.outcome import Outcome

JobName = Annotated[str, Parameter(help="The job's name.")]


def status(name: JobName, /, *, output: OutputOption = OutputFormat.TEXT) -> int:
    """Show how a job is: its phases, how long it took, and why it failed or was stopped.

    Exit code 1 for one that failed.
    """
    from launcher.aws.bounded import LOOK_SECONDS, bounded
    from launcher.aws.clients import Clients
    from launcher.aws.session import session_region
    from launcher.session.jobs import find_job
    from launcher.session.outcome import outcome_of

    def look() -> Outcome:
        found = find_job(name, Clients(brisk=True), session_region())
        return outcome_of(found.backend, found.status)

    outcome = bounded(LOOK_SECONDS, f"look at {name}", look)
    if output is OutputFormat.JSON:
        print_json(_json(outcome))
    else:
        _show(outcome)
    return 1 if outcome.verdict is not None and outcome.verdict.is_bad else 0


def _show(outcome: Outcome) -> None:
    from rich.text import Text

    from launcher.cli.job_view import show_outcome
    from launcher.text.durations import elapsed_time

    screen, job = console(), outcome.status
    if job.state.is_final:
        show_outcome(screen, outcome)
    else:
        took = f" for {elapsed_time(job.seconds)}" if job.seconds is not None else ""
        screen.print(Text.assemble((job.phase, "bold"), f" {job.name}{took}"))
        if job.explanation:
            screen.print(job.explanation, style="dim", markup=False)
        screen.print(f"launch logs {job.name} --follow", style="dim", markup=False)
        _show_shell(screen, job)
    for transition in job.transitions:
        screen.print(Text.assemble((f"{transition.phase:<26}", "dim"), _span(transition)))


def _show_shell(screen: Console, job: JobStatus) -> None:
    if not job.shell:
        return
    which = f", the first of {job.hosts} hosts" if (job.hosts or 1) > 1 else ""
    screen.print(f"a shell in algo-1{which}:", style="dim", markup=False)
    for command in job.shell:
        screen.print(f"  {command}", style="dim", markup=False, soft_wrap=True)


def _span(transition: Transition) -> str:
    from launcher.text.durations import elapsed_time

    return elapsed_time(transition.ended - transition.started) if transition.ended is not None else "now"


def _json(outcome: Outcome) -> dict[str, Any]:
    from launcher.cli.job_view import outcome_json

    job: JobStatus = outcome.status
    phases = [{"phase": each.phase, "started": each.started, "ended": each.ended} for each in job.transitions]
    more = {"phase": job.phase, "explanation": job.explanation, "hosts": job.hosts, "phases": phases}
    return {**outcome_json(outcome), **more, "shell": list(job.shell)}
