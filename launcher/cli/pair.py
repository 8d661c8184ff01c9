"""`launch pair`: two runs that differ in one thing, compared by what they print."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from launcher.cli.attendance import confirmed, leave_all, must_ask, screen_for
from launcher.cli.job_options import (
    AllowEnvOption,
    ClusterOption,
    IgnoreOption,
    OutputOption,
    plan_offline,
    read,
)
from launcher.cli.launching import launch_of
from launcher.cli.local_run import Here, backend_here, cleared, fewer_processes, folders_of_channels
from launcher.cli.output import EXIT_INTERRUPTED, OutputFormat, message
from launcher.documents.files import file_mode
from launcher.failure_modes.refusal import Refusal

if TYPE_CHECKING:
    from launcher.backends.interface import Backend
    from launcher.jobs.load import LoadedJob
    from launcher.planning.training_plan import TrainingPlan
    from launcher.session.launching import Launch
    from launcher.session.outcome import Outcome
    from launcher.session.pair import PairFacts

_ENDINGS = (".yaml", ".yml")


def pair(
    first: Annotated[str, Parameter(help="A job file, or the name of a job.")],
    second: Annotated[str | None, Parameter(help="Another; none with --set twice.")] = None,
    /,
    *,
    set_: Annotated[
        list[str] | None,
        Parameter(
            name="--set",
            negative="",
            help="With one job file, given twice: what A has, and what B: --set hyperparameters.lr=0.1",
        ),
    ] = None,
    local: Annotated[
        bool, Parameter(negative="", help="Run both on this machine, one after the other.")
    ] = False,
    one_after_another: Annotated[
        bool, Parameter(negative="", help="On AWS, submit B when A has ended. Default: both at once.")
    ] = False,
    same_within: Annotated[
        float, Parameter(help="The part of A's loss by which equal ones may differ.")
    ] = 0.02,
    python: Annotated[str | None, Parameter(help="With --local, the Python that runs both.")] = None,
    processes: Annotated[
        int | None, Parameter(help="With --local, processes per host instead of the jobs'.")
    ] = None,
    inputs: Annotated[
        list[str] | None,
        Parameter(name="--input", negative="", help="With --local, a channel's folder: --input train=./data"),
    ] = None,
    yes: Annotated[bool, Parameter(negative="", help="Go on without asking.")] = False,
    cluster: ClusterOption = None,
    allow_env: AllowEnvOption = None,
    ignore: IgnoreOption = None,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Run two jobs that differ in one thing, or take two that ran, and say whether they learn alike."""
    if not 0 < same_within < 1:
        raise Refusal(f"--same-within {same_within:g} is no part of a loss.", "Give such as 0.02.")
    if second is not None and not _is_file(first) and not _is_file(second):
        if set_ or local or one_after_another:
            raise Refusal(
                f"{first} and {second} are jobs that ran: nothing is run.",
                "Leave out --set, --local and --one-after-another, or give two job files.",
            )
        return _compare_jobs(first, second, same_within, output)
    if not local and (python is not None or processes is not None or inputs):
        raise Refusal("--python, --processes and --input are about runs on this machine.", "Add --local.")
    sides = _sides(first, second, set_ or ())
    if processes is not None:
        changed = [fewer_processes(processes, overrides, ignore) for _, overrides in sides]
        sides = [(file, overrides) for (file, _), (overrides, _) in zip(sides, changed, strict=True)]
        ignore = changed[0][1]
    jobs = [read(file, cluster, overrides, allow_env) for file, overrides in sides]
    with jobs[0].substitutions.refusals(), jobs[1].substitutions.refusals():
        if local:
            here = Here(folders_of_channels(inputs or ()), python, processes, yes, allow_env)
            return _run_here(jobs, ignore, here, same_within, output)
        return _run_on_aws(jobs, ignore or (), one_after_another, yes, same_within, output)


def _sides(first: str, second: str | None, given: Sequence[str]) -> list[tuple[Path, list[str]]]:
    """The job file and the overrides of each side."""
    if second is None:
        if len(given) != 2:
            times = {0: "not given", 1: "given once"}.get(len(given), f"given {len(given)} times")
            raise Refusal(
                f"{first} alone is no pair: --set is {times}.",
                "Give --set twice, once for each side (--set X=1 --set X=2), or two job files, or the names "
                "of two jobs.",
            )
        return [(Path(first), [each]) for each in given]
    for each in (first, second):
        if not _is_file(each):
            raise Refusal(f"{each} is not a job file.", "Give two job files, or the names of two jobs.")
    if given:
        raise Refusal(
            "with two job files, --set has no side to belong to.", "Change the files, or give one of them."
        )
    return [(Path(first), []), (Path(second), [])]


def _is_file(text: str) -> bool:
    return text.endswith(_ENDINGS) or "/" in text or bool(file_mode(Path(text)))


def _compare_jobs(first: str, second: str, same_within: float, output: OutputFormat) -> int:
    from launcher.aws.bounded import FIND_SECONDS, bounded
    from launcher.aws.clients import Clients
    from launcher.aws.session import session_region
    from launcher.cli.pair_view import show_facts
    from launcher.session.pair import facts_of_jobs, found_pair, seen

    found = bounded(
        FIND_SECONDS,
        f"find {first} and {second}",
        lambda: found_pair(first, second, Clients(brisk=True), session_region()),
    )
    facts = facts_of_jobs(*found)
    show_facts(facts, output)
    return _conclude(facts, [seen(job) for job in found], same_within, output)


def _run_here(
    jobs: Sequence[LoadedJob],
    ignore: Sequence[str] | None,
    here: Here,
    same_within: float,
    output: OutputFormat,
) -> int:
    from contextlib import closing

    from launcher.backends.local.machine import this_machine
    from launcher.cli.job_view import show_outcome
    from launcher.cli.pair_view import PairView
    from launcher.cli.submission_view import show_progress
    from launcher.session.pair import LABELS
    from launcher.session.plan_notes import note_start
    from launcher.session.preflight import look_before
    from launcher.session.run import Interrupted, follow_here

    plans = [plan_offline(job, ignore, here=True) for job in jobs]
    machine = this_machine(here.python, os.environ)
    facts = _introduced(plans, output, python=str(machine.python))
    if facts is None:
        return 1
    looks = [look_before(plan, machine, here.inputs, here.processes) for plan in plans]
    # Both sides mostly lack the same here, which is said and asked once.
    for found in looks[:1] if looks[0] == looks[1] else looks:
        if not cleared(found, output, yes=here.yes):
            message("not started")
            return 0
    ended, view = [], PairView(screen_for(output))
    for label, plan in zip(LABELS, plans, strict=True):
        note_start(str(plan.name), plan)
        backend = backend_here(machine, here.inputs, here.allow_env)
        try:
            with view, closing(backend):
                start = partial(backend.submit, plan, show_progress)
                outcome = follow_here(backend, start, view.side(label))
        except Interrupted as interrupted:
            if interrupted.outcome is not None and output is OutputFormat.TEXT:
                show_outcome(screen_for(output), interrupted.outcome)
            message(f"{label} was stopped: the pair is not compared. {interrupted.remedy}")
            return interrupted.exit_code
        ended.append((backend, outcome))
    return _conclude(facts, ended, same_within, output)


def _run_on_aws(
    jobs: Sequence[LoadedJob],
    ignore: Sequence[str],
    one_after_another: bool,
    yes: bool,
    same_within: float,
    output: OutputFormat,
) -> int:
    from launcher.cli.pair_view import PairView, question
    from launcher.session.pair import LABELS
    from launcher.session.pair_runs import (
        PairedRun,
        PairLeft,
        run_beside_each_other,
        run_one_after_another,
    )

    launches = _launches(jobs, ignore)
    plans = [each.plan() for each in launches]
    facts = _introduced(plans, output)
    if facts is None:
        return 1
    submissions = [each.submission(plan) for each, plan in zip(launches, plans, strict=True)]
    begun = all(each.begun is not None for each in submissions)
    if not begun and must_ask(yes, output) and not confirmed(question(plans, submissions[0].account)):
        message("not submitted")
        return 0
    run = run_one_after_another if one_after_another else run_beside_each_other
    with PairView(screen_for(output)) as view:
        runs = [
            PairedRun(label, plan, submission, view.side(label))
            for label, plan, submission in zip(LABELS, plans, submissions, strict=True)
        ]
        try:
            ended = run(runs)
        except PairLeft as interruption:
            left = interruption.left
        else:
            return _conclude(facts, ended, same_within, output)
    leave_all(left)
    return EXIT_INTERRUPTED


def _launches(jobs: Sequence[LoadedJob], ignore: Sequence[str]) -> list[Launch]:
    from launcher.aws.clients import Clients
    from launcher.session.pair import LABELS
    from launcher.session.run_id import run_id_of

    run, clients = run_id_of(None, os.environ), Clients()
    return [
        # Also two sides that are alike in everything are two jobs.
        launch_of(job, ignore, clients, None if run is None else f"{run}/pair-{label}")
        for label, job in zip(LABELS, jobs, strict=True)
    ]


def _introduced(
    plans: Sequence[TrainingPlan], output: OutputFormat, python: str | None = None
) -> PairFacts | None:
    """Show both plans and what they differ in; None where one is refused, which is said."""
    from launcher.cli.findings_view import summary_of
    from launcher.cli.pair_view import show_facts, show_plans, show_refused
    from launcher.session.pair import LABELS, facts_of_plans

    refused = [(label, plan) for label, plan in zip(LABELS, plans, strict=True) if plan.refused]
    if refused:
        show_refused(plans, output)
        for label, plan in refused:
            message(f"not launched: {label} has {summary_of(plan.findings)}")
        return None
    facts = facts_of_plans(plans[0], plans[1])
    show_plans(plans, output, python)
    show_facts(facts, output)
    return facts


def _conclude(
    facts: PairFacts, ended: Sequence[tuple[Backend, Outcome]], same_within: float, output: OutputFormat
) -> int:
    from launcher.cli.pair_view import show_result
    from launcher.session.pair import result_of

    result = result_of(facts, ended[0], ended[1], same_within)
    show_result(result, output)
    return result.exit_code
