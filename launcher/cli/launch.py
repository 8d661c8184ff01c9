"""`launch JOB.yaml`: check, submit, follow; here with `--local`, not at all with `--dry-run`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from launcher.cli.attendance import attend, confirmed, must_ask, screen_for
from launcher.cli.followed_lines import HIDDEN, FollowedPattern, FollowedRank, followed_lines
from launcher.cli.job_options import (
    AllowEnvOption,
    ClusterOption,
    IgnoreOption,
    JobFile,
    OutputOption,
    RunIdOption,
    SetOption,
    plan_offline,
    read,
)
from launcher.cli.launching import launch_of
from launcher.cli.local_run import Here, backend_here, cleared, fewer_processes, folders_of_channels
from launcher.cli.output import EXIT_INTERRUPTED, OutputFormat, console, message, print_json
from launcher.failure_modes.refusal import Refusal

if TYPE_CHECKING:
    from launcher.backends.local.interpreter import Interpreter
    from launcher.cli.followed_lines import Choose
    from launcher.jobs.load import LoadedJob
    from launcher.planning.training_plan import TrainingPlan
    from launcher.session.launching import Launch, Submission


def launch(
    job_file: JobFile,
    /,
    *,
    dry_run: Annotated[bool, Parameter(negative="", help="Print the request; send nothing.")] = False,
    local: Annotated[bool, Parameter(negative="", help="Run on this machine, without AWS.")] = False,
    detach: Annotated[bool, Parameter(negative="", help="Submit, and do not follow.")] = False,
    python: Annotated[
        str | None,
        Parameter(
            help="With --local, the Python that runs the job. Default: the active environment's where it has "
            "torch, else the launcher's own."
        ),
    ] = None,
    processes: Annotated[
        int | None, Parameter(help="With --local, processes per host instead of the job's.")
    ] = None,
    yes: Annotated[bool, Parameter(negative="", help="Go on without asking.")] = False,
    queue: Annotated[bool, Parameter(negative="", help="Through the cluster's queue.")] = False,
    share: Annotated[
        str | None, Parameter(help="With --queue, the fair share to submit under, of a queue with shares.")
    ] = None,
    run_id: RunIdOption = None,
    inputs: Annotated[
        list[str] | None,
        Parameter(name="--input", negative="", help="With --local, a channel's folder: --input train=./data"),
    ] = None,
    cluster: ClusterOption = None,
    set_: SetOption = None,
    allow_env: AllowEnvOption = None,
    ignore: IgnoreOption = None,
    rank: FollowedRank = None,
    grep: FollowedPattern = None,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Turn a job file into a training job: check it, submit it once, follow it, say why it failed."""
    if local and (dry_run or detach or queue):
        raise Refusal("--local runs the job here and now.", "Leave out --dry-run, --detach and --queue.")
    if not local and (python is not None or processes is not None):
        raise Refusal(
            "--python and --processes are about runs on this machine.",
            "Add --local, or leave them out; `framework` and `distribution.processes_per_host` are for AWS.",
        )
    if share is not None and not queue:
        raise Refusal("--share names a share of the queue.", "Add --queue.")
    if run_id is not None and (local or dry_run):
        raise Refusal("--run-id is about jobs on AWS.", "Leave it out with --local and --dry-run.")
    if processes is not None:
        set_, ignore = fewer_processes(processes, set_, ignore)
    if (rank is not None or grep is not None) and (dry_run or detach):
        raise Refusal("--rank and --grep are about following.", "Leave out --dry-run and --detach.")
    loaded = read(job_file, cluster, set_, allow_env)
    with loaded.substitutions.refusals():
        if dry_run:
            return _dry_run(loaded, ignore, output)
        if local:
            plan = plan_offline(loaded, ignore, here=True)
            if plan.refused:
                return refuse(plan, output)
            here = Here(folders_of_channels(inputs or ()), python, processes, yes, allow_env)
            return _run_local(plan, here, output, partial(followed_lines, plan.view, rank, grep))
        from launcher.aws.clients import Clients
        from launcher.session.run_id import run_id_of

        run = run_id_of(run_id, os.environ)
        launching = launch_of(loaded, ignore or (), Clients(), run, queued=queue, share=share)
        return _launch_on_aws(launching, detach, yes, output, (rank, grep))


def _dry_run(loaded: LoadedJob, ignore: Sequence[str] | None, output: OutputFormat) -> int:
    from launcher.cli.plan import show_plan

    plan = plan_offline(loaded, ignore)
    show_plan(plan, output)
    return 1 if plan.refused else 0


def refuse(plan: TrainingPlan, output: OutputFormat) -> int:
    """Print what keeps a plan from being launched; the exit code."""
    from launcher.cli.findings_view import show_findings, summary_of
    from launcher.cli.plan import plan_json

    if output is OutputFormat.JSON:
        print_json(plan_json(plan))
    else:
        show_findings(console(), plan.findings)
    message(f"not launched: {summary_of(plan.findings)}")
    return 1


def _run_local(plan: TrainingPlan, here: Here, output: OutputFormat, choose: Choose) -> int:
    from contextlib import closing

    from launcher.backends.local.machine import this_machine
    from launcher.cli.job_view import JobView, conclude, conclude_interrupted
    from launcher.cli.submission_view import show_progress
    from launcher.session.plan_notes import note_start
    from launcher.session.preflight import look_before
    from launcher.session.run import Interrupted, follow_here

    view = JobView(screen_for(output))
    choice = choose(lambda: view.note(HIDDEN))
    machine = this_machine(here.python, os.environ)
    found = look_before(plan, machine, here.inputs, here.processes)
    _introduce(plan, output, machine.python)
    if not cleared(found, output, yes=here.yes):
        message("not started")
        return 0
    note_start(str(plan.name), plan)
    backend = backend_here(machine, here.inputs, here.allow_env)
    try:
        with view, closing(backend):
            outcome = follow_here(backend, lambda: backend.submit(plan, show_progress), view, choice)
    except Interrupted as interrupted:
        return conclude_interrupted(interrupted, output, {"job": _job_json(plan)})
    return conclude(outcome, output, {"job": _job_json(plan)})


def _launch_on_aws(
    launching: Launch, detach: bool, yes: bool, output: OutputFormat, lines: tuple[str | None, str | None]
) -> int:
    from launcher.cli.submission_view import show_started

    plan = launching.plan()
    if plan.refused:
        return refuse(plan, output)
    choose = partial(followed_lines, plan.view, *lines)
    choose(lambda: None)  # What no job can show is refused before there is one.
    submission = launching.submission(plan)
    if submission.begun is None:
        _introduce(plan, output)
        if must_ask(yes, output) and not confirmed(_question(plan, submission.account)):
            message("not submitted")
            return 0
    if not detach:
        return _attempts(launching, plan, submission, output, choose)
    show_started(submission.start.once(plan), output)
    return 0


def _attempts(
    launching: Launch, plan: TrainingPlan, submission: Submission, output: OutputFormat, choose: Choose
) -> int:
    from launcher.cli.job_view import conclude
    from launcher.cli.submission_view import AttemptsView
    from launcher.session.checked import account_check

    check = account_check(launching.clients)
    backend, view = submission.backend, AttemptsView(screen_for(output))
    outcome = launching.run(
        plan,
        submission.start,
        follow=lambda name: attend(backend, name, output, choose, check),
        display=view,
    )
    if outcome is None:
        return EXIT_INTERRUPTED
    more = {"attempts": view.names} if len(view.names) > 1 else {}
    return conclude(outcome, output, {"job": _job_json(plan), **more})


def _question(plan: TrainingPlan, account: str) -> str:
    from launcher.planning.cost import cost_in_words
    from launcher.planning.request_view import RequestView
    from launcher.planning.shown import shown_text

    # The price has just been shown with the summary, and belongs to the question all the same.
    view = RequestView(plan.request or {})
    hosts = f"{view.hosts or 1} × {' or '.join(view.instance_types) or 'hosts'}"
    what = shown_text(plan, hosts, ("resources",))
    return f"Submit to SageMaker in account {account}: {what}, {cost_in_words(view, plan.region)}?"


def _introduce(plan: TrainingPlan, output: OutputFormat, python: Interpreter | None = None) -> None:
    """Say what will run, and what was found that does not stop it; `python` where it runs on this machine.

    Informations are about a submission and say nothing of a run here.
    """
    from launcher.cli.findings_view import show_findings
    from launcher.cli.plan import show_summary
    from launcher.failure_modes.model import Severity

    if output is OutputFormat.TEXT:
        hidden = {Severity.INFO} if python else set()
        show_findings(console(), [f for f in plan.findings if not f.ignored and f.severity not in hidden])
        show_summary(plan, python=python)


def _job_json(plan: TrainingPlan) -> dict[str, Any]:
    """The resolved job without the values that the user gave it: results are kept and passed on."""
    from launcher.planning.shown import shown_job

    fields = shown_job(plan).items()
    return {key: value for key, value in fields if key not in ("environment", "hyperparameters")}
