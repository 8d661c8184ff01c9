"""`launch JOB.yaml`: check, submit, follow; here with `--local`, not at all with `--dry-run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from launcher.cli.attendance import attend, confirmed, must_ask, screen_for
from launcher.cli.job_options import (
    ClusterOption,
    IgnoreOption,
    JobFile,
    OutputOption,
    SetOption,
    plan_offline,
)
from launcher.cli.output import OutputFormat, console, message, print_json
from launcher.failure_modes.refusal import Refusal

if TYPE_CHECKING:
    from launcher.planning.training_plan import TrainingPlan
    from launcher.session.run import Outcome


def launch(
    job_file: JobFile,
    /,
    *,
    dry_run: Annotated[bool, Parameter(negative="", help="Print the request; send nothing.")] = False,
    local: Annotated[bool, Parameter(negative="", help="Run on this machine, without AWS.")] = False,
    detach: Annotated[bool, Parameter(negative="", help="Submit, and do not follow.")] = False,
    yes: Annotated[bool, Parameter(negative="", help="Submit without asking.")] = False,
    inputs: Annotated[
        list[str] | None,
        Parameter(name="--input", negative="", help="With --local, a channel's folder: --input train=./data"),
    ] = None,
    cluster: ClusterOption = None,
    set_: SetOption = None,
    ignore: IgnoreOption = None,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Turn a job file into a training job: check it, submit it once, follow it, say why it failed."""
    from launcher.cli.plan import show_plan

    if local and (dry_run or detach):
        raise Refusal("--local runs the job here and now.", "Leave out --dry-run and --detach.")
    if dry_run or local:
        plan = plan_offline(job_file, cluster, set_, ignore)
    else:
        plan = _plan_with_aws(job_file, cluster, set_, ignore)
    if dry_run:
        show_plan(plan, output)
        return 1 if plan.refused else 0
    if plan.refused:
        return _refuse(plan, output)
    return _run_local(plan, inputs or (), output) if local else _run_on_aws(plan, detach, yes, output)


def _plan_with_aws(
    job_file: Path, cluster: str | None, overrides: list[str] | None, ignore: list[str] | None
) -> TrainingPlan:
    from launcher.account.aws import session_region
    from launcher.session.preparation import JobSource, read_job
    from launcher.session.run import plan_for_submission

    loaded = read_job(JobSource(job_file, cluster, overrides or ()))
    return plan_for_submission(loaded, session_region=session_region(), ignore=ignore or ())


def _refuse(plan: TrainingPlan, output: OutputFormat) -> int:
    from launcher.cli.findings_view import show_findings, summary_of
    from launcher.cli.plan import plan_json

    if output is OutputFormat.JSON:
        print_json(plan_json(plan))
    else:
        show_findings(console(), plan.findings)
    message(f"not launched: {summary_of(plan.findings)}")
    return 1


def _run_local(plan: TrainingPlan, inputs: list[str] | tuple[()], output: OutputFormat) -> int:
    from launcher.cli.job_view import JobView
    from launcher.session.run import Interrupted, run_here

    _introduce(plan, output, here=True)
    try:
        with JobView(screen_for(output)) as view:
            outcome = run_here(plan, _folders(inputs), view)
    except Interrupted as interrupted:
        state = interrupted.status.state if interrupted.status else "unknown"
        message(f"stopped; the job is {state}. {interrupted.remedy}")
        return 130
    return _conclude(plan, outcome, output)


def _run_on_aws(plan: TrainingPlan, detach: bool, yes: bool, output: OutputFormat) -> int:
    from launcher.cli.submission_view import show_progress
    from launcher.session.run import SageMakerSession

    session = SageMakerSession.of(plan.region)
    _introduce(plan, output, here=False)
    if must_ask(yes, output) and not confirmed(_question(plan, session.account)):
        message("not submitted")
        return 0
    name = session.submit(plan, show_progress)
    message(f"submitted {name}")
    if detach:
        if output is OutputFormat.JSON:
            print_json({"name": name, "state": "InProgress"})
        return 0
    outcome = attend(session.backend, name, output)
    return 130 if outcome is None else _conclude(plan, outcome, output)


def _question(plan: TrainingPlan, account: str) -> str:
    from launcher.planning.cost import cost_in_words

    # The price has just been shown with the summary, and belongs to the question all the same.
    hosts = (plan.training or {})["ResourceConfig"]
    what = f"{hosts.get('InstanceCount', 1)} × {hosts.get('InstanceType', 'hosts')}"
    return (
        f"Submit to SageMaker in account {account}: {what}, {cost_in_words(plan.request or {}, plan.region)}?"
    )


def _introduce(plan: TrainingPlan, output: OutputFormat, *, here: bool) -> None:
    """Say what will run, and what was found that does not stop it.

    Informations are about a submission and say nothing of a run `here`.
    """
    from launcher.cli.findings_view import show_findings
    from launcher.cli.plan import show_summary
    from launcher.failure_modes.model import Severity

    if output is OutputFormat.TEXT:
        hidden = {Severity.INFO} if here else set()
        show_findings(console(), [f for f in plan.findings if not f.ignored and f.severity not in hidden])
        show_summary(plan, places=not here)


def _conclude(plan: TrainingPlan, outcome: Outcome, output: OutputFormat) -> int:
    from launcher.cli.job_view import outcome_json, show_outcome

    if output is OutputFormat.JSON:
        print_json({**outcome_json(outcome), "job": plan.job})
    else:
        show_outcome(console(), outcome)
    return 0 if outcome.succeeded else 1


def _folders(inputs: list[str] | tuple[()]) -> dict[str, Path]:
    folders = {}
    for text in inputs:
        name, equals, folder = text.partition("=")
        if not equals or not Path(folder).is_dir():
            raise Refusal(f"--input {text} does not name a folder.", "Write it as --input CHANNEL=FOLDER.")
        folders[name] = Path(folder).resolve()
    return folders
