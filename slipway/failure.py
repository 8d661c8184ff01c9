"""What the job's failure reason will say, with the failure mode's code first.

The service hands `/opt/ml/output/failure` on as FailureReason, at most 1024 characters of it
(DescribeTrainingJob), between `AlgorithmError: ` and `, exit code: N`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from slipway.evidence import Evidence, judge
from slipway.room import write_into_room

REPORTS: tuple[str, ...] = (
    "CKPT003", "CKPT004", "CKPT005", "CKPT007", "CKPT009", "CODE001", "CODE002", "CODE004", "CODE005",
    "DATA001", "DATA002", "DATA005", "DDP005", "DISK001", "DIST001", "DIST003", "DIST008", "EFA005",
    "EFA007", "FSX005", "HW001", "HW002", "IAM002", "IMG002", "MEM001", "MEM002", "MEM003", "NCCL004",
    "NCCL006", "NCCL007", "NCCL008", "NCCL009", "NUM001", "S3001", "S3002", "STOP001",
)  # fmt: skip
"""Every failure mode that the boot, or what scripts use of this package, is there to report at run time:
those that they find by themselves, and those whose lines show in what the ranks print (`signatures/`)."""

STOPPED = "STOP001"
"""The code of what was asked to end, printed alone: the service asks for no reason then."""

MAX_CHARACTERS = 980
_MAX_HEADLINE = 480


class BootError(Exception):
    """The job cannot be started, for a reason that has a failure mode: its code and what to say."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code} {message}")
        self.code = code


@dataclass(frozen=True)
class RankEnd:
    """A rank that ended badly.

    `exit_code` is negative for a signal, None if unknown; `time` is the earliest sign of the failure,
    in seconds since the epoch; `output` the traceback that torch recorded, else the end of its stderr.
    """

    rank: int
    exit_code: int | None
    time: float
    output: str
    recorded: bool = False


@dataclass(frozen=True)
class Cause:
    """The rank that failed first, and why. `rank` is None where no rank was started."""

    rank: int | None
    time: float
    exit_code: int | None
    evidence: Evidence

    def text(self, host: str) -> str:
        """The content of the failure file of `host`: who failed, why and where, then the traceback's end."""
        who = f"rank {self.rank} on {host}" if self.rank is not None else f"torchrun on {host}"
        place = f" ({self.evidence.place})" if self.evidence.place else ""
        message = self.evidence.message.replace("\n", " ")
        if self.evidence.rank is not None and message.startswith("rank "):
            # It says of itself which rank failed, and where.
            return self._headed(message, place)
        if self.evidence.rank not in (None, self.rank):
            # What this rank printed tells of another one, whose host it does not know.
            who, message = f"rank {self.evidence.rank}", f"{message}; so says {who}"
        return self._headed(f"{who}: {message}", place)

    def _headed(self, told: str, place: str) -> str:
        headline = shorten(f"{self.evidence.code} {told}", _MAX_HEADLINE - len(place)) + place
        return headline + _last_lines(self.evidence.details, MAX_CHARACTERS - len(headline))


def root_cause(ends: Iterable[RankEnd], code_folder: str) -> Cause | None:
    """The weightiest failure among the ranks, and of these the earliest: a symptom loses against a cause,
    and what a rank says of another one against what that one says itself."""
    causes = [
        Cause(
            end.rank,
            end.time,
            end.exit_code,
            judge(end.output, end.exit_code, code_folder, recorded=end.recorded),
        )
        for end in ends
    ]

    def order(cause: Cause) -> tuple[object, ...]:
        of_another = cause.evidence.rank not in (None, cause.rank)
        return *cause.evidence.weight, of_another, cause.time, cause.rank or 0

    return min(causes, key=order, default=None)


def write_failure(file: Path, text: str, time: float) -> None:
    """Write the failure file; its modification time is that of the failure itself.

    By it the hosts' failures can be ordered, although some hosts take longer to come down. The room that
    was taken for it is used (see `take_room`). Where it cannot be written all the same, that is said and no
    more: the exit code counts.
    """
    content = shorten(text, MAX_CHARACTERS).encode("utf-8", "replace")
    try:
        try:
            write_into_room(file, content)
        except OSError:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        os.utime(file, (time, time))
    except OSError as error:
        print(f"slipway: {file} cannot be written: {error.strerror}", file=sys.stderr, flush=True)


def shorten(text: str, limit: int) -> str:
    """The text, cut with an ellipsis where it is longer than `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def exit_status(code: int) -> int:
    """An exit code as a shell reports it: 128 and the signal's number for a signal."""
    return 128 - code if code < 0 else code


def _last_lines(text: str, room: int) -> str:
    """As many whole lines from the end as fit, each after a line break."""
    kept = ""
    for line in reversed([line for line in text.splitlines() if line.strip(" ^~")]):
        if len(kept) + len(line) + 1 > room:
            break
        kept = f"\n{line}{kept}"
    return kept
