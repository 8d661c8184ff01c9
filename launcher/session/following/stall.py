"""Whether a job stands still, and what that usually means: a state machine that is given the time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from launcher.backends.interface import JobStatus, LogLine
from launcher.failure_modes import capacity, checkpoints, data, images, nccl, network, storage
from launcher.failure_modes.model import FailureMode
from launcher.text.durations import duration_in_words
from launcher.text.line_length import LONGEST_LINE

_LONGEST_GAP = 60.0
"""Between two looks nobody looked: a laptop may have slept, so no more than this of it counts."""

_LINES_WITHOUT_STEPS = 3
"""Lines that keep coming may be a validation; steps are missed after so many times the limit."""

_SLOWEST_STEPS = 5
"""A job is quiet when it is so many times longer than the longest time between two of its steps."""

_SAVING = re.compile(
    r"(?i)\bsav(?:e|ing|ed)\b.{0,40}\b(?:checkpoint|state_dict|model)"
    r"|\bcheckpoint(?:(?!checkpoint|\bsav)\S)*+.{0,20}\bsav(?:e|ing)\b"
)


@dataclass(frozen=True, slots=True)
class Situation:
    """What a job was doing when it fell silent: after how many seconds that is strange, and what is likely
    then, the likeliest first."""

    doing: str
    limit: float
    likely: tuple[FailureMode, ...]


WAITING = Situation("waits for its hosts", 1800.0, (capacity.NO_CAPACITY, capacity.QUOTA_TOO_SMALL))
DOWNLOADING = Situation(
    "downloads its image and data",
    1800.0,
    (storage.LARGE_DATASET_IN_FILE_MODE, storage.BUCKET_UNUSABLE, images.IMAGE_UNAVAILABLE),
)
BEFORE_FIRST_STEP = Situation(
    "has shown no step yet",
    900.0,
    (nccl.INITIALISATION_STALLED, nccl.RENDEZVOUS_TIMED_OUT, network.NO_EGRESS_TO_ITSELF),
)
BETWEEN_STEPS = Situation(
    "shows no step any more",
    600.0,
    (nccl.COLLECTIVE_TIMED_OUT, data.UNEVEN_BATCHES, checkpoints.STATE_DICT_NOT_ON_EVERY_RANK),
)
SAVING = Situation(
    "was saving a checkpoint",
    1200.0,
    (checkpoints.STATE_DICT_NOT_ON_EVERY_RANK, checkpoints.LARGE_UPLOAD_FAILS, nccl.COLLECTIVE_TIMED_OUT),
)
UPLOADING = Situation("uploads its results", 3600.0, (checkpoints.LARGE_UPLOAD_FAILS,))

_PHASES = {
    "Starting": WAITING,
    "Pending": WAITING,
    "LaunchingMLInstances": WAITING,
    "PreparingTrainingStack": WAITING,
    "Restarting": WAITING,
    "Downloading": DOWNLOADING,
    "DownloadingTrainingImage": DOWNLOADING,
    "Uploading": UPLOADING,
}
"""SecondaryStatus of the SageMaker API; Training is judged by its steps."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A job that has stood still for `seconds`, and what it was doing when it fell silent."""

    job_name: str
    seconds: float
    situation: Situation

    @property
    def message(self) -> str:
        """What the job was doing, for how long nothing has come, and the likeliest failure modes."""
        likely = "; ".join(f"{mode.code}, {mode.title}" for mode in self.situation.likely)
        return (
            f"{self.job_name} {self.situation.doing}, and nothing new for {duration_in_words(self.seconds)}. "
            f"Likely: {likely}."
        )

    @property
    def remedy(self) -> str:
        """The commands that show more."""
        return f"launch diagnose {self.job_name}   or   launch explain {self.situation.likely[0].code}"


@dataclass(frozen=True, slots=True)
class Moving:
    """A job that stood still moves again."""

    job_name: str


class StallWatch:
    """Reports once when a job falls silent, and once when it moves again.

    Call `look` for every look at the job, also for those that brought no lines.
    """

    def __init__(self) -> None:
        self._time: float | None = None
        self._phase = ""
        self._since_line = 0.0
        self._since_step = 0.0
        self._steps = 0
        self._slowest = 0.0
        self._saving = False
        self._reported = False

    def look(
        self, time: float, status: JobStatus, lines: Sequence[LogLine], *, stepped: bool
    ) -> Stall | Moving | None:
        """Whether this look shows that the job stands still, or moves again; None where nothing has changed.

        `time` is in seconds of any steady clock, `lines` are those since the last look, and `stepped` says
        whether they reported progress.
        """
        gap = 0.0 if self._time is None else min(max(0.0, time - self._time), _LONGEST_GAP)
        self._time = time
        self._since_line += gap
        self._since_step += gap
        moved = self._note(status, lines, stepped)
        if moved and self._reported:
            self._reported = False
            return Moving(status.name)
        situation = self._situation(status)
        if self._reported or situation is None or not self._is_stalled(situation):
            return None
        self._reported = True
        return Stall(status.name, self._quiet, situation)

    @property
    def _quiet(self) -> float:
        return self._since_step if self._steps else self._since_line

    def _note(self, status: JobStatus, lines: Sequence[LogLine], stepped: bool) -> bool:
        """Take up what is new; returns whether the job has moved."""
        moved = stepped
        if status.phase != self._phase:
            self._phase, moved = status.phase, True
            self._since_line = self._since_step = 0.0
            if status.phase != "Training":
                self._steps = 0
        if lines:
            self._since_line = 0.0
            # A line is a move too, unless the steps have been missed while lines went on.
            moved = moved or not self._steps or self._since_step <= _LINES_WITHOUT_STEPS * self._limit
            self._saving = any(map(_reports_saving, lines[-50:]))
        if stepped:
            self._steps += 1
            if self._steps > 1:
                self._slowest = max(self._slowest, self._since_step)
            self._since_step = 0.0
        return moved

    @property
    def _limit(self) -> float:
        return max(BETWEEN_STEPS.limit, _SLOWEST_STEPS * self._slowest)

    def _situation(self, status: JobStatus) -> Situation | None:
        if status.state.is_final:
            return None
        if status.phase != "Training":
            return _PHASES.get(status.phase)
        if self._saving:
            return SAVING
        return BETWEEN_STEPS if self._steps else BEFORE_FIRST_STEP

    def _is_stalled(self, situation: Situation) -> bool:
        limit = max(situation.limit, self._limit) if self._steps else situation.limit
        if self._steps and self._since_step > _LINES_WITHOUT_STEPS * limit:
            return True
        return self._since_line > limit


def _reports_saving(line: LogLine) -> bool:
    return _SAVING.search(line.text, 0, LONGEST_LINE) is not None
