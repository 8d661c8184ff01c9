"""When a training ends, by the steps that it prints and their pace, and whether its limit ends it before."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from launcher.backends.interface import JobStatus
from launcher.frozen import frozen
from launcher.text.values import duration_in_words, exact_duration

if TYPE_CHECKING:
    from launcher.planning.request_view import RequestView

_GOALS: Mapping[str, frozenset[str]] = {
    "step": frozenset(
        {
            "steps",
            "max_steps",
            "num_steps",
            "total_steps",
            "train_steps",
            "num_train_steps",
            "max_train_steps",
            "training_steps",
            "iters",
            "max_iters",
            "train_iters",
            "num_iterations",
            "max_iterations",
        }
    ),
    "epoch": frozenset(
        {"epochs", "num_epochs", "max_epochs", "n_epochs", "total_epochs", "num_train_epochs"}
    ),
}
"""What scripts call the number of steps or epochs that they train for: transformers, Lightning, Megatron,
timm, nanoGPT and PyTorch's examples."""


def goals_of(request: RequestView | None) -> dict[str, float]:
    """How many steps and epochs a job trains for, by its hyperparameters and arguments; none where they do
    not say."""
    if request is None:
        return {}
    words = request.arguments
    pairs = [each.partition("=")[::2] for each in words]
    pairs += [(name, value) for name, value in pairwise(words) if name.startswith("-")]
    goals = dict[str, float]()
    for name, value in (*pairs, *request.hyperparameters.items()):
        plain = name.lstrip("-").replace("-", "_")
        number = value.strip('"')
        if re.fullmatch(r"[1-9]\d{0,11}", number):
            goals |= {unit: float(number) for unit, names in _GOALS.items() if plain in names}
    return goals


_SHORTEST_SPAN = 30.0
"""Seconds over which a pace is measured, at least: the first steps warm up."""


class PaceReader:
    """The pace of a training, from the times at which it prints its steps or epochs.

    `goals` are how many of each it trains for, by what the job was given; what its lines say counts more.
    Steps that begin anew in each epoch say nothing of the end, so that epochs count where their number is
    known.
    """

    def __init__(self, goals: Mapping[str, float]) -> None:
        """Nothing was printed yet."""
        self._goals = dict(goals)
        self._counters = {"epoch": _Counter(), "step": _Counter()}

    def read(self, time: float, values: Mapping[str, float], goals: Mapping[str, float]) -> None:
        """Take up a line's values, at its time in seconds, and how far it says that they go."""
        self._goals.update(goals)
        for unit, counter in self._counters.items():
            if unit in values:
                counter.count(time, values[unit])

    def remaining(self, now: float) -> float | None:
        """The seconds from `now` to the end of the training; None where its end or its pace is not known."""
        for unit, counter in self._counters.items():
            goal = self._goals.get(unit)
            end = None if goal is None else counter.end(goal)
            if end is not None:
                return max(0.0, end - now)
        return None


class _Counter:
    """The steps, or epochs, of one training, with the time at which each was first printed."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None
        self._last = (0.0, 0.0)
        self._restarts = False
        self._goes_on = False

    def count(self, time: float, value: float) -> None:
        """Take up a value at its time."""
        if self._first is None:
            self._first = self._last = (time, value)
        elif value > self._last[1]:
            self._last = (time, value)
        elif value < self._last[1]:
            self._restarts = True
        else:
            self._goes_on |= time > self._last[0]

    def end(self, goal: float) -> float | None:
        """The time at which the goal is reached at the pace so far; None where there is no pace yet."""
        if self._first is None or self._restarts:
            return None
        seconds, counted = self._last[0] - self._first[0], self._last[1] - self._first[1]
        if counted <= 0 or seconds < _SHORTEST_SPAN:
            return None
        left = goal - self._last[1]
        if self._first[1].is_integer() and self._last[1].is_integer():
            # Counted from 0 or 1, and printed all along or when it is over.
            left += min(self._first[1], 1.0) - (0.0 if self._goes_on else 1.0)
        return self._last[0] + max(0.0, left) * seconds / counted


@frozen
class NearLimit:
    """A job that its limit will end, or that has used up most of it.

    `remaining` is how many seconds its training needs, None where that is not known, and `left` how many its
    limit leaves it. `limit` is the whole, in seconds, and `field` what sets it.
    """

    job_name: str
    remaining: float | None
    left: float
    limit: int
    field: str
    keeps_checkpoints: bool

    @property
    def is_too_late(self) -> bool:
        """Whether the training would end after its limit."""
        return self.remaining is not None and self.remaining > self.left

    @property
    def message(self) -> str:
        """How the end of the training and the limit lie to each other."""
        left, limit = duration_in_words(self.left), exact_duration(self.limit)
        bound = f"its limit of {limit} ({self.field})"
        if self.remaining is None:
            return (
                f"{self.job_name} is stopped in {left} by {bound}, and nothing shows when it would be done."
            )
        needs = duration_in_words(self.remaining)
        if self.is_too_late:
            return f"{self.job_name} needs about {needs} more, and {bound} stops it in {left}."
        return f"{self.job_name} is done in about {needs}; {bound} leaves it {left}."

    @property
    def remedy(self) -> str:
        """What can be done: the limit of a job that runs cannot be raised."""
        if not self.keeps_checkpoints:
            return (
                f"it keeps no checkpoints, so what it has learned is lost then: launch stop {self.job_name}, "
                f"and launch it again with a higher {self.field}"
            )
        return (
            f"when it has stopped, launch the job file again with a higher {self.field} and "
            f"--set checkpoint.resume_from={self.job_name}"
        )


_NEAR = 0.8
"""The part of its limit after which a job is near it."""

_MEASURED = 0.05
"""The part of its limit after which an estimate is worth a warning."""


class LimitWatch:
    """Reports that a job will not end before its limit: once as soon as its pace shows it, and once when the
    limit is near, then also where nothing shows when it ends."""

    def __init__(self) -> None:
        """Nothing was reported yet."""
        self._reported = set[bool]()

    def look(self, status: JobStatus, remaining: float | None) -> NearLimit | None:
        """What this look shows of the limit; None where the job ends in time, or that was said already."""
        seen = limit_of(status, remaining)
        if seen is None:
            return None
        used = 1 - seen.left / seen.limit
        is_near = used >= _NEAR
        told = is_near in self._reported or used < _MEASURED
        if told or not (seen.is_too_late or (is_near and seen.remaining is None)):
            return None
        self._reported.add(is_near)
        return seen


def limit_of(status: JobStatus, remaining: float | None) -> NearLimit | None:
    """How far a job that trains is from its limit; None for one that does not train, or without a limit."""
    request = status.request
    if status.state.is_final or request is None or status.phase != "Training" or request.search is not None:
        return None
    limit = request.max_runtime_seconds
    return NearLimit(
        status.name,
        remaining,
        max(0.0, limit - _seconds_running(status)),
        limit,
        "limits.max_usd" if request.is_cut_by_budget else "limits.max_runtime",
        status.checkpoints is not None,
    )


_BEFORE_RUNNING = ("Starting", "Pending", "LaunchingMLInstances", "PreparingTrainingStack")
"""The secondary statuses before the hosts run, whose time the limit does not count (API reference,
SecondaryStatusTransition and StoppingCondition)."""


def _seconds_running(status: JobStatus) -> float:
    waited = [
        (each.ended or each.started) - each.started
        for each in status.transitions
        if each.phase in _BEFORE_RUNNING
    ]
    return max(0.0, (status.seconds or 0.0) - sum(waited))
