"""A job that was ended from outside: what failed before all the same, what only followed, and how to say it.

When a job is stopped its ranks die of a signal, and torchrun, the process groups and the script report that
in as many words as a real failure. So what comes after a stop is a consequence; what came before it and is
definite remains the failure.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from launcher.diagnosis.ending import End, Ending, Stop, StopCause
from launcher.diagnosis.model import RootCause
from launcher.diagnosis.reason import BEFORE_ALL_LINES
from launcher.diagnosis.redaction import shown
from launcher.diagnosis.sighting import Sighting
from launcher.diagnosis.signatures.signature import LineRole
from launcher.failure_modes import interruption, training_script
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.text.durations import exact_duration
from launcher.text.moments import moment_in_words

_COMES_DOWN = 500
"""Lines of a host after a stop, more than a job prints while it comes down."""

_COMES_DOWN_SECONDS = 600.0

_ANNOUNCED = 12
"""Lines of a host in which whoever started the script says that it ended, before it says of which exit code:
the toolkit says it on a line of its own, torchrun at the end of its table of failures."""

_WENT_ON = 100
"""Lines of a host between an error and a stop: after so many the job had survived the error."""

_BY_SIGNAL = frozenset(str(code) for number in (1, 2, 15) for code in (-number, 128 + number))
"""Exit codes of a process that was asked to end: SIGHUP, SIGINT, SIGTERM."""


def unexplained(
    signs: Sequence[Sighting], ending: Ending, *, lengths: Mapping[str, int], late: Mapping[str, int]
) -> list[Sighting]:
    """Those of the signs that no end from outside explains.

    `lengths` are the lines of each host, `late` how many of them came after the stop that the place tells of.
    """
    stops = [sign for sign in signs if sign.mode is interruption.STOPPED]
    others = [sign for sign in signs if sign.mode is not interruption.STOPPED]
    stop = ending.stop
    if stop is not None and stop.at is not None:
        longest = max(lengths.values(), default=0)

        def went_on(sign: Sighting) -> bool:
            host = sign.host or ""
            return lengths.get(host, longest) - late.get(host, 0) - sign.index > _WENT_ON

        return [sign for sign in others if _came_before(sign, stop.at, went_on)]
    by_itself = [sign for sign in others if _ended_by_itself(sign)]
    return [sign for sign in others if not _is_explained(sign, stops, by_itself, ending)]


def split_by_stop(signs: Iterable[Sighting], ending: Ending) -> tuple[list[Sighting], list[Sighting]]:
    """What a job that was stopped met before that and survived, and what came of the stop."""
    at = ending.stop.at if ending.stop is not None else None
    earlier: list[Sighting] = []
    later: list[Sighting] = []
    for sign in signs:
        if sign.mode is not interruption.STOPPED:
            before = at is not None and sign.clock == "stream" and (sign.time or 0.0) < at
            (earlier if before else later).append(sign)
    return earlier, later


def _came_before(sign: Sighting, at: float, went_on: Callable[[Sighting], bool]) -> bool:
    """Whether this truly failed before the stop: it is no echo of another failure, and nothing went on."""
    if sign.role is LineRole.CASCADE or (sign.vague and sign.role is not LineRole.INITIATOR):
        return False
    if sign.index == BEFORE_ALL_LINES:
        # The container writes nothing of what came after it was asked to end (slipway/boot.py).
        return not sign.vague
    return sign.clock == "stream" and sign.time is not None and sign.time < at and not went_on(sign)


def _is_explained(
    sign: Sighting, stops: Sequence[Sighting], by_itself: Sequence[Sighting], ending: Ending
) -> bool:
    told = ending.end in (End.FAILED, End.RUNNING)
    if told and (sign.role is LineRole.INITIATOR or _ended_by_itself(sign)):
        # One host that fails has the others stopped; and a job can go on after its spot hosts were taken.
        return False
    if sign.index == BEFORE_ALL_LINES:
        return bool(stops) and sign.role is LineRole.CASCADE and sign.vague and not _ended_by_itself(sign)
    return any(_follows(sign, stop) or _announces(sign, stop, by_itself) for stop in stops)


def _announces(sign: Sighting, stop: Sighting, by_itself: Sequence[Sighting]) -> bool:
    """Whether a sign says only that something ended, and the stop a few lines below of what; not where
    between them a process ended by itself, because of which the starter stops the rest."""
    says_little = sign.role is LineRole.CASCADE and sign.vague and not _ended_by_itself(sign)
    if not says_little or sign.stream != stop.stream or not 0 < stop.index - sign.index <= _ANNOUNCED:
        return False
    return not any(each.stream == stop.stream and sign.index < each.index < stop.index for each in by_itself)


def _ended_by_itself(sign: Sighting) -> bool:
    """Whether a process is said to have ended with an exit code that no signal to end gives, or, by SLURM, to
    have failed or crashed: the tasks that srun ends itself get SIGTERM and SIGKILL."""
    codes = {sign.captured[name] for name in ("exit", "exitcode") if name in sign.captured}
    crashed = sign.mode is training_script.NATIVE_CRASH and not {"task", "tasks"}.isdisjoint(sign.captured)
    return bool(codes - _BY_SIGNAL) or crashed or "failed_task" in sign.captured


def _follows(sign: Sighting, stop: Sighting) -> bool:
    alike = sign.clock is not None and sign.clock == stop.clock
    later = sign.time - stop.time if alike and sign.time is not None and stop.time is not None else None
    if not sign.host or not stop.host or sign.host == stop.host:
        return 0 <= sign.index - stop.index <= _COMES_DOWN and (later or 0.0) <= _COMES_DOWN_SECONDS
    # Where hosts print side by side, an echo of another one's end comes later. A cause of its own may too.
    return sign.role is not LineRole.INITIATOR and later is not None and 0 <= later <= _COMES_DOWN_SECONDS


@finds(Stage.LOG, interruption.STOPPED)
def stopped(signs: Iterable[Sighting], ending: Ending) -> RootCause | None:
    """What ended the job from outside, by its place's word, else by its lines; None where nothing did."""
    if ending.end is End.STOPPED or ending.stop is not None:
        return RootCause(_of_place(ending), None, None, "", ())
    if ending.end in (End.COMPLETED, End.RUNNING):
        return None
    stops = [sign for sign in signs if sign.mode is interruption.STOPPED]
    if not stops:
        return None
    first = min(stops, key=lambda sign: (sign.index, sign.host or "", sign.rank or 0))
    what = f"ended from outside: {_named_signal(first)}, and nothing had failed before"
    finding = interruption.STOPPED.finding(
        Stage.LOG,
        shown(what),
        remedy="Nothing has to be repaired. Go on from the last checkpoint; who sent the signal stands in no "
        "log: look for a scheduler's time limit, a closed terminal (SIGHUP), or another host that failed.",
        subject=first.host,
    )
    return RootCause(finding, None, first.host, shown(first.text), (shown(first.text),))


def _named_signal(sign: Sighting) -> str:
    """The sign's words, with the name of the signal where it has its number."""
    number = sign.captured.get("signal", "")
    if number.isdecimal():
        with suppress(ValueError):
            name = signal.Signals(int(number)).name
            return sign.what.replace(f"signal {number}", f"signal {name}")
    return sign.what


def _of_place(ending: Ending) -> Finding:
    stop = ending.stop or Stop(StopCause.ASKED)
    when = f" at {moment_in_words(stop.at)}" if stop.at is not None else ""
    limit = f" ({exact_duration(round(stop.limit))})" if stop.limit else ""
    by = f" by {shown(stop.who)}" if stop.who else ""
    whole = {
        StopCause.ASKED: f"stopped{by or ' from outside'}{when}",
        StopCause.MAX_RUNTIME: f"stopped by limits.max_runtime{limit}{when}",
        StopCause.MAX_WAIT: f"stopped by limits.max_wait{limit}{when}, with spot hosts taken from it",
        StopCause.SPOT: f"its spot hosts were taken{when}, and it was not started again",
        StopCause.LAUNCHER: f"its launcher{f' ({shown(stop.who)})' if stop.who else ''} was killed{when}, "
        "and the run ended with it",
        StopCause.QUEUE: f"taken out of the queue{when}{f': {shown(stop.who)}' if stop.who else ''}",
    }
    return interruption.STOPPED.finding(Stage.LOG, whole[stop.cause], remedy=_remedy(stop, ending))


def _remedy(stop: Stop, ending: Ending) -> str | None:
    """What to do, with commands to copy where the job can be resumed; else what the catalogue says."""
    job = ending.job
    if job is None:
        return None
    if not ending.checkpoints and stop.cause is not StopCause.QUEUE:
        return _from_the_beginning(stop.cause)
    again = f"launch resume {job}"
    with_more = f"--set checkpoint.resume_from={job}"
    used = f", of which all {exact_duration(round(stop.limit))} are used up" if stop.limit else ""
    match stop.cause:
        case StopCause.MAX_RUNTIME:
            return (
                f"Raise limits.max_runtime{used}, and launch the job file again with {with_more} ; `{again}` "
                "goes on from the last checkpoint for as long once more."
            )
        case StopCause.MAX_WAIT:
            return (
                f"Raise limits.max_wait or leave out `capacity: spot`, and launch the job file again with "
                f"{with_more} ; `{again}` goes on from the last checkpoint and waits for as long once more."
            )
        case StopCause.QUEUE:
            return "Nothing had started. Launch the job file again when it may run."
        case StopCause.LAUNCHER:
            return (
                f"Go on from the last checkpoint: {again} . A local run ends with its launcher: keep that "
                "alive with tmux or nohup."
            )
    return f"Nothing has to be repaired. Go on from the last checkpoint: {again} , or {with_more}"


def _from_the_beginning(cause: StopCause) -> str:
    """What to do about a job that left no checkpoint to go on from."""
    first = {
        StopCause.MAX_RUNTIME: "Raise limits.max_runtime, and launch",
        StopCause.MAX_WAIT: "Raise limits.max_wait or leave out `capacity: spot`, and launch",
        StopCause.LAUNCHER: "A local run ends with its launcher: keep that alive with tmux or nohup, and "
        "launch",
    }.get(cause, "Nothing has to be repaired. Launch")
    return (
        f"{first} the job file again. It left no checkpoint, so it starts from the beginning: what is "
        "written to SM_CHECKPOINT_DIR is kept, with `checkpoint` in the job file."
    )
