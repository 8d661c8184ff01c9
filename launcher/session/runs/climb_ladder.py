"""The ladder of a job: its rungs made ready, each with the plan of a job that is changed for it, and run.

A rung runs as `launch` runs a job, and is ended as soon as it has shown that it trains.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from launcher.backends.interface import Backend, JobStatus, LogLine, OnProgress
from launcher.backends.local.python import Machine
from launcher.experiments.ladder_rungs import (
    NAMES,
    NOTHING,
    Climbed,
    Footing,
    MissingRung,
    Result,
    Rung,
    Where,
    Words,
    join_words,
    ladder_of,
    settings_of,
    why_not_here,
    words_for_few_steps,
    words_for_synthetic_data,
)
from launcher.failure_modes import distribution
from launcher.failure_modes.model import Finding, Refusal
from launcher.failure_modes.registry import CATALOGUE
from launcher.frozen import frozen
from launcher.jobs.job_sections import Ladder
from launcher.jobs.load_job import LoadedJob
from launcher.jobs.specification import JobSpec
from launcher.planning.job_cost import CostEstimate, estimate_cost
from launcher.planning.training_plan import TrainingPlan
from launcher.session.prepare_plan import JobSource, fields_as_written, prepare, read_job, script_text
from launcher.session.runs.diagnose_job import Check, Outcome
from launcher.session.runs.follow_job import LineChoice, Notice, Screen, follow, follow_local_run
from launcher.session.runs.read_job_lines import TrainingProgress
from launcher.source.tree import SourceTree, find_offered_options
from launcher.text.values import elapsed_time


@frozen
class LadderRequest:
    """What is asked of a ladder: the job, which of its rungs, and how long each is.

    `first` and `last` are names of rungs. `steps` is how many steps a script is told to make, and after how
    many reports of progress one is stopped that cannot be told; `seconds` is how long it may run. `inputs`
    are folders of this machine for channels, `processes` is how many this machine has room for, None for
    what it has.
    """

    job: JobSource
    first: str = NAMES[0]
    last: str = NAMES[-1]
    steps: int = 5
    seconds: int = 600
    ignore: Sequence[str] = ()
    inputs: Mapping[str, Path] | None = None
    processes: int | None = None

    def __post_init__(self) -> None:
        for option, name in (("--from", self.first), ("--up-to", self.last)):
            if name not in NAMES:
                raise Refusal(f"{option} {name} is no rung.", f"Give one of {', '.join(NAMES)}.")
        for option, number in (
            ("--steps", self.steps),
            ("--seconds", self.seconds),
            ("--processes", self.processes),
        ):
            if number is not None and number < 1:
                raise Refusal(f"{option} {number} leaves nothing to run.", "Give 1 or more.")

    @property
    def stays_here(self) -> bool:
        """Whether all of the rungs asked for are on this machine."""
        return NAMES.index(self.last) < NAMES.index("1-host-synthetic")

    def as_options(self, *, again: bool) -> list[str]:
        """The options of the command that takes this climb up; with `again` also where it was to end."""
        usual = LadderRequest(self.job)
        numbers = ("steps", "seconds", "processes")
        return [
            *(["--up-to", self.last] if again and self.last != usual.last else []),
            *(
                word
                for name in numbers
                if getattr(self, name) != getattr(usual, name)
                for word in (f"--{name}", str(getattr(self, name)))
            ),
            *(
                word
                for name, folder in (self.inputs or {}).items()
                for word in ("--input", f"{name}={folder}")
            ),
        ]

    @property
    def in_words(self) -> str:
        """The rungs that were asked for, such as ` up to n-here`; empty where all are."""
        first = f" from {self.first}" if self.first != NAMES[0] else ""
        return first + (f" up to {self.last}" if self.last != NAMES[-1] else "")

    def asks_for(self, name: str) -> bool:
        """Whether a rung is between the first and the last."""
        return NAMES.index(self.first) <= NAMES.index(name) <= NAMES.index(self.last)


@frozen
class ReadyRung:
    """A rung with its plan; `settings` are what it changes, as `--set` takes it.

    `cost` is what its hosts cost at its limit, None here, on Slurm and where no price is known. `told` says
    whether the script was told to make few steps.
    """

    rung: Rung
    settings: tuple[str, ...]
    loaded: LoadedJob
    plan: TrainingPlan
    told: bool
    cost: CostEstimate | None = None

    @property
    def refusal(self) -> str | None:
        """Why its plan cannot be run, though the job's can; None where it can."""
        if not self.plan.refused:
            return None
        found = next((each for each in self.plan.findings if each.blocks), None)
        return f"{found.code} {found.message}" if found else "its plan has errors"


@frozen
class ReadyLadder:
    """A job's ladder; where the job's own `plan` is refused, it has no rungs.

    `few_steps` and `synthetic` are what the scripts are told. `inputs` are the folders of this machine for
    channels, `stand_ins` the channels for which a rung with made-up data gets an empty folder here. `beyond`
    is the job's next rung above those asked for, None where there is none.
    """

    plan: TrainingPlan
    source: SourceTree | None
    rungs: tuple[ReadyRung, ...] = ()
    left_out: tuple[MissingRung, ...] = ()
    few_steps: Words = NOTHING
    synthetic: Words = NOTHING
    inputs: Mapping[str, Path] = field(default_factory=dict)
    stand_ins: tuple[str, ...] = ()
    beyond: str | None = None


def prepare_ladder(
    wanted: LadderRequest, loaded: LoadedJob, source: SourceTree | None, machine: Machine, region: str | None
) -> ReadyLadder:
    """The rungs of a job that was read, with their plans; calls nothing beyond this machine.

    `source` is the job's code, `region` the session's. Raises Refusal where no rung is left of those asked
    for, and for a tuning job.
    """
    plan = prepare(loaded, session_region=region, ignore=wanted.ignore, source=source, here=wanted.stays_here)
    job = loaded.spec
    if job is None or source is None or plan.refused or plan.processes_per_host is None:
        return ReadyLadder(plan, source)
    if job.tuning is not None:
        raise Refusal(
            "the job is a search over hyperparameters: SageMaker chooses what each of its jobs is given.",
            "Climb with one of its jobs: a job file without `tuning`, with values in `hyperparameters`.",
        )
    inputs, channels = {**_folders_here(job), **(wanted.inputs or {})}, _channels(job)
    for name in inputs:
        if name not in channels:
            raise Refusal(
                f"the job has no channel {name!r}; it has {', '.join(channels) or 'none'}.",
                "Correct the name in `--input NAME=DIR`, or add the channel to `inputs`.",
            )
    written = fields_as_written(wanted.job)
    own = _with_ladder_as_written(job, written)
    offered = find_offered_options(script_text(job, source))
    few, synthetic = words_for_few_steps(own, offered, wanted.steps), words_for_synthetic_data(own, offered)
    missing = tuple(name for name in channels if name not in inputs)
    ladder = ladder_of(
        job,
        Footing(
            plan.processes_per_host,
            wanted.processes or _room(machine),
            _not_here(job, plan, source),
            _data_missing(missing),
            bool(synthetic),
        ),
    )
    rungs = []
    for rung in ladder.rungs:
        if wanted.asks_for(rung.name):
            told = join_words(few, synthetic if rung.synthetic else NOTHING)
            settings = settings_of(rung, job, plan.processes_per_host, told, wanted.seconds, written)
            rungs.append(_prepare_rung(rung, settings, wanted, source, region, told=bool(few)))
    left_out = tuple(each for each in ladder.left_out if wanted.asks_for(each.name))
    if not rungs:
        raise Refusal(
            f"no rung is left{wanted.in_words}{_reasons_left_out(left_out)}.",
            _instead(ladder.rungs, missing if left_out else ()),
        )
    reached = NAMES.index(wanted.last)
    beyond = next((each.name for each in ladder.rungs if NAMES.index(each.name) > reached), None)
    return ReadyLadder(plan, source, tuple(rungs), left_out, few, synthetic, inputs, missing, beyond)


def _channels(job: JobSpec) -> list[str]:
    """The job's channels; of one for Slurm also those that only its section names."""
    there = job.slurm.inputs if job.slurm and job.backend == "slurm" else {}
    return list(dict.fromkeys([*job.inputs, *there]))


def _folders_here(job: JobSpec) -> dict[str, Path]:
    """The folders that a job for Slurm names for its channels, where this machine sees the shared folder."""
    if job.slurm is None or job.backend != "slurm" or job.slurm.host is not None:
        return {}
    return {name: Path(folder) for name, folder in job.slurm.inputs.items() if Path(folder).is_dir()}


def _reasons_left_out(left_out: Sequence[MissingRung]) -> str:
    """Why rungs were left out, each reason once: ` (1-here, n-here: the code lies on S3)`."""
    rungs: dict[str, list[str]] = {}
    for each in left_out:
        rungs.setdefault(each.why, []).append(each.name)
    said = "; ".join(f"{', '.join(names)}: {why}" for why, names in rungs.items())
    return f" ({said})" if said else ""


def _instead(rungs: Sequence[Rung], missing: Sequence[str]) -> str:
    """What to do where no rung is left: folders for channels, or the rungs that there are."""
    names = [each.name for each in rungs]
    there = f"This job has {', '.join(names)}: begin with `--from {names[0]}`." if names else ""
    if not missing:
        return there
    folders = " ".join(f"--input {name}=DIR" for name in missing)
    return f"Say where its data are on this machine with `{folders}`. {there}".rstrip()


def _prepare_rung(
    rung: Rung,
    settings: Sequence[str],
    wanted: LadderRequest,
    source: SourceTree,
    region: str | None,
    *,
    told: bool,
) -> ReadyRung:
    here = rung.place is Where.HERE
    # Processes that are not one for each accelerator are what this machine has room for.
    ignore = [*wanted.ignore, *([distribution.PROCESSES_DIFFER_FROM_ACCELERATORS.code] if here else [])]
    loaded = read_job(replace(wanted.job, overrides=(*wanted.job.overrides, *settings)))
    plan = prepare(loaded, session_region=region, ignore=ignore, source=source, here=here)
    cost = None if rung.place is not Where.AWS or plan.view is None else estimate_cost(plan.view, plan.region)
    return ReadyRung(rung, tuple(settings), loaded, plan, told, cost)


def _with_ladder_as_written(job: JobSpec, written: Mapping[str, Any]) -> JobSpec:
    """The job with references to variables in its `ladder`: what it says is given to `--set`, and shown."""
    if job.ladder is None:
        return job
    return job.model_copy(update={"ladder": Ladder.model_validate(written["ladder"])})


def _room(machine: Machine) -> int:
    """How many processes there is room for here: one for each GPU, else for each core, two at least."""
    return len(machine.gpus) if len(machine.gpus) > 1 else max(2, machine.cores)


def _not_here(job: JobSpec, plan: TrainingPlan, source: SourceTree) -> str | None:
    if source.is_unread:
        return f"the code lies on S3, at {source.place}"
    for name, each in job.inputs.items():
        if each.mode == "Pipe":
            return f"the channel {name} is a Pipe, which a run on this machine cannot provide"
    return why_not_here(job, with_boot=plan.with_boot)


def _data_missing(channels: Sequence[str]) -> str | None:
    if not channels:
        return None
    names, options = ", ".join(channels), " ".join(f"--input {name}=DIR" for name in channels)
    return f"no folder of this machine is given for {names}: {options}"


# A rung of a ladder, run: as `launch` runs a job, and ended as soon as it has shown that it trains.


_TRAINING = "Training"
"""The phase in which the script runs, wherever that is."""

STILL_SECONDS = 60.0
_SLOWEST_REPORTS = 3
"""A run stands still when nothing has come for a minute and three times the longest pause before."""


@frozen
class Bound:
    """How far a rung goes: to its end, after so many reports of progress (None: all), or so many seconds."""

    reports: int | None
    seconds: float


class RungWatch:
    """A job's screen that ends the job as soon as it has shown enough.

    `stop` is given the job's name and who asks, once. `ended_by` says why the job was ended, None where the
    watch did not end it; `stood_still` for how many seconds it had reported nothing then, None where it
    still made steps.
    """

    def __init__(
        self,
        screen: Screen,
        stop: Callable[[str, str], None],
        bound: Bound,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.ended_by: str | None = None
        self.stood_still: float | None = None
        self._screen, self._stop, self._bound, self._clock = screen, stop, bound, clock
        self._name = ""
        self._begun: float | None = None
        self._moved = 0.0
        self._longest = 0.0
        self._reports = 0
        self._final = False

    @property
    def reports(self) -> int:
        """How often the job has reported progress."""
        return self._reports

    def status(self, status: JobStatus) -> None:
        """Show the status, and end a job whose script has run for as long as it may."""
        self._name, self._final, now = status.name, status.state.is_final, self._clock()
        if self._begun is None and status.phase == _TRAINING:
            self._begun = self._moved = now
        self._screen.status(status)
        if self._begun is not None and now - self._begun >= self._bound.seconds:
            quiet = now - self._moved
            if not self._reports or quiet > max(STILL_SECONDS, _SLOWEST_REPORTS * self._longest):
                self.stood_still = quiet if self.ended_by is None else self.stood_still
            self._end(f"after {elapsed_time(self._bound.seconds)}")

    def lines(self, lines: Sequence[LogLine]) -> None:
        """Show the lines."""
        self._screen.lines(lines)

    def trouble(self, text: str | None) -> None:
        """Show why nothing can be seen."""
        self._screen.trouble(text)

    def notice(self, notice: Notice) -> None:
        """Show that the job stands still, moves again, or comes near its limit."""
        self._screen.notice(notice)

    def progress(self, progress: TrainingProgress) -> None:
        """Show the progress, and end a job that has reported often enough."""
        now = self._clock()
        if self._reports:
            self._longest = max(self._longest, now - self._moved)
        self._reports, self._moved = self._reports + 1, now
        self._screen.progress(progress)
        if self._bound.reports is not None and self._reports >= self._bound.reports:
            self._end(f"after {self._reports} reports of progress")

    def _end(self, why: str) -> None:
        if self.ended_by is None and not self._final:
            self.ended_by = why
            self._stop(self._name, f"launch ladder {why} (process {os.getpid()})")


def bound_of(ready: ReadyRung, steps: int, seconds: int) -> Bound:
    """How far a rung goes; a script that was told to make few steps ends by itself."""
    return Bound(None if ready.told else steps, seconds)


def run_rung_here(
    ready: ReadyRung,
    backend: Backend,
    screen: Screen,
    bound: Bound,
    choice: LineChoice | None,
    on_progress: OnProgress | None = None,
) -> tuple[Climbed, Outcome]:
    """Run a rung on this machine, and say what came of it. Raises as `follow_here`."""
    watch = RungWatch(screen, backend.stop, bound)
    outcome = follow_local_run(backend, lambda: backend.submit(ready.plan, on_progress), watch, choice)
    return judge_rung(ready, outcome, watch), outcome


def run_rung_on_hosts(
    ready: ReadyRung,
    backend: Backend,
    name: str,
    bound: Bound,
    screen: Screen,
    choice: LineChoice | None,
    check: Check | None = None,
) -> tuple[Climbed, Outcome]:
    """Follow a rung's job that was started on hosts, and say what came of it; `check` is as in `follow`.

    Raises as `follow`.
    """
    watch = RungWatch(screen, backend.stop, bound)
    outcome = follow(backend, name, watch, choice, check=check)
    return judge_rung(ready, outcome, watch), outcome


def judge_rung(ready: ReadyRung, outcome: Outcome, watch: RungWatch) -> Climbed:
    """What came of a rung, by how its job ended.

    A job that completed although its ranks never met has not held: each has trained alone.
    """
    alone = next(
        (each for each in outcome.warnings or () if each.code == distribution.RANKS_NEVER_MET.code), None
    )
    finding = outcome.failure.finding if outcome.failure is not None else alone
    if outcome.verdict is not None and outcome.verdict.is_bad:
        result, said = Result.BROKE, _mode(finding) if finding else "of something unknown"
    elif alone is not None:
        result, said = Result.BROKE, _mode(alone)
    elif outcome.succeeded:
        result, said = Result.HELD, "completed"
    elif watch.ended_by is not None and watch.stood_still is None:
        result, said = Result.HELD, f"stopped by the ladder {watch.ended_by}"
    elif watch.ended_by is not None:
        what = "reported nothing" if not watch.reports else "stood still"
        result, said = Result.UNDECIDED, f"{what} for {elapsed_time(watch.stood_still or 0)}"
    else:
        result, said = Result.UNDECIDED, "stopped from outside"
        finding = outcome.cause
    seconds = outcome.status.seconds
    per_hour = ready.cost.per_hour if ready.cost else None
    return Climbed(
        ready.rung,
        result,
        said,
        step=outcome.step,
        seconds=seconds,
        usd=None if per_hour is None or seconds is None else per_hour * seconds / 3600,
        job_name=outcome.status.name,
        finding=finding,
        rank=outcome.failure.rank if outcome.failure else None,
        host=outcome.failure.host if outcome.failure else None,
    )


def _mode(finding: Finding) -> str:
    """Such as `CODE001, the script raised an exception`."""
    mode = CATALOGUE.get(finding.code)
    return f"{finding.code}, {mode.title}" if mode else finding.code
