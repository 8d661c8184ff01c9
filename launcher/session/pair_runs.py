"""The runs of a pair on AWS: both submitted, and followed beside each other or one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher.backends.interface import Backend
from launcher.failure_modes.refusal import Refusal
from launcher.planning.training_plan import TrainingPlan
from launcher.session.following.follow import Follower
from launcher.session.following.monitor import Monitor, Screen
from launcher.session.outcome import Outcome, outcome_of
from launcher.session.run import Interrupted, pace_of

if TYPE_CHECKING:
    from launcher.session.launching import Submission


@dataclass(frozen=True, slots=True)
class PairedRun:
    """A side of a pair that is to run on AWS: what is submitted, how, and where it is shown."""

    label: str
    plan: TrainingPlan
    submission: Submission
    screen: Screen


class PairLeft(Exception):
    """The user left a pair alone with Ctrl-C; `left` are the runs that were started, and how to come back."""

    def __init__(self, left: Sequence[tuple[Backend, Interrupted]]) -> None:
        super().__init__()
        self.left = list(left)


def run_beside_each_other(runs: Sequence[PairedRun]) -> list[tuple[Backend, Outcome]]:
    """Submit both runs, once each, and follow them to their ends; how they ended, in their order.

    Raises PairLeft on Ctrl-C, which leaves them running; Refusal where one cannot be submitted, with what
    became of the other; and what following raises.
    """
    names = _started(runs)
    followed = [_FollowedRun(run, name) for run, name in zip(runs, names, strict=True)]
    try:
        going = list(followed)
        while going:
            waits = [(each, each.follower.advance()) for each in going]
            going = [each for each, wait in waits if wait is not None]
            # Each wait keeps the calls for one job within the account's quota; those for both add up.
            wait = sum(wait or 0.0 for _, wait in waits)
            if wait:
                going[0].pace.sleep(wait)
    except KeyboardInterrupt:
        raise PairLeft([(each.backend, each.left(names)) for each in followed]) from None
    return [each.outcome() for each in followed]


def run_one_after_another(runs: Sequence[PairedRun]) -> list[tuple[Backend, Outcome]]:
    """The same, the second submitted when the first has ended, however it did."""
    ended: list[tuple[Backend, Outcome]] = []
    for run in runs:
        try:
            ended += run_beside_each_other([run])
        except Refusal as refusal:
            raise _with_others(refusal, run, [outcome.status.name for _, outcome in ended]) from refusal
    return ended


class _FollowedRun:
    """A run that was started, and what reads along."""

    def __init__(self, run: PairedRun, name: str) -> None:
        self.name, self.backend = name, run.submission.backend
        self.pace = pace_of(self.backend)
        self._monitor = Monitor(run.screen)
        self.follower = Follower(self.backend, name, self._monitor, self.pace)

    def outcome(self) -> tuple[Backend, Outcome]:
        """How it ended."""
        if self.follower.seen is None:
            raise ValueError(f"{self.name} was never seen")
        seen, monitor = self.follower.seen, self._monitor
        return self.backend, outcome_of(self.backend, seen, monitor.furthest_step, monitor.warnings)

    def left(self, names: Sequence[str]) -> Interrupted:
        """That it was left alone."""
        how = f"Compare them with: launch pair {' '.join(names)}" if len(names) > 1 else ""
        return Interrupted(
            self.name, self.follower.seen, how or f"Come back with: launch logs {self.name} --follow"
        )


def _started(runs: Sequence[PairedRun]) -> list[str]:
    names: list[str] = []
    for run in runs:
        try:
            names.append(run.submission.start.once(run.plan).name)
        except Refusal as refusal:
            raise _with_others(refusal, run, names) from refusal
    return names


def _with_others(refusal: Refusal, run: PairedRun, names: Sequence[str]) -> Refusal:
    """The refusal, with what was submitted before it and costs money."""
    if not names:
        return refusal
    others = " and ".join(names)
    return type(refusal)(
        f"{run.label} was not run to its end: {refusal.message} {others}, submitted before it, stays.",
        f"{refusal.remedy} To stop what still runs: launch stop {names[0]}",
    )
