"""`launch check`: judge a job file and its plan, offline; with `--live` the account as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from launcher.cli.job_options import (
    AllowEnvOption,
    ClusterOption,
    IgnoreOption,
    JobFile,
    OutputOption,
    SetOption,
    plan_offline,
    read,
)
from launcher.cli.output import OutputFormat, console, message, print_json
from launcher.failure_modes.refusal import Refusal

if TYPE_CHECKING:
    from launcher.jobs.load import LoadedJob
    from launcher.planning.training_plan import TrainingPlan


def check(
    job_file: JobFile,
    /,
    *,
    live: Annotated[
        bool, Parameter(negative="", help="Look into the AWS account, too; changes nothing.")
    ] = False,
    fix: Annotated[
        bool,
        Parameter(negative="", help="With --live: add missing security group rules (asks for each group)."),
    ] = False,
    yes: Annotated[bool, Parameter(negative="", help="With --fix: add the rules without asking.")] = False,
    cluster: ClusterOption = None,
    set_: SetOption = None,
    allow_env: AllowEnvOption = None,
    ignore: IgnoreOption = None,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Judge a job file and its plan. Exits with 1 where there are errors.

    Without --live it calls nothing: a named cluster comes from what was last read of it on this machine.
    """
    from launcher.cli.findings_view import show_findings, summary_of

    if fix and not live:
        raise Refusal("--fix repairs what --live finds.", "Add --live.")
    loaded = read(job_file, cluster, set_, allow_env)
    with loaded.substitutions.refusals():
        plan = _plan_live(loaded, ignore or (), fix=fix, yes=yes) if live else plan_offline(loaded, ignore)
    if output is OutputFormat.JSON:
        print_json({"findings": [finding.to_json() for finding in plan.findings]})
    else:
        terminal = console()
        show_findings(terminal, plan.findings)
        terminal.print(f"{job_file}: {summary_of(plan.findings)}")
    return 1 if plan.refused else 0


def _plan_live(loaded: LoadedJob, ignore: Sequence[str], *, fix: bool, yes: bool) -> TrainingPlan:
    from launcher.aws.clients import Clients
    from launcher.aws.session import session_region
    from launcher.cli.live_view import LiveView, offer_repairs
    from launcher.cli.source_view import read_code
    from launcher.session.launching import plan_with_cluster
    from launcher.session.live import judged, look, repairs

    clients = Clients()
    code = read_code(loaded)
    plan = plan_with_cluster(loaded, clients, session_region=session_region(), ignore=ignore, source=code)
    if plan.request is None or (plan.refused and plan.placeholders):
        message("AWS was not looked at: fix the findings of the job file first")
        return plan
    with LiveView() as view:
        subject = look(plan, loaded, clients, on_answer=view.progress)
    if subject is None:
        return plan
    if fix and offer_repairs(repairs(subject, ignore), subject.account.region, clients, yes=yes):
        with LiveView() as view:
            subject = look(plan, loaded, clients, on_answer=view.progress) or subject
    return judged(plan, subject, loaded, ignore)
