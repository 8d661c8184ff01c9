"""Which signs count: those of the last incident, without copies and without what followed from another
rank's failure.

And which of them came first: within a stream that is always known, between streams by their clocks.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from statistics import median

from launcher.diagnosis.logs.attempts import Course, Moment
from launcher.diagnosis.signatures import SHORTLY, LineRole
from launcher.diagnosis.signs.readings import COMES_DOWN, Reading, Survived
from launcher.diagnosis.signs.sightings import BEFORE_ALL_LINES, Sighting
from launcher.failure_modes import hardware, interruption, losses, nccl, network, training_script
from launcher.frozen import frozen

ONE_CLOCK_APART = 60.0
"""Seconds between a failure and steps by one clock, on another host or after an error that was caught: so
long nobody steps on without it."""

_WARNING = re.compile(r"^(?:\S{1,60} )?(?:\[rank\d{1,6}\]:)?\[?W\d{3,4} ")
"""How glog marks a warning of C++: of a process that tells of another one's end, and goes on."""


@frozen
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
    signs = drop_copies(signs, (each.sign for each in reading.history))
    judged = [(sign, _was_survived(sign, reading)) for sign in signs]
    survived = [sign for sign, was_survived in judged if was_survived]
    left = [sign for sign, was_survived in judged if not was_survived]
    history = [*reading.history, *(Survived(sign, restarted=False) for sign in survived)]
    lasting = [
        each
        for each in history
        if _diverged_to_the_end(each, reading) or _was_dealt_with_in_vain(each, left, reading)
    ]
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


def _diverged_to_the_end(each: Survived, reading: Reading) -> bool:
    """Whether steps went on and nothing got better by it: the loss is no number to the end."""
    sign = each.sign
    return sign.mode is losses.LOSS_NOT_FINITE and not each.restarted and sign.stream in reading.diverged


def _was_dealt_with_in_vain(each: Survived, left: Sequence[Sighting], reading: Reading) -> bool:
    """Whether more failed just after a program had said that it deals with it, and before any step."""
    course = reading.courses.get(each.sign.stream)
    since = course.since.index if course is not None and course.since is not None else BEFORE_ALL_LINES
    return (
        each.dealt_with
        and since < each.sign.index
        and any(
            other.stream == each.sign.stream and 0 < other.index - each.sign.index <= SHORTLY
            for other in left
        )
    )


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


# What followed from another rank's failure, told by what failed and in which order rather than by its text.
#
# Ranks speak with one another through process groups, stores, queues and actors. Where one of them ends,
# the others fail in just that plumbing: an exception from there is a cause only where nothing else failed.


APART = 600.0
"""Seconds by which clocks of hosts may differ and a consequence still seem to come first."""

_SAME_MOMENT = 5.0
"""Seconds within which the times of two agents of torchrun tell no order: their clocks differ a little, and
each looks for failures every now and then."""


def mark_consequences(
    signs: Sequence[Sighting], courses: Mapping[str, Course] | None = None
) -> list[Sighting]:
    """The signs of one incident, those that followed from another one's failure as such, and the end that
    all others only noticed as the failure. `courses` are the step counters of the streams."""
    signs = _with_tables_in_order(signs)
    signs = [_without_security_group(sign, signs, courses or {}) for sign in signs]
    signs = [_with_divergence(sign, signs) for sign in signs]
    signs = [_of_lost_peer(sign, signs) for sign in signs]
    signs = [replace(sign, role=LineRole.CASCADE) if _is_explained(sign, signs) else sign for sign in signs]
    if _some_could_not_reach_aws(signs):
        signs = [
            replace(sign, role=LineRole.CASCADE)
            if sign.mode is nccl.COLLECTIVE_TIMED_OUT and sign.role is LineRole.SYMPTOM
            else sign
            for sign in signs
        ]
    signs = [replace(sign, role=LineRole.CASCADE) if _was_ended(sign, signs) else sign for sign in signs]
    signs = [
        replace(sign, role=LineRole.TEARDOWN) if _was_killed_by_starter(sign, signs) else sign
        for sign in signs
    ]
    failures = [sign for sign in signs if _is_a_failure(sign)]
    waited = [
        sign for sign in signs if sign.mode is nccl.COLLECTIVE_TIMED_OUT and sign.role is LineRole.SYMPTOM
    ]
    signs = [replace(sign, vague=True) if _came_after_another(sign, signs) else sign for sign in signs]
    noticed = [sign for sign in signs if sign.mode is nccl.CLOSED_BY_PEER]
    return [
        replace(sign, role=LineRole.CASCADE)
        if _followed_failure(sign, failures) or _came_of_waiting(sign, waited)
        else replace(sign, role=LineRole.INITIATOR)
        if noticed and not failures and _was_only_noticed(sign, signs, noticed)
        else sign
        for sign in signs
    ]


def _was_killed_by_starter(sign: Sighting, signs: Sequence[Sighting]) -> bool:
    """Whether a shell tells of no more than that something was killed, where a starter had said that another
    process ended by itself: it ends the rest."""
    if sign.mode is not hardware.HOST_OUT_OF_MEMORY or not sign.vague or sign.text.strip() != "Killed":
        return False
    return any(
        other.stream == sign.stream
        and other.index < sign.index
        and other.captured.get("exit", other.captured.get("exitcode", "9")) not in ("9", "-9", "137")
        for other in signs
    )


_ASSERTION = re.compile(r"\bAssertionError\b")
_OF_LOSSES = re.compile(r"(?i:finite|\bnan\b|isnan|isinf|diverge|loss)")
_DIVERGED = re.compile(r"(?i:finite|\bnan\b|isnan|isinf|diverge)")
"""What other exceptions say: many speak of a loss that has nothing to do with its value."""


def _with_divergence(sign: Sighting, signs: Sequence[Sighting]) -> Sighting:
    """An exception with which a script ends because of a loss that is no number, as that."""
    if sign.mode is not training_script.SCRIPT_RAISED:
        return sign
    speaks = _OF_LOSSES if _ASSERTION.search(sign.what) else _DIVERGED
    lost = [
        other
        for other in signs
        if other.mode is losses.LOSS_NOT_FINITE and other.stream == sign.stream and other.index < sign.index
    ]
    told = sign.what.strip() == "AssertionError" or any(
        speaks.search(text) for text in (sign.what, *sign.details)
    )
    if not lost or not told:
        return sign
    return replace(
        sign, mode=losses.LOSS_NOT_FINITE, what=f"{lost[-1].what}, and the script ended: {sign.what}"
    )


def _without_security_group(
    sign: Sighting, signs: Sequence[Sighting], courses: Mapping[str, Course]
) -> Sighting:
    """An error of EFA as the mere loss of a peer, where ranks had made steps, or another one had failed: the
    way to it was open then, and closes where a process or host ends."""
    if sign.mode not in (network.NO_INGRESS_FROM_ITSELF, network.NO_EGRESS_TO_ITSELF):
        return sign
    if sign.index == BEFORE_ALL_LINES:
        return sign
    stepped = any(
        step > 0 and _is_before(moment, stream, sign)
        for stream, course in courses.items()
        for step, moment in course.seen.items()
    )
    failed = any(
        other.role is LineRole.INITIATOR
        and not other.plumbing
        and other.mode.code[:3] not in ("EFA", "NCC")
        and other.mode is not interruption.STOPPED
        and _is_anothers(other, sign)
        and not (other.vague and other.stream == sign.stream and other.index > sign.index)
        for other in signs
    )
    if not stepped and not failed:
        return sign
    why = "steps had been made over it" if stepped else "another rank had failed"
    return replace(
        sign,
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        vague=True,
        what=f"a request over EFA failed though {why}: the peer, or its host, is gone",
        remedy=None,
        retry=None,
    )


_CLOSED = re.compile(r"NCCL WARN .{0,80}(?:closed by remote peer|reset by peer|Broken pipe)", re.I)


def _of_lost_peer(sign: Sighting, signs: Sequence[Sighting]) -> Sighting:
    """NCCL's word for any call of the system that failed, as the loss of a peer, where the lines just before
    say that a connection was closed."""
    if sign.mode is not nccl.SYSTEM_ERROR or sign.role is not LineRole.SYMPTOM or not sign.vague:
        return sign
    lost = [
        other
        for other in signs
        if other.mode is nccl.CLOSED_BY_PEER
        and other.stream == sign.stream
        and 0 < sign.index - other.index <= SHORTLY
        and _CLOSED.search(other.text) is not None
    ]
    if not lost:
        return sign
    return replace(sign, mode=nccl.CLOSED_BY_PEER, role=LineRole.CASCADE, what=lost[-1].what, remedy=None)


_OF_ITS_OWN = (nccl.SYSTEM_ERROR, nccl.INITIALISATION_STALLED, nccl.PEER_ACCESS_REFUSED)
"""What a rank meets in NCCL by itself: the others then wait for it."""


def _is_explained(sign: Sighting, signs: Sequence[Sighting]) -> bool:
    """Whether a rank waited for one that NCCL had failed by then, or was killed after ranks had waited."""
    before = [each for each in signs if each.stream == sign.stream and 0 <= each.index < sign.index]
    if sign.mode is nccl.COLLECTIVE_TIMED_OUT and sign.role is LineRole.SYMPTOM:
        return any(
            each.mode in _OF_ITS_OWN
            and each.role is LineRole.SYMPTOM
            and (each.rank is None or each.rank != sign.rank)
            for each in before
        )
    if sign.mode is not hardware.HOST_OUT_OF_MEMORY or not sign.vague or sign.rank is not None:
        return False
    is_bare = not {"local_rank", "task", "exitcode"} & sign.captured.keys()
    return is_bare and any(each.mode is nccl.COLLECTIVE_TIMED_OUT for each in before)


def _is_before(moment: Moment, stream: str, sign: Sighting) -> bool:
    """Whether a step was made before a sign, as far as lines or one clock tell."""
    if stream == sign.stream:
        return moment.index < sign.index
    if moment.time is None or sign.time is None or moment.clock != sign.clock:
        return False
    return moment.time < sign.time


def _some_could_not_reach_aws(signs: Sequence[Sighting]) -> bool:
    """Whether a rank that waits in nothing could not reach a service of AWS: those that waited for it in vain
    only followed."""
    unreached = {sign.rank for sign in signs if sign.mode is network.NO_WAY_OUT} - {None}
    return bool(unreached - {sign.rank for sign in signs if sign.mode is nccl.COLLECTIVE_TIMED_OUT})


def _came_after_another(sign: Sighting, signs: Sequence[Sighting]) -> bool:
    """Whether a rank lost a peer when something else than communication had failed before in the same stream,
    of which a line says what, though little. That a process ended may have come after, as starters tell it
    late."""
    if sign.mode is not nccl.CLOSED_BY_PEER or sign.role is not LineRole.CASCADE:
        return False
    return any(
        other.role is LineRole.CASCADE
        and other.vague
        and other.stream == sign.stream
        and other.index < sign.index
        and (other.mode is not training_script.SCRIPT_RAISED or "what" in other.captured)
        and not other.code.startswith(_FAMILY_OF_NCCL)
        for other in signs
    )


def _with_tables_in_order(signs: Sequence[Sighting]) -> list[Sighting]:
    """The signs, of torchrun's tables in one stream the one first that tells of the earliest failure.

    Several hosts' agents write into one log in no order, and each table has the time of its first failure.
    """
    ordered = list(signs)
    tables: dict[str, list[tuple[float, int]]] = {}
    for number, sign in enumerate(ordered):
        seconds = _seconds_of_table(sign)
        if seconds is not None:
            tables.setdefault(sign.stream, []).append((seconds, number))
    for entries in tables.values():
        earliest, number = min(entries)
        stands_first, other = min(entries, key=lambda entry: ordered[entry[1]].index)
        if stands_first - earliest > _SAME_MOMENT:
            index = ordered[number].index
            ordered[number] = replace(ordered[number], index=ordered[other].index)
            ordered[other] = replace(ordered[other], index=index)
    return ordered


def _was_ended(sign: Sighting, signs: Sequence[Sighting]) -> bool:
    """Whether the boot's watchdog (slipway/watchdog/judge_stall.py) speaks of ranks that have ended, and one
    of them ended of itself with an exit code that is no exception's: the others stood still because of it."""
    gone = {int(rank) for rank in _RANK_ENDED.findall(sign.captured.get("what", ""))}
    return bool(gone) and any(
        other.rank in gone and other.captured.get("exitcode", "0") not in _EXITS_OF_OTHERS for other in signs
    )


def _seconds_of_table(sign: Sighting) -> float | None:
    """When the failure of a table of torchrun's was, None for other signs."""
    if "exitcode" not in sign.captured:
        return None
    try:
        moment = datetime.fromisoformat(sign.captured.get("time", "").replace("_", "T"))
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC).timestamp()


def _followed_failure(sign: Sighting, failures: Sequence[Sighting]) -> bool:
    if not sign.plumbing or sign.role is not LineRole.INITIATOR:
        return False
    return any(_is_anothers(other, sign) and not _is_long_after(other, sign) for other in failures)


def _is_a_failure(sign: Sighting) -> bool:
    if sign.index == BEFORE_ALL_LINES and sign.vague and sign.mode is nccl.COLLECTIVE_TIMED_OUT:
        return False  # The dumps that are there show who waits and not for whom: for whoever is gone as well.
    return not sign.plumbing and sign.role in (LineRole.INITIATOR, LineRole.SYMPTOM)


def _is_anothers(one: Sighting, other: Sighting) -> bool:
    """Whether two signs are of two processes, as far as the lines tell."""
    if one.rank is not None and other.rank is not None:
        return one.rank != other.rank
    return one.index != other.index or one.stream != other.stream


def _is_long_after(one: Sighting, other: Sighting) -> bool:
    """Whether one came so long after the other that no difference of clocks explains it."""
    if one.time is None or other.time is None or one.clock != other.clock:
        return False
    return one.time - other.time > APART


def _came_of_waiting(sign: Sighting, waited: Sequence[Sighting]) -> bool:
    """Whether a rank fails of what the end of its collective left behind: it had waited in vain before.

    NVIDIA and PyTorch say of the garbage that is read then, such as tensors of exabytes, to look at the
    collective. What the hardware says of itself counts all the same.
    """
    if sign.role is not LineRole.INITIATOR or sign.mode not in (
        hardware.CUDA_OUT_OF_MEMORY,
        training_script.SCRIPT_RAISED,
    ):
        return False
    return any(
        other.stream == sign.stream
        and other.rank is not None
        and other.rank == sign.rank
        and other.index < sign.index
        # Whom the line itself names did not come, and waited for nobody.
        and "rank" not in other.captured
        for other in waited
    )


_FAMILY_OF_NCCL = "NCCL"
"""How the codes begin of what fails in communication (docs/reference/failure-modes)."""

_TERMINATED = "-15"
"""What torchrun does to the others."""

_EXITS_OF_OTHERS = ("0", "1", _TERMINATED)
"""The exit codes of ranks that came to their end, met an exception or were ended."""

_RANK_ENDED = re.compile(r"\brank (\d{1,6}) has ended\b")


_OF_COMMUNICATION = re.compile(r"c10|gloo|nccl|dist|system_error|runtime_error", re.IGNORECASE)
"""Types of exceptions that torch's process groups, gloo and sockets throw."""

_ABORTED = frozenset({"-6", "134"})
"""How a process ends that torch's watchdog, or an exception in C++, takes down."""


def _was_only_noticed(sign: Sighting, signs: Sequence[Sighting], noticed: Sequence[Sighting]) -> bool:
    """Whether a rank ended in a way of its own without a word, and others say no more than that it was gone.

    An exit code of 1 is that of any exception, also of one that followed; and of several ranks that ended so
    some were ended by what they noticed.
    """
    if _was_killed_alone(sign, signs) or _crashed_first(sign, noticed):
        return True
    if not _ended_silently(sign, noticed):
        return False
    others = [other for other in signs if other.rank != sign.rank]
    if _aborted(sign) and any(_aborted(other) for other in others):
        return False  # So end all that noticed, whether or not their own lines are there.
    return not any(_ended_silently(other, noticed) for other in others)


def _was_killed_alone(sign: Sighting, signs: Sequence[Sighting]) -> bool:
    """Whether SLURM says that one task was killed, and of no other: it ends all others of a step at once."""
    if sign.role is not LineRole.CASCADE or "task" not in sign.captured:
        return False
    return not any(
        other.mode is sign.mode or other.mode is interruption.STOPPED for other in signs if other is not sign
    )


def _crashed_first(sign: Sighting, noticed: Sequence[Sighting]) -> bool:
    """Whether a process says itself how it crashed, before anything in its stream noticed another one's end.

    What libraries of communication throw in C++ follows from what they met.
    """
    if sign.role is not LineRole.CASCADE or {"type", "damage"}.isdisjoint(sign.captured):
        return False
    if _OF_COMMUNICATION.search(sign.captured.get("type", "")):
        return False
    return not any(other.stream == sign.stream and other.index < sign.index for other in noticed)


def _aborted(sign: Sighting) -> bool:
    return bool({sign.captured.get("exit"), sign.captured.get("exitcode")} & _ABORTED)


def _ended_silently(sign: Sighting, noticed: Sequence[Sighting]) -> bool:
    """Whether a rank is only known to have ended, in a way of its own, and has noticed nothing before."""
    if sign.role is not LineRole.CASCADE or sign.rank is None:
        return False
    if sign.captured.get("exitcode", "1") in ("1", _TERMINATED):
        return False
    return not any(
        other.rank == sign.rank or (other.rank is None and other.host == sign.host) for other in noticed
    )


# What a rank printed may lie in several streams: its host's log, a file of its own, the file of its
# failure.
#
# Not all of them have its rank, or the steps that it made afterwards. What one of them shows holds for all.


_Line = tuple[object, ...]


def drop_copies(signs: Sequence[Sighting], survived: Iterable[Sighting]) -> list[Sighting]:
    """The signs without those of unknown rank that another stream of their host has with the rank, and those
    that a rank `survived` as another stream shows, where that stream has them no second time."""
    ranked = _streams_by_line((_on_host(sign), sign.stream) for sign in signs if sign.rank is not None)
    still = _streams_by_line((_by_rank(sign), sign.stream) for sign in signs if sign.rank is not None)
    past = _streams_by_line((_by_rank(sign), sign.stream) for sign in survived if sign.rank is not None)
    return [
        sign
        for sign in signs
        if not (
            ranked.get(_on_host(sign), set()) - {sign.stream}
            if sign.rank is None
            else past.get(_by_rank(sign), set()) - still[_by_rank(sign)]
        )
    ]


def _streams_by_line(entries: Iterable[tuple[_Line, str]]) -> dict[_Line, set[str]]:
    streams: dict[_Line, set[str]] = defaultdict(set)
    for line, stream in entries:
        streams[line].add(stream)
    return dict(streams)


def _on_host(sign: Sighting) -> _Line:
    return sign.host, sign.code, sign.text


def _by_rank(sign: Sighting) -> _Line:
    return sign.rank, sign.code, sign.text


# Which of several signs came first: within a stream that is always known, between streams by their clocks.
#
# Hosts' clocks are compared where they are of one kind and print what happens on both at one time: the same
# step, the end of the same collective. How far they are apart is estimated by that. Clocks that nothing
# holds together tell no order, as they may be minutes apart.


_RESOLUTION = 2.0
"""Seconds by which hosts print the same event apart from one another."""

_Anchors = dict[tuple[object, ...], float]


class Clocks:
    """The clocks of the streams, as far apart as the events tell that several of them have."""

    def __init__(self, courses: Mapping[str, Course], signs: Iterable[Sighting]) -> None:
        self._anchors: dict[tuple[str, str], _Anchors] = {}
        for stream, course in courses.items():
            for step, moment in course.steps.items():
                if moment.clock is not None and moment.time is not None:
                    self._anchors_of(stream, moment.clock).setdefault(("step", step), moment.time)
        for sign in signs:
            operation, sequence = sign.captured.get("operation"), sign.captured.get("sequence")
            if operation and sequence and sign.clock is not None and sign.time is not None:
                self._anchors_of(sign.stream, sign.clock).setdefault((operation, sequence), sign.time)

    def seconds_between(self, one: Sighting, other: Sighting) -> float | None:
        """How long after the one the other came, None where nobody can know."""
        if one.clock is None or one.clock != other.clock or one.time is None or other.time is None:
            return None
        seconds = other.time - one.time
        if one.clock == "stream" or one.stream == other.stream:
            return seconds
        if one.host is not None and one.host == other.host:
            return seconds
        skew = self._skew(one.stream, other.stream, one.clock)
        if skew is None:
            return None
        seconds -= skew
        return seconds if abs(seconds) > _RESOLUTION or not skew else None

    def _skew(self, one: str, other: str, clock: str) -> float | None:
        """By how many seconds the clock of the other stream is ahead, None where they share no event."""
        mine, theirs = self._anchors.get((one, clock), {}), self._anchors.get((other, clock), {})
        apart = [theirs[event] - mine[event] for event in mine.keys() & theirs.keys()]
        if not apart:
            return None
        skew = median(apart)
        return skew if abs(skew) > _RESOLUTION else 0.0

    def _anchors_of(self, stream: str, clock: str) -> _Anchors:
        return self._anchors.setdefault((stream, clock), {})


def find_first(signs: Sequence[Sighting], clocks: Clocks) -> tuple[Sighting, tuple[Sighting, ...]]:
    """The sign that came first, and those of other streams that may have come before it, for all one knows.

    The same for every order in which the streams came. What the container wrote is a diagnosis already: it
    comes before the lines.
    """
    reported = [sign for sign in signs if sign.index == BEFORE_ALL_LINES]
    if reported:
        return min(reported, key=reading_order), ()
    firsts: dict[str, Sighting] = {}
    for sign in sorted(signs, key=reading_order):
        firsts.setdefault(sign.stream, sign)
    heads = sorted(firsts.values(), key=reading_order)
    open_heads = [sign for sign in heads if not any(_came_before(other, sign, clocks) for other in heads)]
    # Estimates may run in a circle; then nobody came first.
    first, *others = open_heads or heads
    return first, tuple(others)


def _came_before(one: Sighting, other: Sighting, clocks: Clocks) -> bool:
    seconds = clocks.seconds_between(one, other)
    return seconds is not None and seconds > 0


def reading_order(sign: Sighting) -> tuple[int, str, int, str, str]:
    """Where a sign stands, to put signs into one order whatever order they came in."""
    return sign.index, sign.host or "", -1 if sign.rank is None else sign.rank, sign.code, sign.stream
