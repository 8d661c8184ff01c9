"""`launch resume NAME`: the same job again, from the earlier one's newest checkpoint."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from launcher.cli.attendance import attend, confirmed, must_ask, screen_for
from launcher.cli.followed_lines import HIDDEN, followed_lines
from launcher.cli.job_options import OutputOption, RunIdOption
from launcher.cli.output import EXIT_INTERRUPTED, OutputFormat, console, message
from launcher.cli.status import JobName
from launcher.failure_modes.refusal import Refusal

if TYPE_CHECKING:
    from launcher.aws.clients import Clients
    from launcher.backends.interface import Backend


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
    from launcher.session.jobs import find_job
    from launcher.session.run_id import run_id_of

    region, run = session_region(), run_id_of(run_id, os.environ)
    clients = Clients()
    job = find_job(name, clients, region)
    if not job.status.state.is_final:
        raise Refusal(
            f"{job.name} is {job.status.state} and still writes its checkpoints.",
            f"Stop it first: launch stop {job.name}",
        )
    if not job.backend.runs_here:
        return _resume_on_aws(job.backend, job.name, region, run, yes, detach, output, clients)
    if detach or run_id is not None:
        raise Refusal("a local job runs here and now.", "Leave out --detach and --run-id.")
    return _resume_here(job.backend, job.name, output)


def _resume_here(backend: Backend, name: str, output: OutputFormat) -> int:
    from contextlib import closing

    from launcher.cli.job_view import JobView, conclude, conclude_interrupted
    from launcher.session.resume import plan_resumption
    from launcher.session.run import Interrupted, follow_here
    from launcher.session.submission import Start

    resumption = plan_resumption(Start(backend), name)
    message(f"resuming {name} as {resumption.name}")
    view = JobView(screen_for(output))
    choice = followed_lines(resumption.plan.view, None, None, lambda: view.note(HIDDEN))
    try:
        with view, closing(backend):
            outcome = follow_here(backend, resumption.run_here, view, choice)
    except Interrupted as interrupted:
        return conclude_interrupted(interrupted, output, {"resumed_from": name})
    return conclude(outcome, output, {"resumed_from": name})


def _resume_on_aws(
    backend: Backend,
    name: str,
    region: str | None,
    run_id: str | None,
    yes: bool,
    detach: bool,
    output: OutputFormat,
    clients: Clients,
) -> int:
    from launcher.cli.job_view import conclude
    from launcher.cli.submission_view import show_progress, show_started
    from launcher.planning.cost import cost_in_words
    from launcher.planning.request_view import RequestView
    from launcher.session.checked import account_check
    from launcher.session.resume import plan_resumption
    from launcher.session.submission import Start

    resumption = plan_resumption(Start(backend, run_id, on_progress=show_progress), name, region)
    if resumption.begun is None:
        if output is OutputFormat.TEXT:
            cost = cost_in_words(RequestView(resumption.plan.request or {}), region)
            console().print(f"resume {name} as {resumption.name}", markup=False)
            console().print(f"cost: {cost}", markup=False)
        if must_ask(yes, output) and not confirmed("Submit to SageMaker?"):
            message("not submitted")
            return 0
    started = resumption.run()
    if detach:
        show_started(started, output, resumed_from=name)
        return 0
    choose = partial(followed_lines, resumption.plan.view, None, None)
    outcome = attend(backend, started.name, output, choose, account_check(clients))
    return EXIT_INTERRUPTED if outcome is None else conclude(outcome, output, {"resumed_from": name})
