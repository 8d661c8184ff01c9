"""`launch JOB.yaml`: check, submit, follow; here with `--local`, not at all with `--dry-run`.

What a launch shows on AWS, and what it asks and says before it starts processes on this machine, is the same
for `launch`, a ladder, a pair and a proof.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from launcher.cli.interaction import (
    EXIT_INTERRUPTED,
    HIDDEN,
    AllowEnvOption,
    ClusterOption,
    FollowedPattern,
    FollowedRank,
    IgnoreOption,
    OutputFormat,
    OutputOption,
    RunIdOption,
    SetOption,
    choose_lines,
    confirm,
    console,
    console_for_output,
    is_asking_possible,
    message,
    plan_offline,
    print_json,
    read,
)
from launcher.failure_modes.model import Refusal
from launcher.frozen import frozen
from launcher.text.regular_files import file_mode

if TYPE_CHECKING:
    from launcher.aws.clients import Clients
    from launcher.backends.local.backend import LocalBackend
    from launcher.backends.local.python import Interpreter, Machine
    from launcher.cli.job_view import AttemptsView, Choose
    from launcher.jobs.load_job import LoadedJob
    from launcher.planning.training_plan import TrainingPlan
    from launcher.session.launch_job import Launch, Submission
    from launcher.session.local_runs import Preflight
    from launcher.session.runs.diagnose_job import Check, Outcome
    from launcher.session.slurm.launch_run import SlurmLaunch
    from launcher.source.tree import SourceTree


SCRIPT_ENDINGS = (".py", ".sh")
"""What is a script, and no job file."""


JobOrScript = Annotated[Path, Parameter(help="The job file; with --local also a script that has none.")]


def launch(
    job_file: JobOrScript,
    /,
    *arguments: Annotated[
        str, Parameter(help="With --local and a script in place of a job file, its arguments, after --.")
    ],
    dry_run: Annotated[bool, Parameter(negative="", help="Print the request; send nothing.")] = False,
    local: Annotated[bool, Parameter(negative="", help="Run on this machine, without AWS.")] = False,
    slurm: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            consume_multiple=(0, 1),
            help="Run on Slurm, as the job file's section `slurm` says; with a PARTITION in that one.",
        ),
    ] = None,
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
    managed: Annotated[
        bool,
        Parameter(negative="", help="Hand the run to the cluster's controller, which tries again by itself."),
    ] = False,
    queue: Annotated[bool, Parameter(negative="", help="Through the cluster's queue.")] = False,
    share: Annotated[
        str | None, Parameter(help="With --queue, the fair share to submit under, of a queue with shares.")
    ] = None,
    run_id: RunIdOption = None,
    inputs: Annotated[
        list[str] | None,
        Parameter(
            name="--input",
            negative="",
            help="With --local or --slurm, a channel's folder: --input train=./data",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        Parameter(help="With --local and a script in place of a job file, where its job file is kept."),
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
    from launcher.session.local_runs import override_processes

    about_here = python is not None or processes is not None
    _check_options(local, about_here, dry_run, detach, queue, share, run_id, managed)
    if slurm is not None:
        set_ = [*(set_ or ()), *_on_slurm(slurm, inputs, local=local, through=queue or managed)]
    if processes is not None:
        set_, ignore = override_processes(processes, set_, ignore)
    if (rank is not None or grep is not None) and (dry_run or detach or managed):
        raise Refusal(
            "--rank and --grep are about following.", "Leave out --dry-run, --detach and --managed."
        )
    text = None
    if job_file.suffix in SCRIPT_ENDINGS:
        job_file, text = _draft(job_file, arguments, processes, save, output, local=local)
    elif arguments:
        raise Refusal(
            f"too many arguments: {' '.join(arguments)}.",
            "A script that is run without a job file takes words after --; the words of a job's script stand "
            "in `code.arguments` and `hyperparameters`.",
        )
    elif save is not None:
        raise Refusal("--save keeps the job of a script that has no job file.", "Leave it out.")
    loaded = read(job_file, cluster, set_, allow_env, text)
    with loaded.substitutions.refusals():
        if dry_run:
            return _dry_run(loaded, ignore, output)
        if local:
            plan = plan_offline(loaded, ignore, here=True)
            if plan.refused:
                return refuse(plan, output)
            here = LocalRunOptions(parse_input_folders(inputs or ()), python, processes, yes, allow_env)
            return _run_local(plan, here, output, partial(choose_lines, plan.view, rank, grep))
        from launcher.session.submit_job import run_id_of

        run = run_id_of(run_id, os.environ)
        if loaded.spec is not None and loaded.spec.backend == "slurm":
            if queue or managed:
                raise Refusal(_NOT_ON_SLURM, "Leave out --queue and --managed.")
            on_slurm = make_slurm_launch(loaded, ignore or (), run, allow_env)
            return _launch_on_slurm(on_slurm, detach, yes, output, (rank, grep))
        from launcher.aws.clients import Clients

        launching = make_launch(
            loaded, ignore or (), Clients(), run, queued=queue, share=share, managed=managed
        )
        return _launch_on_aws(launching, detach, yes, output, (rank, grep))


def _draft(
    script: Path,
    arguments: Sequence[str],
    processes: int | None,
    save: Path | None,
    output: OutputFormat,
    *,
    local: bool,
) -> tuple[Path, str]:
    """The job of a script that has no job file, shown and kept where that is asked for: its file, its text.

    Raises Refusal where it is not to run here: what a job on AWS is made of, somebody has to have read.
    """
    from launcher.drafts.job_draft import JobDraft, render_draft
    from launcher.drafts.script_draft import GivenByUser, draft_script
    from launcher.program.program import FileCache
    from launcher.session.drafting.read_script import read_script
    from launcher.session.drafting.write_job_file import check_is_new, write_job_file

    if not local:
        raise Refusal(
            f"{script} is a script, not a job file: which hosts it gets and what it reads is not known.",
            f"Write its job file with `launch init {script}`, or run it on this machine with --local.",
        )
    file = save or Path(f"{script.stem}.job.yaml")
    if save is not None:
        check_is_new(save)
    found, _ = read_script(script, file, FileCache())
    draft = draft_script(found, GivenByUser(processes=processes, arguments=tuple(arguments)))
    if save is not None:
        write_job_file(save, render_draft(draft))
        message(f"{save} was written")
    text = render_draft(JobDraft(draft.origin, draft.fields))
    console_for_output(output).print(text, markup=False, soft_wrap=True)
    return file, text


def _check_options(
    local: bool,
    about_here: bool,
    dry_run: bool,
    detach: bool,
    queue: bool,
    share: str | None,
    run_id: str | None,
    managed: bool,
) -> None:
    """Refuse options that contradict one another; `about_here`: some are about runs on this machine."""
    if local and (dry_run or detach or queue or managed):
        raise Refusal(
            "--local runs the job here and now.", "Leave out --dry-run, --detach, --queue and --managed."
        )
    if managed and queue:
        raise Refusal(
            "a run goes through the queue or is managed: a queue tries again by itself.",
            "Leave out --queue or --managed.",
        )
    if managed and dry_run:
        raise Refusal(
            "--dry-run asks nothing of AWS, and whether the cluster has a controller is known there.",
            "Leave out --managed: the request differs by a variable and three tags alone.",
        )
    if not local and about_here:
        raise Refusal(
            "--python and --processes are about runs on this machine.",
            "Add --local, or leave them out; `framework` and `distribution.processes_per_host` are for AWS.",
        )
    if share is not None and not queue:
        raise Refusal("--share names a share of the queue.", "Add --queue.")
    if run_id is not None and (local or dry_run):
        raise Refusal("--run-id is about jobs on AWS.", "Leave it out with --local and --dry-run.")


_NOT_ON_SLURM = "--queue and --managed are about jobs on AWS, and this one is for Slurm."


def _on_slurm(slurm: list[str], inputs: list[str] | None, *, local: bool, through: bool) -> list[str]:
    """The changes of the job file by which it runs on Slurm. Raises Refusal where that contradicts others."""
    if local:
        raise Refusal("--local runs the job here, and --slurm there.", "Leave out one of the two.")
    if through:
        raise Refusal(_NOT_ON_SLURM, "Leave out --queue and --managed.")
    folders = parse_input_folders(inputs or ())
    return [
        *changes_for_slurm(slurm),
        *(f'slurm.inputs."{name}"={folder}' for name, folder in folders.items()),
    ]


def changes_for_slurm(slurm: Sequence[str] | None) -> list[str]:
    """What `--slurm`, with a partition or without, changes of a job file, as `--set` takes it; None: not
    given."""
    return [] if slurm is None else ["backend=slurm", *(f"slurm.partition={each}" for each in slurm)]


def _dry_run(loaded: LoadedJob, ignore: Sequence[str] | None, output: OutputFormat) -> int:
    from launcher.cli.plan import show_plan

    plan = plan_offline(loaded, ignore)
    show_plan(plan, output)
    return 1 if plan.refused else 0


def refuse(plan: TrainingPlan, output: OutputFormat) -> int:
    """Print what keeps a plan from being launched; the exit code."""
    from launcher.cli.plan import plan_json, show_findings, summary_of

    if output is OutputFormat.JSON:
        print_json(plan_json(plan))
    else:
        show_findings(console(), plan.findings)
    message(f"not launched: {summary_of(plan.findings)}")
    return 1


def _run_local(plan: TrainingPlan, here: LocalRunOptions, output: OutputFormat, choose: Choose) -> int:
    from launcher.cli.job_view import conclude

    more = {"job": _job_json(plan)}
    outcome = run_here(plan, here, output, choose, more)
    return outcome if isinstance(outcome, int) else conclude(outcome, output, more)


def run_here(
    plan: TrainingPlan, here: LocalRunOptions, output: OutputFormat, choose: Choose, more: Mapping[str, Any]
) -> Outcome | int:
    """Run a plan on this machine to its end; the exit code where it was not started or was interrupted.

    `more` is what JSON tells beside how an interrupted job ended.
    """
    from contextlib import closing

    from launcher.backends.local.python import this_machine
    from launcher.cli.job_view import JobView, conclude_interrupted, show_progress
    from launcher.session.local_runs import check_machine
    from launcher.session.runs.follow_job import Interrupted, follow_local_run
    from launcher.session.submit_job import write_start_notes

    view = JobView(console_for_output(output))
    choice = choose(lambda: view.note(HIDDEN))
    machine = this_machine(here.python, os.environ)
    found = check_machine(plan, machine, here.inputs, here.processes)
    _introduce(plan, output, machine.python)
    if not confirm_preflight(found, output, yes=here.yes):
        message("not started")
        return 0
    write_start_notes(str(plan.name), plan)
    backend = make_local_backend(machine, here.inputs, here.allow_env)
    try:
        with view, closing(backend):
            return follow_local_run(backend, lambda: backend.submit(plan, show_progress), view, choice)
    except Interrupted as interrupted:
        return conclude_interrupted(interrupted, output, more)


def _launch_on_aws(
    launching: Launch, detach: bool, yes: bool, output: OutputFormat, lines: tuple[str | None, str | None]
) -> int:
    from launcher.session.account_checks import account_check

    ready = get_ready(launching, yes, output, lines)
    if isinstance(ready, int):
        return ready
    if launching.managed:
        from launcher.cli.job_view import show_started

        started = launching.hand_over(ready.plan, ready.submission.start)
        show_started(started, output, managed=True)
        message(f"handed over; look at it with: launch status {started.name}")
        return 0
    if not detach and not launching.queued:
        _hint_at_controller(ready.plan, output)
    return _submit(launching, ready, detach, output, account_check(launching.clients))


def _launch_on_slurm(
    launching: SlurmLaunch,
    detach: bool,
    yes: bool,
    output: OutputFormat,
    lines: tuple[str | None, str | None],
) -> int:
    ready = get_ready(launching, yes, output, lines)
    return ready if isinstance(ready, int) else _submit(launching, ready, detach, output, None)


@frozen
class ReadyLaunch:
    """A plan that may be submitted, the way that it goes, and which of the job's lines are shown."""

    plan: TrainingPlan
    submission: Submission
    choose: Choose


def get_ready(
    launching: Launch | SlurmLaunch, yes: bool, output: OutputFormat, lines: tuple[str | None, str | None]
) -> ReadyLaunch | int:
    """Plan, show what was found, and ask; the exit code where nothing is to be submitted."""
    plan = launching.plan()
    if plan.refused:
        return refuse(plan, output)
    choose = partial(choose_lines, plan.view, *lines)
    choose(lambda: None)  # What no job can show is refused before there is one.
    submission = launching.submission(plan)
    if submission.begun is None:
        _introduce(plan, output)
        if is_asking_possible(yes, output) and not confirm(_question(plan, submission)):
            message("not submitted")
            return 0
    return ReadyLaunch(plan, submission, choose)


def _submit(
    launching: Launch | SlurmLaunch,
    ready: ReadyLaunch,
    detach: bool,
    output: OutputFormat,
    check: Check | None,
) -> int:
    """Submit, and follow the job and its attempts; with `detach` nobody does."""
    from launcher.cli.job_view import AttemptsView, conclude, show_started

    start, plan = ready.submission.start, ready.plan
    if detach:
        show_started(start.once(plan), output)
        return 0
    view = AttemptsView(console_for_output(output))
    outcome = follow_launch(launching, ready, output, check, view)
    if outcome is None:
        return EXIT_INTERRUPTED
    more = {"attempts": view.names} if len(view.names) > 1 else {}
    return conclude(outcome, output, {"job": _job_json(plan), **more})


def follow_launch(
    launching: Launch | SlurmLaunch,
    ready: ReadyLaunch,
    output: OutputFormat,
    check: Check | None,
    view: AttemptsView,
) -> Outcome | None:
    """Submit a plan, and follow its job and the attempts after it; None where nobody stayed to the end."""
    from launcher.cli.job_view import attend

    start = ready.submission.start
    return launching.run(
        ready.plan,
        start,
        follow=lambda name: attend(start.backend, name, output, ready.choose, check),
        display=view,
    )


def _hint_at_controller(plan: TrainingPlan, output: OutputFormat) -> None:
    """Say what --managed would do, where the job may have other attempts at all."""
    retries = plan.spec.limits.max_retries if plan.spec is not None else 0
    if output is OutputFormat.TEXT and retries:
        how = "with --managed" if plan.controller else "with `managed: true` in the cluster and --managed"
        message(f"this terminal starts other attempts, as long as it runs; {how} a controller does")


def _question(plan: TrainingPlan, submission: Submission) -> str:
    from launcher.planning.job_cost import cost_in_words
    from launcher.planning.request_view import RequestView
    from launcher.planning.show_plan import mask_text

    # The price has just been shown with the summary, and belongs to the question all the same.
    view = RequestView(plan.request or {})
    count = view.hosts or 1
    if plan.slurm is not None:
        return f"Submit to Slurm: {count} host{'s' * (count != 1)}?"
    hosts = f"{count} × {' or '.join(view.instance_types) or 'hosts'}"
    what = mask_text(plan, hosts, ("resources",))
    account, cost = submission.account, cost_in_words(view, plan.region)
    return f"Submit to SageMaker in account {account}: {what}, {cost}?"


def _introduce(plan: TrainingPlan, output: OutputFormat, python: Interpreter | None = None) -> None:
    """Say what will run, and what was found that does not stop it; `python` where it runs on this machine."""
    from launcher.cli.plan import show_findings, show_summary

    if output is OutputFormat.TEXT:
        show_findings(console(), [finding for finding in plan.findings if not finding.ignored])
        show_summary(plan, python=python)


def _job_json(plan: TrainingPlan) -> dict[str, Any]:
    """The resolved job without the values that the user gave it: results are kept and passed on."""
    from launcher.planning.show_plan import mask_job

    fields = mask_job(plan).items()
    return {key: value for key, value in fields if key not in ("environment", "hyperparameters")}


def make_launch(
    loaded: LoadedJob,
    ignore: Sequence[str],
    clients: Clients,
    run_id: str | None,
    *,
    queued: bool = False,
    share: str | None = None,
    source: SourceTree | None = None,
    managed: bool = False,
) -> Launch:
    """The launch of a job that was read, with the views of the command line.

    `source` is the job's code where it was read already, else it is read now. The rest is as in `Launch`.
    """
    from launcher.aws.session import session_region
    from launcher.cli.interaction import LiveView, read_code
    from launcher.cli.job_view import show_progress
    from launcher.session.launch_job import Launch

    return Launch(
        loaded,
        clients,
        session_region(),
        ignore,
        queued,
        share,
        run_id,
        LiveView,
        show_progress,
        read_code(loaded) if source is None else source,
        managed,
    )


def make_slurm_launch(
    loaded: LoadedJob,
    ignore: Sequence[str],
    run_id: str | None,
    allow_env: Sequence[str] | None,
    source: SourceTree | None = None,
) -> SlurmLaunch:
    """The same of a job that is to run on Slurm."""
    from launcher.aws.session import session_region
    from launcher.cli.interaction import read_code
    from launcher.cli.job_view import show_progress
    from launcher.session.prepare_plan import variables_of
    from launcher.session.slurm.launch_run import SlurmLaunch

    return SlurmLaunch(
        loaded,
        session_region(),
        ignore,
        run_id,
        show_progress,
        read_code(loaded) if source is None else source,
        variables_of(allow_env),
    )


def make_launch_of(
    loaded: LoadedJob,
    ignore: Sequence[str],
    clients: Clients,
    run_id: str | None,
    allow_env: Sequence[str] | None,
    source: SourceTree | None = None,
) -> tuple[Launch | SlurmLaunch, Check | None]:
    """The launch of a job where its file says, and what looks into the account after a failure there."""
    from launcher.session.account_checks import account_check

    if loaded.spec is not None and loaded.spec.backend == "slurm":
        return make_slurm_launch(loaded, ignore, run_id, allow_env, source), None
    return make_launch(loaded, ignore, clients, run_id, source=source), account_check(clients)


# What `launch JOB.yaml --local` asks and says before it starts processes on this machine.


@frozen
class LocalRunOptions:
    """What the command line says of a run on this machine.

    `inputs` are folders for channels, `python` the Python to run it with, `processes` how many on each
    host, and with `yes` nothing is asked; `allow_env` names the only variables of the environment that
    secrets may be taken from.
    """

    inputs: Mapping[str, Path]
    python: str | None
    processes: int | None
    yes: bool
    allow_env: Sequence[str] | None


def confirm_preflight(found: Preflight, output: OutputFormat, *, yes: bool) -> bool:
    """Say what this machine lacks, and ask where it would be crowded; False where the answer is no.

    Raises Refusal where it would be crowded and there is nobody to ask.
    """
    from rich.text import Text

    screen = console_for_output(output)
    for note in found.notes:
        screen.print(Text(f"here: {note}", "yellow"))
    if found.crowd is None or yes:
        return True
    if is_asking_possible(yes, output):
        message(f"{found.crowd.what}: {found.crowd.consequence}.")
        return confirm("Start them all?")
    raise Refusal(f"{found.crowd.what}: {found.crowd.consequence}.", found.crowd.remedy)


def make_local_backend(
    machine: Machine, inputs: Mapping[str, Path], allow_env: Sequence[str] | None
) -> LocalBackend:
    """What runs jobs on this machine, with folders for their channels; to be closed.

    Raises Refusal for a name in `allow_env` that is none, BackendError where runs cannot be kept here.
    """
    from launcher.backends.local.backend import LocalBackend
    from launcher.session.local_runs import make_local_home
    from launcher.session.prepare_plan import variables_of

    return LocalBackend(
        make_local_home(), inputs, python=machine.python.path, variables=variables_of(allow_env)
    )


def parse_input_folders(inputs: Sequence[str]) -> dict[str, Path]:
    """The folders of `--input CHANNEL=FOLDER`, by channel. Raises Refusal for what names none."""
    folders = {}
    for text in inputs:
        name, equals, folder = text.partition("=")
        if not equals or not stat.S_ISDIR(file_mode(Path(folder))):
            raise Refusal(f"--input {text} does not name a folder.", "Write it as --input CHANNEL=FOLDER.")
        folders[name] = Path(folder).resolve()
    return folders
