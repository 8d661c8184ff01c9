"""Which signs are of the last incident, the only one that can hold the root cause; the others are history."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from launcher.diagnosis.consequences import APART
from launcher.diagnosis.copies import without_copies
from launcher.diagnosis.notes import COMES_DOWN, Survived
from launcher.diagnosis.reading import Reading
from launcher.diagnosis.reason import BEFORE_ALL_LINES
from launcher.diagnosis.sighting import Sighting
from launcher.diagnosis.signatures.signature import LineRole
from launcher.failure_modes import interruption, losses, training_script

ONE_CLOCK_APART = 60.0
"""Seconds between a failure and steps by one clock, on another host or after an error that was caught: so
long nobody steps on without it."""

_WARNING = re.compile(r"^\[?W\d{3,4} ")
"""How glog marks a warning of C++: of a process that tells of another one's end, and goes on."""


@dataclass(frozen=True, slots=True)
class Incident:
    """The signs of the last incident, those of its ordinary end, and what was survived before."""

    signs: tuple[Sighting, ...]
    noise: tuple[Sighting, ...]
    history: tuple[Survived, ...]


def last_incident(reading: Reading, signs: Sequence[Sighting], *, failed: bool) -> Incident:
    """The last incident among the signs that may be a root cause.

    `failed` is whether the job is known to have failed. Where only echoes of a failure remain, what failed
    shortly before them counts as well: Python writes what it had buffered after the traceback. What a rank
    prints may lie in several streams, of which not all have its rank or its steps: it is one sign.
    """
    signs = without_copies(signs, (each.sign for each in reading.history))
    judged = [(sign, _was_survived(sign, reading)) for sign in signs]
    survived = [sign for sign, was_survived in judged if was_survived]
    left = [sign for sign, was_survived in judged if not was_survived]
    history = [*reading.history, *(Survived(sign, restarted=False) for sign in survived)]
    lasting = [each for each in history if _lasts(each, reading)]
    if lasting:
        history = [each for each in history if each not in lasting]
        left = [*left, *(each.sign for each in lasting)]
    if not any(_explains(sign) for sign in left):
        back = [each for each in history if _belongs_to_the_end(each, left, reading, failed=failed)]
        history = [each for each in history if each not in back]
        left = [*left, *(each.sign for each in back)]
    harmless = all(_is_noise(sign, reading) or _was_logged(sign, reading) for sign in left)
    if left and not failed and harmless:
        return Incident((), tuple(replace(sign, role=LineRole.ADVISORY) for sign in left), tuple(history))
    return Incident(tuple(left), (), tuple(history))


def _explains(sign: Sighting) -> bool:
    return sign.role in (LineRole.INITIATOR, LineRole.SYMPTOM)


def _lasts(each: Survived, reading: Reading) -> bool:
    """Whether steps went on and nothing got better by it: the loss is no number to the end."""
    sign = each.sign
    return sign.mode is losses.LOSS_NOT_FINITE and not each.restarted and sign.stream in reading.diverged


def _was_survived(sign: Sighting, reading: Reading) -> bool:
    """Whether a mere mention is followed by more than a failing job prints, or whether other hosts made steps
    for so long that no clock explains it."""
    if sign.index == BEFORE_ALL_LINES:
        return False
    length = reading.lengths.get(sign.host or "", max(reading.lengths.values(), default=0))
    if sign.role is LineRole.CASCADE and sign.vague and length - sign.index > COMES_DOWN:
        # Where one stream holds many ranks, they print as much within seconds.
        return not _is_near_the_end(sign, reading)
    if sign.time is None:
        return False
    margin = ONE_CLOCK_APART if sign.clock == "stream" else APART
    return any(
        course.since is not None
        and course.since.clock == sign.clock
        and course.since.time is not None
        and course.since.time - sign.time > margin
        for stream, course in reading.courses.items()
        if stream != sign.stream
    )


def _belongs_to_the_end(each: Survived, left: Sequence[Sighting], reading: Reading, *, failed: bool) -> bool:
    """Whether what seemed to be survived stands so near the end of a process that it is its cause."""
    sign = each.sign
    if each.restarted or not (_explains(sign) or sign.fatal) or _was_caught(sign, reading):
        return False
    ends = [
        other.index
        for other in left
        if other.stream == sign.stream and other.index > sign.index and _is_end_of(sign, other)
    ]
    if failed:
        ends.append(reading.lengths.get(sign.host or "", max(reading.lengths.values(), default=0)))
    return any(end - sign.index <= COMES_DOWN for end in ends)


def _was_caught(sign: Sighting, reading: Reading) -> bool:
    """Whether the steps of a stream went on after an error for so long that they were not written later only
    because they had been buffered."""
    course = reading.courses.get(sign.stream)
    last = course.since if course is not None else None
    if sign.fatal or sign.time is None or last is None or last.time is None or last.clock != sign.clock:
        return False
    return last.time - sign.time > ONE_CLOCK_APART


def _is_near_the_end(sign: Sighting, reading: Reading) -> bool:
    """Whether the last line of its stream came shortly after a sign, by one clock."""
    last = next(reversed(reading.closing.streams.get(sign.stream, [])), None)
    if last is None or last.time is None or sign.time is None or last.clock != sign.clock:
        return False
    return last.time - sign.time <= ONE_CLOCK_APART


def _was_logged(sign: Sighting, reading: Reading) -> bool:
    """Whether an exception was caught and logged, in a job of which another stream says it ended well."""
    raised = sign.mode is training_script.SCRIPT_RAISED and sign.vague and sign.place is not None
    elsewhere = any(stream != sign.stream for stream in reading.ended_well)
    return raised and not sign.fatal and elsewhere and sign.index != BEFORE_ALL_LINES


def _is_end_of(sign: Sighting, other: Sighting) -> bool:
    """Whether a process may have ended with what this echoes. What was caught ends none: there it takes a
    process that is said to have ended by itself."""
    ended = {other.captured[name] for name in ("exit", "exitcode") if name in other.captured}
    return sign.fatal or bool(ended and other.mode is not interruption.STOPPED)


def _is_noise(sign: Sighting, reading: Reading) -> bool:
    """Whether a sign only says that another process is gone, in a job that ended well or goes on."""
    ends = sign.mode is interruption.STOPPED or "exit" in sign.captured
    if sign.role is not LineRole.CASCADE or sign.index == BEFORE_ALL_LINES or ends:
        return False
    ended = reading.ended_well.get(sign.stream)
    return (ended is not None and sign.index > ended) or _WARNING.match(sign.text) is not None
