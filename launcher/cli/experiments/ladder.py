"""`launch ladder JOB.yaml`: from one process to all hosts, a few steps each, up to the first that breaks."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from launcher.cli.interaction import (
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    HIDDEN,
    AllowEnvOption,
    ClusterOption,
    IgnoreOption,
    JobFile,
    OutputFormat,
    OutputOption,
    SetOption,
    choose_lines,
    confirm,
    console,
    console_for_output,
    is_asking_possible,
    print_json,
)
from launcher.cli.launch import (
    changes_for_slurm,
    confirm_preflight,
    make_launch_of,
    make_local_backend,
    parse_input_folders,
    refuse,
)
from launcher.experiments.ladder_rungs import Climbed, Result, Where, verdict
from launcher.failure_modes.model import Refusal
from launcher.text.values import elapsed_time

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rich.console import Console

    from launcher.backends.interface import Backend
    from launcher.backends.local.python import Machine
    from launcher.planning.training_plan import TrainingPlan
    from launcher.session.runs.climb_ladder import LadderRequest, ReadyLadder, ReadyRung
    from launcher.session.runs.diagnose_job import Check, Outcome


def ladder(
    job_file: JobFile,
    /,
    *,
    from_: Annotated[
        str | None,
        Parameter(name="--from", help="The first rung: 1-here, n-here, 1-host, 2-hosts, all-hosts."),
    ] = None,
    up_to: Annotated[str | None, Parameter(help="The last rung; n-here costs nothing.")] = None,
    steps: Annotated[int, Parameter(help="Steps of each rung.")] = 5,
    seconds: Annotated[int, Parameter(help="The longest that the script of a rung may run.")] = 600,
    processes: Annotated[
        int | None,
        Parameter(help="Processes of the rung n-here. Default: the job's, as this machine has room."),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        Parameter(
            name="--input", negative="", help="A channel's folder for rungs here: --input train=./data"
        ),
    ] = None,
    python: Annotated[
        str | None, Parameter(help="The Python that runs the rungs here, as with `launch JOB.yaml --local`.")
    ] = None,
    slurm: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            consume_multiple=(0, 1),
            help="The rungs on hosts on Slurm; in a PARTITION where one is given.",
        ),
    ] = None,
    yes: Annotated[bool, Parameter(negative="", help="Go on to rungs on hosts without asking.")] = False,
    cluster: ClusterOption = None,
    set_: SetOption = None,
    allow_env: AllowEnvOption = None,
    ignore: IgnoreOption = None,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Run a job for a few steps with ever more processes and hosts; say where it breaks, and of what."""
    from launcher.aws.session import session_region
    from launcher.backends.local.python import this_machine
    from launcher.cli.interaction import read_code
    from launcher.experiments.ladder_rungs import NAMES
    from launcher.session.prepare_plan import JobSource, read_job
    from launcher.session.runs.climb_ladder import LadderRequest, prepare_ladder

    wanted = LadderRequest(
        JobSource(job_file, cluster, [*(set_ or ()), *changes_for_slurm(slurm)], allow_env),
        NAMES[0] if from_ is None else from_,
        NAMES[-1] if up_to is None else up_to,
        steps,
        seconds,
        ignore or (),
        parse_input_folders(inputs or ()),
        processes,
    )
    loaded = read_job(wanted.job)
    with loaded.substitutions.refusals():
        machine = this_machine(python, os.environ)
        ready = prepare_ladder(wanted, loaded, read_code(loaded), machine, session_region())
        if ready.plan.refused:
            return refuse(ready.plan, output)
        view = LadderView(console_for_output(output), wanted, ready)
        view.introduce()
        return _Climber(wanted, ready, machine, view, output, yes=yes).climb()


class _Climber:
    """Climbs rung by rung; `results` are what came of them so far."""

    def __init__(
        self,
        wanted: LadderRequest,
        ready: ReadyLadder,
        machine: Machine,
        view: LadderView,
        output: OutputFormat,
        *,
        yes: bool,
    ) -> None:
        self._wanted, self._ready, self._machine = wanted, ready, machine
        self._view, self._output, self._yes = view, output, yes
        self._results: list[Climbed] = []
        self._code = 0
        self._noted: set[str] = set()

    def climb(self) -> int:
        """Run the rungs until one ends the ladder, and show all; the exit code."""
        from launcher.experiments.ladder_rungs import Climbed, Result

        for ready in self._ready.rungs:
            if ready.refusal is not None:
                climbed = Climbed(ready.rung, Result.SKIPPED, ready.refusal)
            else:
                self._view.begin(ready)
                try:
                    climbed = self._here(ready) if ready.rung.place == "here" else self._on_hosts(ready)
                except Refusal:
                    self._view.table(self._results)
                    raise
            self._results.append(climbed)
            self._view.ended(climbed)
            if climbed.result.ends:
                break
        if any(each.result in (Result.BROKE, Result.UNDECIDED, Result.REFUSED) for each in self._results):
            self._code = 1
        if all(each.result is Result.SKIPPED for each in self._results):
            self._code = 1
        self._view.conclude(self._results, self._output)
        return self._code

    def _here(self, ready: ReadyRung) -> Climbed:
        from contextlib import closing
        from tempfile import TemporaryDirectory

        from launcher.cli.job_view import JobView, show_progress
        from launcher.experiments.ladder_rungs import Climbed, Result
        from launcher.session.runs.climb_ladder import bound_of, run_rung_here
        from launcher.session.runs.follow_job import Interrupted
        from launcher.session.submit_job import write_start_notes

        with TemporaryDirectory() as empty:
            inputs = self._inputs(ready, empty)
            if not self._cleared(ready, inputs):
                return Climbed(ready.rung, Result.DECLINED, "not started")
            write_start_notes(str(ready.plan.name), ready.plan)
            view = JobView(console_for_output(self._output))
            choice = choose_lines(ready.plan.view, None, None, lambda: view.note(HIDDEN))
            backend = make_local_backend(self._machine, inputs, self._wanted.job.allow_env)
            bound = bound_of(ready, self._wanted.steps, self._wanted.seconds)
            try:
                with view, closing(backend):
                    climbed, outcome = run_rung_here(ready, backend, view, bound, choice, show_progress)
            except Interrupted as interrupted:
                self._code = interrupted.exit_code
                return Climbed(ready.rung, Result.INTERRUPTED, "", job_name=interrupted.name)
        self._view.show_end(climbed, outcome)
        return climbed

    def _on_hosts(self, ready: ReadyRung) -> Climbed:
        from launcher.aws.clients import Clients
        from launcher.experiments.ladder_rungs import Climbed, Result
        from launcher.session.submit_job import run_id_of

        asks = is_asking_possible(self._yes, self._output)
        if ready.rung.place is Where.AWS and not self._yes and not asks:
            self._code = EXIT_USAGE
            return Climbed(ready.rung, Result.DECLINED, "it costs money, and nobody can be asked: --yes")
        run = run_id_of(None, os.environ)
        launching, check = make_launch_of(
            ready.loaded,
            self._wanted.ignore,
            Clients(),
            # The job's own launch in the same run is another job, even where all is alike.
            None if run is None else f"{run}/ladder-{ready.rung.name}",
            self._wanted.job.allow_env,
            self._ready.source,
        )
        plan = launching.plan()
        if plan.refused:
            return self._view.refused(ready, plan)
        submission = launching.submission(plan)
        if asks and not confirm(self._view.question(ready, plan, submission.account)):
            return Climbed(ready.rung, Result.DECLINED, "not submitted")
        return self._followed(ready, submission.backend, submission.start.once(plan).name, check)

    def _followed(self, ready: ReadyRung, backend: Backend, name: str, check: Check | None) -> Climbed:
        from launcher.cli.job_view import attend_with
        from launcher.experiments.ladder_rungs import Climbed, Result
        from launcher.session.runs.climb_ladder import bound_of, run_rung_on_hosts

        bound = bound_of(ready, self._wanted.steps, self._wanted.seconds)
        ended = attend_with(
            backend,
            self._output,
            partial(choose_lines, ready.plan.view, None, None),
            partial(run_rung_on_hosts, ready, backend, name, bound, check=check),
        )
        if ended is None:
            self._code = EXIT_INTERRUPTED
            return Climbed(ready.rung, Result.INTERRUPTED, "", job_name=name)
        climbed, outcome = ended
        self._view.show_end(climbed, outcome)
        return climbed

    def _inputs(self, ready: ReadyRung, empty: str) -> Mapping[str, Path]:
        """The channels' folders; for made-up data an empty one in place of each that was not given."""
        from pathlib import Path

        if not ready.rung.synthetic:
            return self._ready.inputs
        return {**dict.fromkeys(self._ready.stand_ins, Path(empty)), **self._ready.inputs}

    def _cleared(self, ready: ReadyRung, inputs: Mapping[str, Path]) -> bool:
        """Say what this machine lacks, each once, and ask where it would be crowded."""
        from dataclasses import replace

        from launcher.session.local_runs import check_machine

        try:
            found = check_machine(ready.plan, self._machine, inputs)
        except Refusal as refusal:
            remedy = f"{refusal.remedy.rstrip('.')}. Or begin on the job's hosts: --from 1-host."
            raise Refusal(refusal.message, remedy) from refusal
        notes: Sequence[str] = [note for note in found.notes if note not in self._noted]
        self._noted.update(notes)
        return confirm_preflight(replace(found, notes=tuple(notes)), self._output, yes=self._yes)


# A ladder on a terminal and in JSON: its rungs before they are tried, and what came of them.


_STYLES = {
    Result.HELD: "bold green",
    Result.BROKE: "bold red",
    Result.REFUSED: "bold red",
    Result.UNDECIDED: "bold yellow",
}


class LadderView:
    """Shows a ladder from before its first rung to the verdict."""

    def __init__(self, screen: Console, wanted: LadderRequest, ready: ReadyLadder) -> None:
        self._screen, self._wanted, self._ready = screen, wanted, ready

    def introduce(self) -> None:
        """Print the rungs, what each costs at most, those that there are not, and what the script is told."""
        from rich.table import Table
        from rich.text import Text

        from launcher.cli.plan import show_findings

        found = [each for each in self._ready.plan.findings if not each.ignored and each.severity != "info"]
        show_findings(self._screen, found)
        table = Table.grid(padding=(0, 2))
        for each in self._ready.rungs:
            table.add_row(Text(each.rung.name, "bold"), each.rung.in_words, Text(_cost_before(each)))
        for missing in self._ready.left_out:
            table.add_row(Text(missing.name, "dim"), Text("left out", "dim"), Text(missing.why, "dim"))
        self._screen.print(table)
        self._screen.print(Text(self._progress_text(), "dim"))

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
        """What is asked before a rung on hosts."""
        from launcher.planning.job_cost import cost_in_words
        from launcher.planning.request_view import RequestView
        from launcher.planning.show_plan import mask_text

        what = mask_text(plan, ready.rung.in_words, ("resources",))
        if ready.rung.place is Where.SLURM:
            return f"Go on with {ready.rung.name}: {what}, {_limit(ready)}?"
        cost = cost_in_words(RequestView(plan.request or {}), plan.region)
        return f"Go on with {ready.rung.name} in account {account}: {what}, {cost}?"

    def refused(self, ready: ReadyRung, plan: TrainingPlan) -> Climbed:
        """Print what the look into the account found against a rung."""
        from launcher.cli.plan import show_findings

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

    def _progress_text(self) -> str:
        few, synthetic = self._ready.few_steps, self._ready.synthetic
        steps = (
            f"the script is told {few.in_words}"
            if few
            else f"the script is seen to take no limit of steps (`ladder.few_steps` names one): a rung is "
            f"stopped after {self._wanted.steps} reports of progress"
        )
        data = f"; for synthetic data {synthetic.in_words}" if synthetic else ""
        stand_ins = ", ".join(self._ready.stand_ins)
        folders = f", with an empty folder here for {stand_ins}" if synthetic and stand_ins else ""
        return f"{steps}{data}{folders}; at most {elapsed_time(self._wanted.seconds)} each"

    def _next(self, climbed: Sequence[Climbed]) -> str:
        """The command that goes on from here."""
        last, beyond = climbed[-1], self._ready.beyond
        if last.result.ends:
            return self._command("ladder", "--from", last.rung.name, *self._wanted.as_options(again=True))
        if beyond is None:
            return self._command()
        return self._command("ladder", "--from", beyond, *self._wanted.as_options(again=False))

    def _command(self, *words: str) -> str:
        job = self._wanted.job
        options = [
            *(["--cluster", job.cluster] if job.cluster else []),
            *(word for text in job.overrides for word in ("--set", text)),
            *(word for code in self._wanted.ignore for word in ("--ignore", code)),
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
    from launcher.planning.job_cost import cost_in_words

    if ready.rung.place is Where.HERE:
        return "free"
    if ready.refusal is not None:
        return f"skipped: {ready.refusal}"
    if ready.rung.place is Where.SLURM:
        return _limit(ready)
    return cost_in_words(ready.plan.view, ready.plan.region) if ready.plan.view is not None else ""


def _limit(ready: ReadyRung) -> str:
    """What bounds a rung on hosts that nobody here is billed for."""
    seconds = ready.plan.view.max_runtime_seconds if ready.plan.view is not None else 0
    return f"up to {elapsed_time(seconds)}"


def _cost_after(climbed: Climbed) -> str:
    if climbed.rung.place is Where.HERE:
        return "free"
    return "" if climbed.usd is None else f"≤ {climbed.usd:,.2f} USD"


def _as_options(settings: Sequence[str]) -> str:
    return " ".join(f"--set {shlex.quote(each)}" for each in settings)
