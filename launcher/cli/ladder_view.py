"""A ladder on a terminal and in JSON: its rungs before they are tried, and what came of them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from launcher.cli.output import OutputFormat, console, print_json
from launcher.experiments.climbing import Climbed, Result, verdict
from launcher.experiments.rungs import Where
from launcher.text.durations import elapsed_time

if TYPE_CHECKING:
    from rich.console import Console

    from launcher.planning.training_plan import TrainingPlan
    from launcher.session.ladder import Climb, ReadyLadder, ReadyRung
    from launcher.session.outcome import Outcome

_STYLES = {
    Result.HELD: "bold green",
    Result.BROKE: "bold red",
    Result.REFUSED: "bold red",
    Result.UNDECIDED: "bold yellow",
}


class LadderView:
    """Shows a ladder from before its first rung to the verdict."""

    def __init__(self, screen: Console, climb: Climb, ready: ReadyLadder) -> None:
        self._screen, self._climb, self._ready = screen, climb, ready

    def introduce(self) -> None:
        """Print the rungs, what each costs at most, those that there are not, and what the script is told."""
        from rich.table import Table
        from rich.text import Text

        from launcher.cli.findings_view import show_findings

        found = [each for each in self._ready.plan.findings if not each.ignored and each.severity != "info"]
        show_findings(self._screen, found)
        table = Table.grid(padding=(0, 2))
        for each in self._ready.rungs:
            table.add_row(Text(each.rung.name, "bold"), each.rung.in_words, Text(_cost_before(each)))
        for missing in self._ready.left_out:
            table.add_row(Text(missing.name, "dim"), Text("left out", "dim"), Text(missing.why, "dim"))
        self._screen.print(table)
        self._screen.print(Text(self._told(), "dim"))

    def begin(self, ready: ReadyRung) -> None:
        """Print which rung comes, and what it changes of the job."""
        from rich.text import Text

        number = self._ready.rungs.index(ready) + 1
        self._screen.print(
            Text.assemble(
                (f"\nrung {number} of {len(self._ready.rungs)}: {ready.rung.name}", "bold"),
                f" ({ready.rung.in_words})",
            )
        )
        if ready.settings:
            self._screen.print(Text(f"  {_as_options(ready.settings)}", "dim"), soft_wrap=True)

    def question(self, ready: ReadyRung, plan: TrainingPlan, account: str) -> str:
        """What is asked before a rung that costs money."""
        from launcher.planning.cost import cost_in_words
        from launcher.planning.request_view import RequestView
        from launcher.planning.shown import shown_text

        cost = cost_in_words(RequestView(plan.request or {}), plan.region)
        what = shown_text(plan, ready.rung.in_words, ("resources",))
        return f"Go on with {ready.rung.name} in account {account}: {what}, {cost}?"

    def refused(self, ready: ReadyRung, plan: TrainingPlan) -> Climbed:
        """Print what the look into the account found against a rung."""
        from launcher.cli.findings_view import show_findings

        found = [each for each in plan.findings if each.blocks]
        show_findings(self._screen, found)
        said = f"{found[0].code} {found[0].message}" if found else "its plan has errors"
        return Climbed(ready.rung, Result.REFUSED, said, finding=found[0] if found else None)

    def show_end(self, climbed: Climbed, outcome: Outcome) -> None:
        """Print how a rung's job ended where it did not hold: the diagnosis, as `launch` shows it."""
        from launcher.cli.job_view import show_outcome

        if climbed.result is not Result.HELD:
            show_outcome(self._screen, outcome)

    def ended(self, climbed: Climbed) -> None:
        """Print in a line what came of a rung."""
        from rich.text import Text

        style = _STYLES.get(climbed.result, "bold")
        said = f": {climbed.said}" if climbed.said else ""
        self._screen.print(Text.assemble((f"{climbed.rung.name} {climbed.result}", style), said))

    def table(self, climbed: Sequence[Climbed]) -> None:
        """Print the rungs that were tried: what came of them, how far they got, their time and cost."""
        from rich.table import Table
        from rich.text import Text

        if not climbed:
            return
        table = Table.grid(padding=(0, 2))
        table.add_row(*(Text(head, "dim") for head in ("RUNG", "RESULT", "REACHED", "TOOK", "COST", "")))
        for each in climbed:
            table.add_row(
                Text(each.rung.name, "bold"),
                Text(each.result, _STYLES.get(each.result, "")),
                "" if each.step is None else f"{each.step:g}",
                "" if each.seconds is None else elapsed_time(each.seconds),
                _cost_after(each),
                Text(each.said, "dim"),
            )
        self._screen.print("")
        self._screen.print(table)

    def conclude(self, climbed: Sequence[Climbed], output: OutputFormat) -> None:
        """Print the table, the verdict and the command that comes next; in JSON all of it."""
        from rich.text import Text

        command = self._next(climbed)
        if output is OutputFormat.JSON:
            print_json(self._json(climbed, command))
            return
        self.table(climbed)
        screen = console()
        screen.print(Text(verdict(climbed), "bold"), soft_wrap=True)
        screen.print(Text(f"→ {command}", "cyan"), soft_wrap=True)

    def _told(self) -> str:
        few, synthetic = self._ready.few_steps, self._ready.synthetic
        steps = (
            f"the script is told {few.in_words}"
            if few
            else f"the script is seen to take no limit of steps (`ladder.few_steps` names one): a rung is "
            f"stopped after {self._climb.steps} reports of progress"
        )
        data = f"; for synthetic data {synthetic.in_words}" if synthetic else ""
        stand_ins = ", ".join(self._ready.stand_ins)
        folders = f", with an empty folder here for {stand_ins}" if synthetic and stand_ins else ""
        return f"{steps}{data}{folders}; at most {elapsed_time(self._climb.seconds)} each"

    def _next(self, climbed: Sequence[Climbed]) -> str:
        """The command that goes on from here."""
        last, beyond = climbed[-1], self._ready.beyond
        if last.result.ends:
            return self._command("ladder", "--from", last.rung.name, *self._climb.as_options(again=True))
        if beyond is None:
            return self._command()
        return self._command("ladder", "--from", beyond, *self._climb.as_options(again=False))

    def _command(self, *words: str) -> str:
        job = self._climb.job
        options = [
            *(["--cluster", job.cluster] if job.cluster else []),
            *(word for text in job.overrides for word in ("--set", text)),
            *(word for code in self._climb.ignore for word in ("--ignore", code)),
            *(word for name in job.allow_env or () for word in ("--allow-env", name)),
        ]
        first, rest = (words[:1], words[1:]) if words else ((), ())
        return shlex.join(["launch", *first, str(job.file), *rest, *options])

    def _json(self, climbed: Sequence[Climbed], command: str) -> dict[str, Any]:
        few, synthetic = self._ready.few_steps, self._ready.synthetic
        tried = {each.rung.name: each for each in climbed}
        return {
            "job": self._ready.plan.job["name"],
            "verdict": verdict(climbed),
            "few_steps": few.in_words or None,
            "synthetic": synthetic.in_words or None,
            "rungs": [_rung_json(each, tried.get(each.rung.name)) for each in self._ready.rungs],
            "left_out": [{"name": each.name, "why": each.why} for each in self._ready.left_out],
            "next": command,
        }


def _rung_json(ready: ReadyRung, climbed: Climbed | None) -> dict[str, Any]:
    rung = ready.rung
    return {
        "name": rung.name,
        "place": rung.place.value,
        "hosts": rung.hosts,
        "processes_per_host": rung.processes_per_host,
        "synthetic": rung.synthetic,
        "settings": list(ready.settings),
        "usd_at_limit": ready.cost.at_limit if ready.cost else 0.0 if rung.place is Where.HERE else None,
        "result": climbed.result.value if climbed else None,
        "said": climbed.said if climbed else None,
        "step": climbed.step if climbed else None,
        "seconds": climbed.seconds if climbed else None,
        "usd": climbed.usd if climbed else None,
        "job_name": climbed.job_name if climbed else None,
        "rank": climbed.rank if climbed else None,
        "host": climbed.host if climbed else None,
        "finding": climbed.finding.to_json() if climbed and climbed.finding else None,
    }


def _cost_before(ready: ReadyRung) -> str:
    from launcher.planning.cost import cost_in_words

    if ready.rung.place is Where.HERE:
        return "free"
    if ready.refusal is not None:
        return f"skipped: {ready.refusal}"
    return cost_in_words(ready.plan.view, ready.plan.region) if ready.plan.view is not None else ""


def _cost_after(climbed: Climbed) -> str:
    if climbed.rung.place is Where.HERE:
        return "free"
    return "" if climbed.usd is None else f"≤ {climbed.usd:,.2f} USD"


def _as_options(settings: Sequence[str]) -> str:
    return " ".join(f"--set {shlex.quote(each)}" for each in settings)
