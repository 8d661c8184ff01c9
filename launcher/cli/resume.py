"""`launch resume NAME`: the same job again, from the earlier one's newest checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from launcher.cli.attendance import attend, confirmed, must_ask, screen_for
from launcher.cli.job_options import OutputOption
from launcher.cli.output import EXIT_INTERRUPTED, OutputFormat, console, message, print_json
from launcher.cli.status import JobName
from launcher.failure_modes.refusal import Refusal

if TYPE_CHECKING:
    from launcher.backends.interface import Backend


def resume(
    name: JobName,
    /,
    *,
    yes: Annotated[bool, Parameter(negative="", help="Submit without asking.")] = False,
    detach: Annotated[bool, Parameter(negative="", help="Submit, and do not follow.")] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Start a new job with the plan and code of an earlier one, from its newest checkpoint."""
    from launcher.aws.clients import Clients
    from launcher.aws.session import session_region
    from launcher.session.jobs import find_job

    region = session_region()
    job = find_job(name, Clients(), region)
    if not job.status.state.is_final:
        raise Refusal(
            f"{job.name} is {job.status.state} and still writes its checkpoints.",
            f"Stop it first: launch stop {job.name}",
        )
    if not job.backend.runs_here:
        return _resume_on_aws(job.backend, job.name, region, yes, detach, output)
    if detach:
        raise Refusal("a local job runs here and now.", "Leave out --detach.")
    return _resume_here(job.backend, job.name, output)


def _resume_here(backend: Backend, name: str, output: OutputFormat) -> int:
    from contextlib import closing

    from launcher.cli.job_view import JobView, conclude
    from launcher.session.resume import plan_resumption
    from launcher.session.run import Interrupted, follow_here

    resumption = plan_resumption(backend, name)
    message(f"resuming {name} as {resumption.name}")
    try:
        with JobView(screen_for(output)) as view, closing(backend):
            outcome = follow_here(backend, backend.resume(name, resumption.request), view)
    except Interrupted as interrupted:
        message(f"stopped. {interrupted.remedy}")
        return EXIT_INTERRUPTED
    return conclude(outcome, output, {"resumed_from": name})


def _resume_on_aws(
    backend: Backend, name: str, region: str | None, yes: bool, detach: bool, output: OutputFormat
) -> int:
    from launcher.cli.job_view import conclude
    from launcher.cli.submission_view import show_progress
    from launcher.planning.cost import cost_in_words
    from launcher.planning.request_view import RequestView
    from launcher.session.resume import plan_resumption

    resumption = plan_resumption(backend, name)
    if output is OutputFormat.TEXT:
        console().print(f"resume {name} as {resumption.name}", markup=False)
        console().print(f"cost: {cost_in_words(RequestView(resumption.request), region)}", markup=False)
    if must_ask(yes, output) and not confirmed("Submit to SageMaker?"):
        message("not submitted")
        return 0
    new = backend.resume(name, resumption.request, show_progress)
    message(f"submitted {new}")
    if detach:
        if output is OutputFormat.JSON:
            print_json({"name": new, "state": "InProgress", "resumed_from": name})
        return 0
    outcome = attend(backend, new, output)
    return EXIT_INTERRUPTED if outcome is None else conclude(outcome, output, {"resumed_from": name})
