"""`launch pair`: two runs that differ in one thing, compared by what they print."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from launcher.cli.interaction import (
    EXIT_INTERRUPTED,
    AllowEnvOption,
    ClusterOption,
    IgnoreOption,
    OutputFormat,
    OutputOption,
    confirm,
    console,
    console_for_output,
    is_asking_possible,
    leave_all,
    message,
    plan_offline,
    print_json,
    read,
)
from launcher.cli.job_view import LivePanel
from launcher.cli.launch import (
    LocalRunOptions,
    confirm_preflight,
    make_launch_of,
    make_local_backend,
    parse_input_folders,
)
from launcher.failure_modes.model import Refusal
from launcher.text.regular_files import file_mode

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from launcher.backends.interface import Backend, JobStatus, LogLine
    from launcher.experiments.run_comparison import LossComparison, SpeedComparison
    from launcher.experiments.run_measures import Estimate
    from launcher.jobs.load_job import LoadedJob
    from launcher.planning.training_plan import TrainingPlan
    from launcher.session.launch_job import Launch
    from launcher.session.runs.compare_runs import PairFacts, PairResult, RunRead
    from launcher.session.runs.diagnose_job import Outcome
    from launcher.session.runs.follow_job import Notice
    from launcher.session.runs.read_job_lines import TrainingProgress
    from launcher.session.slurm.launch_run import SlurmLaunch

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
        from launcher.session.local_runs import override_processes

        changed = [override_processes(processes, overrides, ignore) for _, overrides in sides]
        sides = [(file, overrides) for (file, _), (overrides, _) in zip(sides, changed, strict=True)]
        ignore = changed[0][1]
    jobs = [read(file, cluster, overrides, allow_env) for file, overrides in sides]
    with jobs[0].substitutions.refusals(), jobs[1].substitutions.refusals():
        if local:
            here = LocalRunOptions(parse_input_folders(inputs or ()), python, processes, yes, allow_env)
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
    from launcher.aws.bounded_calls import FIND_SECONDS, bounded
    from launcher.aws.clients import Clients
    from launcher.aws.session import session_region
    from launcher.session.runs.compare_runs import diagnosed_run, facts_of_jobs, found_pair

    found = bounded(
        FIND_SECONDS,
        f"find {first} and {second}",
        lambda: found_pair(first, second, Clients(brisk=True), session_region()),
    )
    facts = facts_of_jobs(*found)
    show_facts(facts, output)
    return _conclude(facts, [diagnosed_run(job) for job in found], same_within, output)


def _run_here(
    jobs: Sequence[LoadedJob],
    ignore: Sequence[str] | None,
    here: LocalRunOptions,
    same_within: float,
    output: OutputFormat,
) -> int:
    from contextlib import closing

    from launcher.backends.local.python import this_machine
    from launcher.cli.job_view import show_outcome, show_progress
    from launcher.session.local_runs import check_machine
    from launcher.session.runs.compare_runs import LABELS
    from launcher.session.runs.follow_job import Interrupted, follow_local_run
    from launcher.session.submit_job import write_start_notes

    plans = [plan_offline(job, ignore, here=True) for job in jobs]
    machine = this_machine(here.python, os.environ)
    facts = _introduced(plans, output, python=str(machine.python))
    if facts is None:
        return 1
    looks = [check_machine(plan, machine, here.inputs, here.processes) for plan in plans]
    # Both sides mostly lack the same here, which is said and asked once.
    for found in looks[:1] if looks[0] == looks[1] else looks:
        if not confirm_preflight(found, output, yes=here.yes):
            message("not started")
            return 0
    ended, view = [], PairView(console_for_output(output))
    for label, plan in zip(LABELS, plans, strict=True):
        write_start_notes(str(plan.name), plan)
        backend = make_local_backend(machine, here.inputs, here.allow_env)
        try:
            with view, closing(backend):
                start = partial(backend.submit, plan, show_progress)
                outcome = follow_local_run(backend, start, view.side(label))
        except Interrupted as interrupted:
            if interrupted.outcome is not None and output is OutputFormat.TEXT:
                show_outcome(console_for_output(output), interrupted.outcome)
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
    from launcher.session.runs.compare_runs import (
        LABELS,
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
    if not begun and is_asking_possible(yes, output) and not confirm(question(plans, submissions[0].account)):
        message("not submitted")
        return 0
    run = run_one_after_another if one_after_another else run_beside_each_other
    with PairView(console_for_output(output)) as view:
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


def _launches(jobs: Sequence[LoadedJob], ignore: Sequence[str]) -> list[Launch | SlurmLaunch]:
    from launcher.aws.clients import Clients
    from launcher.session.runs.compare_runs import LABELS
    from launcher.session.submit_job import run_id_of

    run, clients = run_id_of(None, os.environ), Clients()
    launches: list[Launch | SlurmLaunch] = []
    for label, job in zip(LABELS, jobs, strict=True):
        # Also two sides that are alike in everything are two jobs.
        own = None if run is None else f"{run}/pair-{label}"
        launches.append(make_launch_of(job, ignore, clients, own, None)[0])
    return launches


def _introduced(
    plans: Sequence[TrainingPlan], output: OutputFormat, python: str | None = None
) -> PairFacts | None:
    """Show both plans and what they differ in; None where one is refused, which is said."""
    from launcher.cli.plan import summary_of
    from launcher.session.runs.compare_runs import LABELS, facts_of_plans

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
    from launcher.session.runs.compare_runs import compare_results

    result = compare_results(facts, ended[0], ended[1], same_within)
    show_result(result, output)
    return result.exit_code


# Two runs on the terminal: their plans, how far both are, and what their comparison says.


class PairView(LivePanel):
    """Shows two followed runs, each in a line that changes; without a terminal a line for each phase.

    What they print is not shown, as nobody could tell whose it is: `launch logs NAME` has it.
    """

    def __init__(self, screen: Console) -> None:
        super().__init__(screen)
        self._sides: dict[str, SideView] = {}

    def side(self, label: str) -> SideView:
        """Where one of the runs is shown."""
        return self._sides.setdefault(label, SideView(label, self._console))

    def _panel(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        from launcher.cli.job_view import metrics_line

        grid = Table.grid(padding=(0, 2))
        for label, side in self._sides.items():
            line = metrics_line(side.newest) if side.newest else Text("")
            grid.add_row(Text(label, "bold"), Text(side.phase or "waiting", "dim"), line)
        return grid


class SideView:
    """Shows one of two runs: a line for each phase, and keeps its newest progress for the panel."""

    def __init__(self, label: str, screen: Console) -> None:
        self.phase = ""
        self.newest: TrainingProgress | None = None
        self._label = label
        self._screen = screen
        self._troubled = False

    def status(self, status: JobStatus) -> None:
        """Print a line where the phase changes."""
        if status.phase != self.phase:
            self.phase = status.phase
            self._print(f"[{status.phase}] {status.name}", "dim")

    def lines(self, lines: Sequence[LogLine]) -> None:
        """Leave out what the run prints."""

    def progress(self, progress: TrainingProgress) -> None:
        """Keep the newest metrics."""
        self.newest = progress

    def notice(self, notice: Notice) -> None:
        """Say that the run stands still, moves again, or comes near its limit."""
        from launcher.session.runs.read_job_lines import Moving

        if isinstance(notice, Moving):
            self._print("moves again", "green")
        else:
            self._print(f"warning: {notice.message}\n  → {notice.remedy}", "yellow")

    def trouble(self, text: str | None) -> None:
        """Say once why nothing can be seen, and when it can again."""
        if (text is not None) != self._troubled:
            message(f"{self._label}: {text or 'connected again'}")
        self._troubled = text is not None

    def _print(self, text: str, style: str) -> None:
        self._screen.print(f"{self._label} {text}", style=style, markup=False)


def show_plans(plans: Sequence[TrainingPlan], output: OutputFormat, python: str | None) -> None:
    """Print what speaks against each plan without stopping it, and what it costs to run it."""
    from rich.text import Text

    from launcher.cli.plan import show_findings
    from launcher.failure_modes.model import Severity

    if output is OutputFormat.JSON:
        return
    screen = console()
    for label, plan in _labelled(plans):
        screen.print(Text.assemble((label, "bold"), f"  {_what(plan)}, {_price(plan, python)}"))
        told = [f for f in plan.findings if not f.ignored and f.severity is not Severity.INFO]
        if told:
            show_findings(screen, told)


def show_refused(plans: Sequence[TrainingPlan], output: OutputFormat) -> None:
    """Print what is wrong with the plans, one of which is refused."""
    from launcher.cli.plan import plan_json, show_findings

    if output is OutputFormat.JSON:
        print_json({"pair": [plan_json(plan) for plan in plans]})
        return
    for label, plan in _labelled(plans):
        if plan.findings:
            console().print(label, style="bold")
            show_findings(console(), plan.findings)


def question(plans: Sequence[TrainingPlan], account: str) -> str:
    """What is asked before both are submitted."""
    if all(plan.slurm is not None for plan in plans):
        return "Submit both to Slurm?"
    costs = "; ".join(f"{label} {_what(plan)}, {_price(plan, None)}" for label, plan in _labelled(plans))
    return f"Submit both to SageMaker in account {account}: {costs}?"


def show_facts(facts: PairFacts, output: OutputFormat) -> None:
    """Print what two runs differ in, and what makes that mean less."""
    from rich.table import Table
    from rich.text import Text

    if output is OutputFormat.JSON:
        return
    screen = console()
    grid = Table.grid(padding=(0, 2))
    for column in ("dim", "", ""):
        grid.add_column(style=column, overflow="fold")
    for each in facts.differences:
        grid.add_row(Text(each.field), Text(f"A {each.first}"), Text(f"B {each.second}"))
    if facts.differences:
        screen.print(grid)
    for caution in facts.cautions:
        screen.print(caution, style="yellow", markup=False)


def show_result(result: PairResult, output: OutputFormat) -> None:
    """Print how both runs ended, and what their comparison says."""
    from launcher.cli.job_view import show_outcome
    from launcher.cli.plan import show_findings
    from launcher.experiments.run_comparison import verdicts
    from launcher.session.runs.compare_runs import is_going_on

    said = verdicts(result.comparison, here=result.here)
    if output is OutputFormat.JSON:
        print_json(_json(result, said))
        return
    screen = console()
    for run in result.runs:
        screen.print(f"{run.side.label}  {_read(run)}", markup=False)
        if is_going_on(run):
            screen.print(f"{run.name} goes on: this is about what it has printed so far", style="yellow")
        else:
            show_outcome(screen, run.outcome)
    if result.comparison.findings:
        show_findings(screen, result.comparison.findings)
    for sentence in said:
        screen.print(sentence, style="bold", markup=False)


def _json(result: PairResult, said: Sequence[str]) -> dict[str, Any]:
    from launcher.cli.job_view import outcome_json

    comparison = result.comparison
    return {
        "runs": [
            {"side": run.side.label, **outcome_json(run.outcome), "losses": _losses_json(run)}
            for run in result.runs
        ],
        "differences": [asdict(each) for each in result.facts.differences],
        "cautions": list(result.facts.cautions),
        "loss": _comparison_json(comparison.loss),
        "speed": _comparison_json(comparison.speed),
        "findings": [finding.to_json() for finding in comparison.findings],
        "says": list(said),
    }


def _losses_json(run: RunRead) -> dict[str, Any]:
    """What was read of a run: how many losses, counted in what, and from where to where."""
    series = run.side.series
    first, last = series.span or (None, None)
    return {"points": len(series.points), "unit": series.unit.value, "first": first, "last": last}


def _comparison_json(compared: LossComparison | SpeedComparison) -> dict[str, Any]:
    content = asdict(compared)
    difference: Estimate | None = getattr(compared, "difference", None)
    if difference is not None:
        # JSON has no infinity: what a loss that is no number differs by.
        finite = abs(difference.value) != float("inf")
        ends = (difference.value, difference.low, difference.high) if finite else (None, None, None)
        content["difference"] = dict(zip(("value", "low", "high"), ends, strict=True))
    return {**content, "judgement": compared.judgement.value}


def _read(run: RunRead) -> str:
    series = run.side.series
    if series.span is None:
        return "no loss was found in what it printed"
    first, last = series.span
    return f"{len(series.points):,} losses read, {series.unit} {first:g} to {last:g}"


def _labelled(plans: Sequence[TrainingPlan]) -> list[tuple[str, TrainingPlan]]:
    from launcher.session.runs.compare_runs import LABELS

    return list(zip(LABELS, plans, strict=True))


def _what(plan: TrainingPlan) -> str:
    from launcher.planning.request_view import RequestView
    from launcher.planning.show_plan import mask_text

    view = RequestView(plan.request or {})
    hosts = f"{view.hosts or 1} × {view.instance_type or 'hosts'}"
    return mask_text(plan, f"{hosts}, world size {plan.world_size}", ("resources",))


def _price(plan: TrainingPlan, python: str | None) -> str:
    from launcher.planning.job_cost import cost_in_words
    from launcher.planning.request_view import RequestView

    if python is not None:
        return f"here by {python}"
    if plan.slurm is not None:
        return "on Slurm"
    return cost_in_words(RequestView(plan.request or {}), plan.region)
