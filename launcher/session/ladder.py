"""The ladder of a job, made ready: its rungs, each with the plan of a job that is changed for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from launcher.backends.local.machine import Machine
from launcher.experiments.ladder.rung_settings import settings_of
from launcher.experiments.ladder.rungs import (
    NAMES,
    Footing,
    MissingRung,
    Rung,
    Where,
    ladder_of,
    why_not_here,
)
from launcher.experiments.ladder.script_words import NOTHING, Words, both_told, few_steps, synthetic_data
from launcher.failure_modes import distribution
from launcher.failure_modes.refusal import Refusal
from launcher.jobs.ladder import Ladder
from launcher.jobs.load import LoadedJob
from launcher.jobs.specification import JobSpec
from launcher.planning.cost import CostEstimate, estimate_cost
from launcher.planning.training_plan import TrainingPlan
from launcher.session.preparation import JobSource, as_written, prepare, read_job, script_text
from launcher.source.arguments import offered_options
from launcher.source.tree import SourceTree


@dataclass(frozen=True, slots=True)
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
        """Whether none of the rungs asked for is on AWS."""
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


@dataclass(frozen=True, slots=True)
class ReadyRung:
    """A rung with its plan; `settings` are what it changes, as `--set` takes it.

    `cost` is what its hosts cost at its limit, None here and where no price is known. `told` says whether the
    script was told to make few steps.
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


@dataclass(frozen=True, slots=True)
class ReadyLadder:
    """A job's ladder; where the job's own `plan` is refused, it has no rungs.

    `few_steps` and `synthetic` are what the scripts are told. `stand_ins` are the channels for which a rung
    with made-up data gets an empty folder here. `beyond` is the job's next rung above those asked for, None
    where there is none.
    """

    plan: TrainingPlan
    source: SourceTree | None
    rungs: tuple[ReadyRung, ...] = ()
    left_out: tuple[MissingRung, ...] = ()
    few_steps: Words = NOTHING
    synthetic: Words = NOTHING
    stand_ins: tuple[str, ...] = ()
    beyond: str | None = None


def ready_ladder(
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
    for name in wanted.inputs or {}:
        if name not in job.inputs:
            raise Refusal(
                f"the job has no channel {name!r}; it has {', '.join(job.inputs) or 'none'}.",
                "Correct the name in `--input NAME=DIR`, or add the channel to `inputs`.",
            )
    written = as_written(wanted.job)
    own = _with_ladder_as_written(job, written)
    offered = offered_options(script_text(job, source))
    few, synthetic = few_steps(own, offered, wanted.steps), synthetic_data(own, offered)
    missing = tuple(name for name in job.inputs if name not in (wanted.inputs or {}))
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
            told = both_told(few, synthetic if rung.synthetic else NOTHING)
            settings = settings_of(rung, job, plan.processes_per_host, told, wanted.seconds, written)
            rungs.append(_ready(rung, settings, wanted, source, region, told=bool(few)))
    left_out = tuple(each for each in ladder.left_out if wanted.asks_for(each.name))
    if not rungs:
        raise Refusal(
            f"no rung is left{wanted.in_words}{_whys(left_out)}.",
            _instead(ladder.rungs, missing if left_out else ()),
        )
    reached = NAMES.index(wanted.last)
    beyond = next((each.name for each in ladder.rungs if NAMES.index(each.name) > reached), None)
    return ReadyLadder(plan, source, tuple(rungs), left_out, few, synthetic, missing, beyond)


def _whys(left_out: Sequence[MissingRung]) -> str:
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


def _ready(
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
    cost = None if here or plan.view is None else estimate_cost(plan.view, plan.region)
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
