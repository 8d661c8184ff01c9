"""Two runs on the terminal: their plans, how far both are, and what their comparison says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from launcher.cli.live_panel import LivePanel
from launcher.cli.output import OutputFormat, console, message, print_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from launcher.backends.interface import JobStatus, LogLine
    from launcher.experiments.pair.comparison import LossComparison, SpeedComparison
    from launcher.experiments.pair.estimates import Estimate
    from launcher.planning.training_plan import TrainingPlan
    from launcher.session.following.progress import TrainingProgress
    from launcher.session.following.stall import Moving, Stall
    from launcher.session.pair import PairFacts, PairResult, RunRead


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

    def stall(self, change: Stall | Moving) -> None:
        """Say that the run stands still, or moves again."""
        from launcher.session.following.stall import Moving

        if isinstance(change, Moving):
            self._print("moves again", "green")
        else:
            self._print(f"warning: {change.message}\n  → {change.remedy}", "yellow")

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

    from launcher.cli.findings_view import show_findings
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
    from launcher.cli.findings_view import show_findings
    from launcher.cli.plan import plan_json

    if output is OutputFormat.JSON:
        print_json({"pair": [plan_json(plan) for plan in plans]})
        return
    for label, plan in _labelled(plans):
        if plan.findings:
            console().print(label, style="bold")
            show_findings(console(), plan.findings)


def question(plans: Sequence[TrainingPlan], account: str) -> str:
    """What is asked before both are submitted."""
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
    from launcher.cli.findings_view import show_findings
    from launcher.cli.job_view import show_outcome
    from launcher.experiments.pair.verdicts import verdicts
    from launcher.session.pair import is_going_on

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
    from launcher.session.pair import LABELS

    return list(zip(LABELS, plans, strict=True))


def _what(plan: TrainingPlan) -> str:
    from launcher.planning.request_view import RequestView
    from launcher.planning.shown import shown_text

    view = RequestView(plan.request or {})
    hosts = f"{view.hosts or 1} × {view.instance_type or 'hosts'}"
    return shown_text(plan, f"{hosts}, world size {plan.world_size}", ("resources",))


def _price(plan: TrainingPlan, python: str | None) -> str:
    from launcher.planning.cost import cost_in_words
    from launcher.planning.request_view import RequestView

    if python is not None:
        return f"here by {python}"
    return cost_in_words(RequestView(plan.request or {}), plan.region)
