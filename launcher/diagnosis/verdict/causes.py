"""Which of the signs is the root cause, what followed from it, and what a stop from outside explains."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from launcher.diagnosis.logs.lines import shown
from launcher.diagnosis.match.rows import ROLES
from launcher.diagnosis.model import Diagnosis, End, Ending, RootCause, Stop, StopCause, Verdict
from launcher.diagnosis.remedies import NOTHING_ASKED, AskedJob, remedy_with_numbers
from launcher.diagnosis.signatures.signature import SHORTLY, LineRole
from launcher.diagnosis.signs.ranks import RankState, with_the_silent
from launcher.diagnosis.signs.readings import Reading
from launcher.diagnosis.signs.sightings import BEFORE_ALL_LINES, Sighting, replace_by_log
from launcher.diagnosis.verdict.findings import (
    describe_root_cause,
    drop_innocent_rank,
    find_runner_up,
    group_findings,
    judge_sureness,
    name_rank,
    warn_survived,
)
from launcher.diagnosis.verdict.incidents import Clocks, find_first, last_incident, mark_consequences
from launcher.diagnosis.verdict.stream_ends import (
    describe_hang,
    describe_silence_before_limit,
    describe_standstill,
    describe_unknown,
    judge_ends,
    rare_lines,
)
from launcher.failure_modes import distribution, hardware, interruption, training_script
from launcher.failure_modes.model import Finding, Retry, Stage
from launcher.failure_modes.registry import finds
from launcher.text.values import exact_duration, moment_in_words

_ENDS_BY_SIGNAL = (training_script.NATIVE_CRASH, hardware.HOST_OUT_OF_MEMORY)


def attribute_failure(
    reading: Reading,
    reason: Sequence[Sighting],
    ending: Ending | None = None,
    late: Mapping[str, int] | None = None,
    job: AskedJob = NOTHING_ASKED,
) -> Diagnosis:
    """The diagnosis from what was read of the logs, of the service's reason, and of how the job ended.

    Of a job that completed nothing is a root cause but that the ranks never met, which no exit code shows.
    Only the last incident counts (`incidents`), without what followed from another rank's failure
    (`mark_consequences`). In it the weightier role counts, whatever came first: initiator, symptom, cascade.
    Within a role what is definite beats what is vague, then the earlier sign counts, as far as that is known
    (`Clocks`). What an end from outside explains is a consequence; `late` are each host's lines after it.
    What was survived, and restarts of the ranks, are told last. The remedy has the numbers of the lines and
    of the `job`, where they are known.
    """
    ending = ending or Ending()
    ranks = with_the_silent(reading.ranks, reading.world_size, whole=reading.is_whole)
    healthy = ending.end is End.COMPLETED or (reading.success and not reading.failure and not reason)
    told = (*replace_by_log(reason, reading.sightings), *reading.sightings)
    signs = [] if healthy else [sign for sign in told if sign.role.may_be_root]
    # Lines that say it end no job: they are the cause where nothing else is, no less where it ended well.
    apart = [sign for sign in reading.sightings if _says_that_nobody_met(sign)]
    signs = [sign for sign in signs if sign not in apart]
    incident = last_incident(reading, signs, failed=ending.end is End.FAILED or bool(reason))
    signs = mark_consequences(incident.signs)
    notes = [sign for sign in reading.sightings if sign.role is LineRole.ADVISORY] + [*incident.noise]
    if ending.end is End.STOPPED:
        notes += apart
    else:
        signs = signs or apart
    history = [finding for sign in reading.restarts for finding in group_findings([sign], warn=True)]
    history = [*warn_survived(incident.history), *history]
    stop = stop_as_cause(signs, ending)
    weighty = _drop_vague_ends(
        _heaviest(drop_explained_by_stop(signs, ending, lengths=reading.lengths, late=late or {}))
    )
    if not weighty and stop is not None:
        earlier, later = split_by_stop(signs, ending)
        followed = tuple(group_findings(later))
        findings = (stop.finding, *followed, *group_findings([*earlier, *notes], warn=True), *history)
        still = describe_silence_before_limit(reading.closing, ending.stop, ranks, whole=reading.is_whole)
        if still is not None:
            unusual = rare_lines(reading.closing)
            return _diagnose_unknown(findings, ranks, still, unusual)
        return Diagnosis(Verdict.STOPPED, stop, followed, findings, interruption.STOPPED.retry, ranks=ranks)
    if not weighty:
        explained_by = [*notes, *reading.restarts, *(each.sign for each in incident.history)]
        findings = (*group_findings(notes, warn=True), *history)
        return _diagnose_without_cause(reading, ending, findings, ranks, explained_by, well=healthy)
    root, rivals = find_first(weighty, Clocks(reading.courses, signs))
    notes = [sign for sign in notes if sign.mode is not root.mode]
    others = [sign for sign in signs if sign is not root]
    explained, context = _apply_context(root, signs, reading)
    explained = name_rank(explained, others, reading)
    explained = _drop_rank(explained, rivals) if explained.about is None else explained
    explained = drop_innocent_rank(explained, signs, ranks)
    if (remedy := remedy_with_numbers(explained, others, job)) is not None:
        explained = replace(explained, remedy=remedy)
    cause = describe_root_cause(explained, others, context)
    cause = replace(cause, sureness=judge_sureness(explained, rivals))
    consequences = tuple(group_findings(sign for sign in others if not _is_root_again(sign, root)))
    if ending.stop is not None and stop is not None:
        consequences = (*(each for each in consequences if each.code != stop.finding.code), stop.finding)
    findings = (cause.finding, *consequences, *group_findings(notes, warn=True), *history)
    return Diagnosis(
        Verdict.FAILED,
        cause,
        consequences,
        findings,
        explained.retry or explained.mode.retry,
        ranks=ranks,
        runner_up=find_runner_up(explained, rivals, others),
    )


def _diagnose_without_cause(
    reading: Reading,
    ending: Ending,
    findings: tuple[Finding, ...],
    ranks: tuple[RankState, ...],
    told: Sequence[Sighting],
    *,
    well: bool,
) -> Diagnosis:
    """What is said where nothing is a root cause: that all is well only where its place or its lines show
    it. `told` are the signs that the findings speak of."""
    closing = reading.closing
    seen = judge_ends(closing, told, reading.ended_well)
    still = describe_standstill(
        closing, reading.unfinished, reading.ended_well, ranks, whole=reading.is_whole
    )
    by_lines = ending.end is End.NOT_TOLD and not reading.unread and seen.healthy and still is None
    if ending.end is End.RUNNING:
        # What a log leaves open, such as how it ends, the place knows; not that the job goes on.
        still = describe_hang(closing, ending.trains_at, reading.ended_well, ranks, whole=reading.is_whole)
    runs = ending.end is End.RUNNING and still is None
    if well or ending.end is End.COMPLETED or runs or by_lines:
        return Diagnosis(Verdict.HEALTHY, None, (), findings, Retry.NEVER, ranks=ranks)
    summary = describe_unknown(closing, ranks, reading.unread, still, whole=reading.is_whole)
    return _diagnose_unknown(findings, ranks, summary, seen.unusual or rare_lines(closing))


def _diagnose_unknown(
    findings: tuple[Finding, ...], ranks: tuple[RankState, ...], summary: str, unusual: tuple[str, ...]
) -> Diagnosis:
    return Diagnosis(
        Verdict.UNKNOWN, None, (), findings, Retry.NEVER, ranks=ranks, summary=summary, unusual=unusual
    )


def _says_that_nobody_met(sign: Sighting) -> bool:
    return sign.mode is distribution.RANKS_NEVER_MET and sign.role.may_be_root


def _is_root_again(sign: Sighting, root: Sighting) -> bool:
    """Whether a sign is the root cause again, in other words of the same rank."""
    return (sign.code, sign.rank, sign.host) == (root.code, root.rank, root.host)


def _heaviest(signs: Sequence[Sighting]) -> list[Sighting]:
    """The signs of the greatest weight: the lower role, and what is definite."""
    weight = min((_weight(sign) for sign in signs), default=None)
    return [sign for sign in signs if _weight(sign) == weight]


def _drop_vague_ends(weighty: Sequence[Sighting]) -> Sequence[Sighting]:
    """The signs without those that tell of the end of a process and not how, where another one tells its
    signal: starters say both, in any order."""
    if not any(sign.mode in _ENDS_BY_SIGNAL for sign in weighty):
        return weighty
    return [sign for sign in weighty if sign.mode is not training_script.SCRIPT_RAISED or not sign.vague]


def _weight(sign: Sighting) -> tuple[int, bool]:
    return ROLES[sign.role], sign.vague


def _drop_rank(root: Sighting, rivals: Sequence[Sighting]) -> Sighting:
    """The root cause, of nobody where others may have failed before and nothing tells who did."""
    candidates = {(sign.rank, sign.host) for sign in (root, *rivals)}
    alike = {(sign.code, sign.what) for sign in (root, *rivals)}
    if len(candidates) < 2 or (len(alike) == 1 and {rank for rank, _ in candidates} == {None}):
        return root  # What fails in the same way on every host need not be looked for on another one.
    named = sorted({_suspect_in_words(sign) for sign in (root, *rivals)})
    listed = ", ".join(named[:6]) + (f" and {len(named) - 6} more" if len(named) > 6 else "")
    what = f"{root.what}; no clock that they share tells who of these failed first: {listed}"
    hosts = {host for _, host in candidates}
    return replace(root, what=what, rank=None, host=root.host if len(hosts) == 1 else None, about="")


def _suspect_in_words(sign: Sighting) -> str:
    where = f" on {sign.host}" if sign.host else ""
    return f"rank {sign.rank}{where} ({sign.code})" if sign.rank is not None else f"{sign.host} ({sign.code})"


def _apply_context(
    root: Sighting, signs: Iterable[Sighting], reading: Reading
) -> tuple[Sighting, str | None]:
    """The root cause that a line shortly before such a symptom reveals, and that line."""
    if root.role is LineRole.INITIATOR:
        return root, None
    alike = [sign for sign in signs if sign.code == root.code and sign.index != BEFORE_ALL_LINES]
    for context, host, index, text in sorted(reading.contexts, key=lambda entry: (entry[1], -entry[2])):
        of_host = [sign for sign in alike if (sign.host or "") in (host, root.host or "")]
        if root.mode in context.of and any(0 < sign.index - index <= SHORTLY for sign in of_host):
            return replace(root, mode=context.mode), text
    return root, None


# A job that was ended from outside: what failed before all the same, what only followed, and how to say it.
#
# When a job is stopped its ranks die of a signal, and torchrun, the process groups and the script report
# that in as many words as a real failure. So what comes after a stop is a consequence; what came before it
# and is definite remains the failure.


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


def drop_explained_by_stop(
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
    return any(_follows_stop(sign, stop) or _announces(sign, stop, by_itself) for stop in stops)


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


def _follows_stop(sign: Sighting, stop: Sighting) -> bool:
    alike = sign.clock is not None and sign.clock == stop.clock
    later = sign.time - stop.time if alike and sign.time is not None and stop.time is not None else None
    if not sign.host or not stop.host or sign.host == stop.host:
        return 0 <= sign.index - stop.index <= _COMES_DOWN and (later or 0.0) <= _COMES_DOWN_SECONDS
    # Where hosts print side by side, an echo of another one's end comes later. A cause of its own may too.
    return sign.role is not LineRole.INITIATOR and later is not None and 0 <= later <= _COMES_DOWN_SECONDS


@finds(Stage.LOG, interruption.STOPPED)
def stop_as_cause(signs: Iterable[Sighting], ending: Ending) -> RootCause | None:
    """What ended the job from outside, by its place's word, else by its lines; None where nothing did."""
    if ending.end is End.STOPPED or ending.stop is not None:
        return RootCause(_cause_by_place(ending), None, None, "", ())
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


def _cause_by_place(ending: Ending) -> Finding:
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
