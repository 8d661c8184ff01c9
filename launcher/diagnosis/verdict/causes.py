"""Which of the signs is the root cause, what followed from it, and what a stop from outside explains."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from launcher.diagnosis.logs.lines import shown
from launcher.diagnosis.match.rows import ROLES
from launcher.diagnosis.model import (
    Confidence,
    Diagnosis,
    End,
    Ending,
    RankState,
    RootCause,
    Stop,
    StopCause,
    Sureness,
    Verdict,
)
from launcher.diagnosis.remedies import NOTHING_ASKED, AskedJob, remedy_with_numbers
from launcher.diagnosis.signatures import SHORTLY, LineRole
from launcher.diagnosis.signs.exceptions import IN_A_WAIT
from launcher.diagnosis.signs.ranks import add_silent_ranks
from launcher.diagnosis.signs.readings import Reading, Survived
from launcher.diagnosis.signs.sightings import BEFORE_ALL_LINES, Sighting, replace_by_log
from launcher.diagnosis.verdict.efa_use import blame_sockets, judge_efa_notes, suspect_missing_interfaces
from launcher.diagnosis.verdict.findings import (
    describe_root_cause,
    drop_innocent_rank,
    find_runner_up,
    group_findings,
    judge_sureness,
    name_rank,
    tells_no_error,
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
    sign_of_stalled_start,
    signs_of_figures,
)
from launcher.failure_modes import (
    checkpoints,
    data,
    disk,
    distribution,
    hardware,
    interruption,
    losses,
    nccl,
    network,
    training_script,
)
from launcher.failure_modes.model import Finding, Retry, Stage
from launcher.failure_modes.registry import finds
from launcher.text.values import exact_duration, list_some, moment_in_words

_ENDS_BY_SIGNAL = (training_script.NATIVE_CRASH, hardware.HOST_OUT_OF_MEMORY)


@dataclass(slots=True)
class _Case:
    """A job as it is judged: what is known of it, its signs that may be the root cause, and what stands
    beside them."""

    reading: Reading
    ending: Ending
    job: AskedJob
    ranks: tuple[RankState, ...]
    is_healthy: bool
    """Whether its place, or its lines alone, say that it ended well."""
    signs: list[Sighting]
    notes: list[Sighting]
    """Signs that end no job: what is advised, noise, and what a stop has made meaningless."""
    survived: list[Survived]
    stop: RootCause | None = None
    """What ended it from outside, if anything did."""

    def warn_earlier(self) -> Iterator[Finding]:
        """What was survived, then the restarts of the ranks."""
        yield from warn_survived(self.survived)
        for sign in self.reading.restarts:
            yield from group_findings([sign], warn=True)


def attribute_failure(
    reading: Reading,
    reason: Sequence[Sighting],
    ending: Ending | None = None,
    late: Mapping[str, int] | None = None,
    job: AskedJob = NOTHING_ASKED,
) -> Diagnosis:
    """The diagnosis from what was read of the logs, of the service's reason, and of how the job ended.

    Of a job that completed nothing is a root cause but that the ranks never met, or that the losses are no
    numbers to the end, which no exit code shows.
    Only the last incident counts (`incidents`), without what followed from another rank's failure
    (`mark_consequences`). In it the weightier role counts, whatever came first: initiator, symptom, cascade.
    Within a role what is definite beats what is vague, then the earlier sign counts, as far as that is known
    (`Clocks`). What an end from outside explains is a consequence; `late` are each host's lines after it.
    What was survived, and restarts of the ranks, come last. The remedy has the numbers of the lines and of
    the `job`, where they are known.
    """
    case = _open_case(reading, reason, ending or Ending(), job)
    unexplained = drop_explained_by_stop(case.signs, case.ending, lengths=reading.lengths, late=late or {})
    weighty = _drop_vague_ends(_heaviest(unexplained))
    if weighty:
        return _diagnose_failure(case, weighty)
    if case.stop is not None:
        return _diagnose_stop(case, case.stop)
    return _diagnose_without_cause(case)


def _open_case(reading: Reading, reason: Sequence[Sighting], ending: Ending, job: AskedJob) -> _Case:
    """The signs of the last incident, those that followed from others marked, and all that is beside them."""
    healthy = ending.end is End.COMPLETED or (reading.success and not reading.failure and not reason)
    every = (*replace_by_log(reason, reading.sightings), *reading.sightings)
    # That nobody met ends no job: it is the cause only where nothing else is, no less where all ended well.
    nobody_met = [sign for sign in reading.sightings if _says_that_nobody_met(sign)]
    roots = [sign for sign in every if sign.role.may_be_root and sign not in nobody_met]
    if healthy:
        roots = [
            sign for sign in roots if sign.mode is losses.LOSS_NOT_FINITE and sign.stream in reading.diverged
        ]
    incident = last_incident(reading, roots, failed=ending.end is End.FAILED or bool(reason))
    signs = mark_consequences(incident.signs, reading.courses)
    advice = [sign for sign in reading.sightings if sign.role is LineRole.ADVISORY]
    notes = [*judge_efa_notes(advice, reading, job), *incident.noise]
    notes += signs_of_figures(reading.closing)
    if not healthy and (stalled := sign_of_stalled_start(reading.closing)) is not None:
        signs = [
            stalled,
            *(sign for sign in signs if sign.mode is not nccl.COLLECTIVE_TIMED_OUT or not sign.vague),
        ]
    if _only_judged_what_was_lost(signs):
        signs = [_leading_if_lost(sign, reading) for sign in signs]
    if ending.end is End.STOPPED:
        notes += nobody_met
    elif nobody_met and _only_got_in_one_anothers_way(signs):
        signs = [*(replace(sign, role=LineRole.INITIATOR, vague=False) for sign in nobody_met), *signs]
    else:
        signs = signs or nobody_met
    ranks = add_silent_ranks(reading.ranks, reading.world_size, whole=reading.has_all_lines_of_ranks)
    stop = stop_as_cause(signs, ending)
    return _Case(reading, ending, job, ranks, healthy, signs, notes, [*incident.history], stop)


def _diagnose_failure(case: _Case, weighty: Sequence[Sighting]) -> Diagnosis:
    """The root cause is the first of the weightiest signs; the others followed from it."""
    root, rivals = find_first(weighty, Clocks(case.reading.courses, case.signs))
    others = [sign for sign in case.signs if sign is not root]
    named, context = _name_root(case, root, rivals, others)
    cause = describe_root_cause(named, others, context)
    cause = replace(cause, sureness=judge_sureness(named, rivals))
    consequences = tuple(group_findings(sign for sign in others if not _is_root_again(sign, root)))
    if case.ending.stop is not None and (stop := case.stop) is not None:
        consequences = (*(each for each in consequences if each.code != stop.finding.code), stop.finding)
    told = (root.mode, named.mode)
    notes = group_findings((sign for sign in case.notes if sign.mode not in told), warn=True)
    return Diagnosis(
        Verdict.FAILED,
        cause,
        consequences,
        (cause.finding, *consequences, *notes, *case.warn_earlier()),
        named.retry or named.mode.retry,
        ranks=case.ranks,
        runner_up=find_runner_up(named, rivals, others) or suspect_missing_interfaces(cause, case.notes),
        retry_known=not tells_no_error(named),
    )


def _name_root(
    case: _Case, root: Sighting, rivals: Sequence[Sighting], others: Sequence[Sighting]
) -> tuple[Sighting, str | None]:
    """The root cause as it is shown, with whom it is about and what to do, and the line that explains it."""
    named, context = _apply_context(root, case.signs, case.reading)
    named = name_rank(named, others, case.reading)
    named = blame_uneven_loops(named, case.reading)
    named = _blame_skipped_batch(named, [*case.notes, *(each.sign for each in case.survived)])
    named = _blame_taken_ranks(named, case.reading)
    named = blame_sockets(named, [*case.signs, *case.notes], case.reading, case.job)
    named = _drop_rank(named, rivals) if named.about is None else named
    named = drop_innocent_rank(named, case.signs, case.ranks)
    remedy = remedy_with_numbers(named, others, case.job)
    return named if remedy is None else replace(named, remedy=remedy), context


def _diagnose_stop(case: _Case, stop: RootCause) -> Diagnosis:
    """The job was ended from outside before anything failed; unknown where it had hung until its limit.

    Where the watchdog's last word was that ranks wait for others, that leads, though it may have passed.
    """
    if (standing := _standing_verdict(case)) is not None:
        return _diagnose_standing(case, standing, stop)
    closing, ranks = case.reading.closing, case.ranks
    earlier, later = split_by_stop(case.signs, case.ending)
    followed = tuple(group_findings(later))
    notes = group_findings([*earlier, *case.notes], warn=True)
    findings = (stop.finding, *followed, *notes, *case.warn_earlier())
    whole = case.reading.has_all_lines_of_ranks
    still = describe_silence_before_limit(closing, case.ending.stop, ranks, whole=whole)
    if still is not None:
        return _diagnose_unknown(findings, ranks, still, rare_lines(closing))
    return Diagnosis(Verdict.STOPPED, stop, followed, findings, interruption.STOPPED.retry, ranks=ranks)


def _standing_verdict(case: _Case) -> Sighting | None:
    """The watchdog's last word that ranks wait for others, after which its stream has no step. It comes after
    the stop where that made it look, which it does before the ranks are asked to end."""
    said = [
        sign
        for sign in (*case.notes, *case.signs)
        if sign.mode in _STALLS and _OF_WATCHDOG.match(sign.text) is not None
    ]
    last = max(said, key=lambda sign: sign.index, default=None)
    if last is None:
        return None
    lines = case.reading.closing.streams.get(last.stream, [])
    went_on = any(each.progresses and each.index > last.index for each in lines)
    return None if went_on else last


def _diagnose_standing(case: _Case, standing: Sighting, stop: RootCause) -> Diagnosis:
    """A job that was stopped while its watchdog said that it stands still."""
    others = [sign for sign in case.signs if sign is not standing]
    if standing.role is LineRole.ADVISORY:
        cause = describe_root_cause(replace(standing, role=LineRole.SYMPTOM), others, None)
        why = "the watchdog said it last before the stop; waiting on might have shown that it passes"
        cause = replace(cause, sureness=Sureness(Confidence.LIKELY, why))
    else:
        cause = describe_root_cause(standing, others, None)
        why = "the watchdog saw at the stop what every rank waited for, and that it could not pass"
        cause = replace(cause, sureness=Sureness(Confidence.SURE, why))
    notes = group_findings((sign for sign in case.notes if sign.mode is not standing.mode), warn=True)
    findings = (cause.finding, stop.finding, *notes, *case.warn_earlier())
    retry = standing.retry or standing.mode.retry
    return Diagnosis(Verdict.FAILED, cause, (stop.finding,), findings, retry, ranks=case.ranks)


def _diagnose_without_cause(case: _Case) -> Diagnosis:
    """Nothing is a root cause: well where the place or the lines show it, else of unknown cause."""
    reading, ranks, end = case.reading, case.ranks, case.ending.end
    closing, ended_well, whole = reading.closing, reading.ended_well, reading.has_all_lines_of_ranks
    findings = (*group_findings(case.notes, warn=True), *case.warn_earlier())
    explained = [*case.notes, *reading.restarts, *(each.sign for each in case.survived)]
    seen = judge_ends(closing, explained, ended_well)
    still = describe_standstill(closing, reading.unfinished, ended_well, ranks, whole=whole)
    by_lines = end is End.NOT_TOLD and not reading.unread and seen.healthy and still is None
    if end is End.RUNNING:
        # What a log leaves open, such as how it ends, the place knows; not that the job goes on.
        still = describe_hang(closing, case.ending.trains_at, ended_well, ranks, whole=whole)
    runs = end is End.RUNNING and still is None
    if case.is_healthy or runs or by_lines:
        return Diagnosis(Verdict.HEALTHY, None, (), findings, Retry.NEVER, ranks=ranks)
    summary = describe_unknown(closing, ranks, reading.unread, still, whole=whole)
    return _diagnose_unknown(findings, ranks, summary, seen.unusual or rare_lines(closing))


def _diagnose_unknown(
    findings: tuple[Finding, ...], ranks: tuple[RankState, ...], summary: str, unusual: tuple[str, ...]
) -> Diagnosis:
    return Diagnosis(
        Verdict.UNKNOWN, None, (), findings, Retry.NEVER, ranks=ranks, summary=summary, unusual=unusual
    )


_STALLS = (
    nccl.COLLECTIVE_TIMED_OUT,
    data.UNEVEN_BATCHES,
    checkpoints.STATE_DICT_NOT_ON_EVERY_RANK,
)
_OF_WATCHDOG = re.compile(
    r"slipway: (?:warning: )?[A-Z]{3,5}\d{3} ranks? \d[\d, -]{0,200} on [\w.-]{1,63}[ ,]"
)
"""How the watchdog's lines begin (slipway/watchdog/judge_stall.py); what the boot says of a rank's own end
has a colon there."""

_WAITED_IN_VAIN = (nccl.COLLECTIVE_TIMED_OUT, checkpoints.STATE_DICT_NOT_ON_EVERY_RANK)


@finds(Stage.LOG, data.UNEVEN_BATCHES)
def blame_uneven_loops(root: Sighting, reading: Reading) -> Sighting:
    """The root cause where ranks waited in vain, and have different numbers of steps in their loops: wherever
    they wait then, be it in a step, a save or a barrier."""
    uneven = reading.uneven
    if uneven is None or root.mode not in _WAITED_IN_VAIN:
        return root
    what = f"ranks have different numbers of steps in their loop: {uneven.counts}; {root.what}"
    alone = uneven.fewest[0] if len(uneven.fewest) == 1 else None
    host = next((row.host for row in reading.ranks if row.rank == alone and row.host), None)
    return replace(
        root,
        mode=data.UNEVEN_BATCHES,
        what=what,
        rank=alone,
        host=host,
        about=None if alone is not None else "",
        remedy=None,
        retry=None,
    )


@finds(Stage.LOG, hardware.CUDA_OUT_OF_MEMORY)
def _blame_skipped_batch(root: Sighting, beside: Sequence[Sighting]) -> Sighting:
    """The root cause where a rank fell out of step, and it alone had gone on with a full device: it left out
    a batch in which the others waited for it."""
    full = [sign for sign in beside if sign.mode is hardware.CUDA_OUT_OF_MEMORY]
    if root.mode not in _STALLS or root.rank is None or {sign.rank for sign in full} != {root.rank}:
        return root
    what = f"{full[-1].what}, and it went on without that batch, which the others still share; {root.what}"
    return replace(root, mode=full[-1].mode, what=what, remedy=None, retry=None)


_MET_IN_VAIN = (
    nccl.RENDEZVOUS_TIMED_OUT,
    nccl.INITIALISATION_STALLED,
    nccl.COLLECTIVE_TIMED_OUT,
    nccl.PORT_IN_USE,
)


@finds(Stage.LOG, distribution.LOCAL_RANK_AS_RANK)
def _blame_taken_ranks(root: Sighting, reading: Reading) -> Sighting:
    """The root cause where ranks did not come together, and several hosts say that they have the same."""
    if reading.taken_twice is None or root.mode not in _MET_IN_VAIN:
        return root
    what = f"{reading.taken_twice}; {root.what}"
    mode = distribution.LOCAL_RANK_AS_RANK
    return replace(root, mode=mode, what=what, rank=None, host=None, about="", remedy=None, retry=None)


@finds(Stage.LOG, network.EFA_NOT_USED)
def _says_that_nobody_met(sign: Sighting) -> bool:
    return sign.mode is distribution.RANKS_NEVER_MET and sign.role.may_be_root


_OF_ONE_FILE = (
    checkpoints.NOT_WHAT_WAS_SAVED,
    data.EVERY_RANK_DOWNLOADS,
    disk.DISK_FULL,
    disk.SHARED_CACHE,
    nccl.PORT_IN_USE,
)


_WRITTEN_BY_ANOTHER = re.compile(
    r"^(?:\w+\.)*(?:FileExistsError|(?:FileNotFoundError|OSError|RuntimeError)\b.{0,300}?"
    r"(?:No such file|not empty|[Ee]xists).{0,300}?"
    r"(?:checkpoint|ckpt|\.pth?\b|\.tmp\b|\.bin\b|\.safetensors\b|\.lock\b|\blogs?\b))"
)
"""What is raised of a file that a training writes, where another one has moved, deleted or made it."""


def _only_got_in_one_anothers_way(signs: Iterable[Sighting]) -> bool:
    """Whether something failed, and nothing but what independent programs do to one another's files and
    ports."""
    signs = list(signs)
    failed = [sign for sign in signs if sign.role is LineRole.INITIATOR] or [
        sign for sign in signs if _WRITTEN_BY_ANOTHER.search(sign.what)
    ]
    return bool(failed) and all(
        (sign.mode in _OF_ONE_FILE and (sign.vague or sign.mode is not disk.DISK_FULL))
        or (sign.mode is training_script.SCRIPT_RAISED and _WRITTEN_BY_ANOTHER.search(sign.what))
        for sign in failed
    )


_JUDGES = re.compile(r": (?:assert|raise)\b")
_OF_NO_NUMBERS = re.compile(r"\b(?i:nan|infinity|non-finite|not finite)\b")


def _only_judged_what_was_lost(signs: Iterable[Sighting]) -> bool:
    """Whether nothing failed but checks, the script's own or of numbers, with which programs end that have
    trained in vain."""
    failed = [sign for sign in signs if sign.role is LineRole.INITIATOR]
    return bool(failed) and all(
        sign.mode is training_script.SCRIPT_RAISED
        and ((len(sign.details) == 1 and _JUDGES.search(sign.details[0])) or _OF_NO_NUMBERS.search(sign.what))
        for sign in failed
    )


def _leading_if_lost(sign: Sighting, reading: Reading) -> Sighting:
    """The sign that losses are no numbers, as the cause where they are none to the end of its stream."""
    if sign.mode is not losses.LOSS_NOT_FINITE or sign.stream not in reading.diverged:
        return sign
    return replace(sign, role=LineRole.INITIATOR, vague=False)


def _is_root_again(sign: Sighting, root: Sighting) -> bool:
    """Whether a sign is the root cause again, in other words of the same rank."""
    return (sign.code, sign.rank, sign.host) == (root.code, root.rank, root.host)


def _heaviest(signs: Sequence[Sighting]) -> list[Sighting]:
    """The signs of the greatest weight: the lower role, and what is definite."""
    weight = min((_weight(sign) for sign in signs), default=None)
    return [sign for sign in signs if _weight(sign) == weight]


def _drop_vague_ends(weighty: Sequence[Sighting]) -> Sequence[Sighting]:
    """The signs without those that say that a process ended and not how, where another one says by which
    signal: starters say both, in any order."""
    if not any(sign.mode in _ENDS_BY_SIGNAL for sign in weighty):
        return weighty
    return [sign for sign in weighty if sign.mode is not training_script.SCRIPT_RAISED or not sign.vague]


def _weight(sign: Sighting) -> tuple[int, bool]:
    return ROLES[sign.role], sign.vague


def _drop_rank(root: Sighting, rivals: Sequence[Sighting]) -> Sighting:
    """The root cause, of no rank where others may have failed before it."""
    candidates = {(sign.rank, sign.host) for sign in (root, *rivals)}
    alike = {(sign.code, sign.what) for sign in (root, *rivals)}
    if len(candidates) < 2 or (len(alike) == 1 and {rank for rank, _ in candidates} == {None}):
        return root  # What fails in the same way on every host need not be looked for on another one.
    named = sorted({_suspect_in_words(sign) for sign in (root, *rivals)})
    what = f"{root.what}; no clock that they share tells who of these failed first: {list_some(named, 6)}"
    hosts = {host for _, host in candidates}
    return replace(root, what=what, rank=None, host=root.host if len(hosts) == 1 else None, about="")


def _suspect_in_words(sign: Sighting) -> str:
    where = f" on {sign.host}" if sign.host else ""
    return f"rank {sign.rank}{where} ({sign.code})" if sign.rank is not None else f"{sign.host} ({sign.code})"


def _apply_context(
    root: Sighting, signs: Iterable[Sighting], reading: Reading
) -> tuple[Sighting, str | None]:
    """The root cause that a line shortly before such a symptom reveals, and that line."""
    differs = root.mode is nccl.COLLECTIVE_TIMED_OUT and not root.text.startswith("slipway: ")
    if root.role is LineRole.INITIATOR and not differs:
        return root, None
    alike = [sign for sign in signs if sign.code == root.code and sign.index != BEFORE_ALL_LINES]
    for context, host, index, text in sorted(reading.contexts, key=lambda entry: (entry[1], -entry[2])):
        of_host = [sign for sign in alike if (sign.host or "") in (host, root.host or "")]
        if context.mode is checkpoints.STATE_DICT_NOT_ON_EVERY_RANK:
            of_host = [sign for sign in of_host if not _saved_between(reading, index, sign)]
        if root.mode in context.symptoms and any(0 < sign.index - index <= SHORTLY for sign in of_host):
            return replace(root, mode=context.mode, remedy=None, retry=None), text
    return root, None


_SAVED = re.compile(r"\b[Ss]aved\b|(?<!\S)[Cc]heckpoint\S* (?:is )?(?:done|complete|finished)\b")


def _saved_between(reading: Reading, begun: int, sign: Sighting) -> bool:
    """Whether a save was over before something stood still: its rank says so, or counts two steps more.

    One step may be another rank's, where no prefix tells who printed it.
    """
    lines = reading.closing.streams.get(sign.stream, ())
    writers = [each.line.writer for each in lines if each.index == begun]
    between = [each for each in lines if begun < each.index < sign.index and each.line.writer in writers]
    counted = sum(each.progresses for each in between)
    return counted > 1 or any(_SAVED.search(each.text) for each in between)


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

        return [sign for sign in others if _failed_before_stop(sign, stop.at, went_on)]
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


def _failed_before_stop(sign: Sighting, at: float, went_on: Callable[[Sighting], bool]) -> bool:
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
    if sign.mode in (network.NO_INGRESS_FROM_ITSELF, network.NO_EGRESS_TO_ITSELF):
        return False  # Of a peer that is gone it says so only where steps had been made: `mark_consequences`.
    if sign.index == BEFORE_ALL_LINES:
        return bool(stops) and sign.role is LineRole.CASCADE and sign.vague and not _ended_by_itself(sign)
    return any(_follows_stop(sign, stop) or _announces_stop(sign, stop, by_itself) for stop in stops)


def _announces_stop(sign: Sighting, stop: Sighting, by_itself: Sequence[Sighting]) -> bool:
    """Whether a sign says only that something ended, and the stop a few lines below of what; not where
    between them a process ended by itself, because of which the starter stops the rest."""
    is_vague = sign.role is LineRole.CASCADE and sign.vague and not _ended_by_itself(sign)
    if not is_vague or sign.stream != stop.stream or not 0 < stop.index - sign.index <= _ANNOUNCED:
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
    # A limit that was reached says more than what the service, or the ranks, then do, and a rank that was
    # interrupted in a wait more than who started it.
    first = min(
        stops,
        key=lambda sign: (
            "limit" not in sign.captured,
            IN_A_WAIT not in sign.what,
            sign.index,
            sign.host or "",
            sign.rank or 0,
        ),
    )
    what = f"ended from outside: {_named_signal(first)}, and nothing had failed before"
    finding = interruption.STOPPED.finding(
        Stage.LOG, shown(what), remedy=_remedy_by_lines(first), subject=first.host
    )
    return RootCause(finding, None, first.host, shown(first.text), (shown(first.text),))


def _remedy_by_lines(stop: Sighting) -> str:
    """What to do where only lines tell that a job was ended from outside."""
    if "limit" in stop.captured:
        return (
            "Raise limits.max_runtime, and go on from the last checkpoint. Where the job seemed to stand "
            "still, look at when its ranks printed last."
        )
    if IN_A_WAIT in stop.what:
        return (
            "If no step had been made for long, a rank did not come to this wait: look for a branch by rank "
            "around it, or a loop with fewer steps; the job's watchdog (`watchdog`, on by default) names the "
            "rank. If it went on until then, nothing has to be repaired: go on from the last checkpoint."
        )
    return (
        "Nothing has to be repaired. Go on from the last checkpoint; who sent the signal stands in no "
        "log: look for a scheduler's time limit, a closed terminal (SIGHUP), or another host that failed."
    )


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
        StopCause.MAX_USD: f"stopped by limits.max_usd: {shown(stop.who or '')} is used up{when}",
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
        case StopCause.MAX_USD:
            return (
                f"Launch the job file again with {with_more} and a limits.max_usd for what is still to do; "
                f"`{again}` goes on from the last checkpoint and spends as much once more."
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
        StopCause.MAX_USD: "Raise limits.max_usd, and launch",
        StopCause.MAX_WAIT: "Raise limits.max_wait or leave out `capacity: spot`, and launch",
        StopCause.LAUNCHER: "A local run ends with its launcher: keep that alive with tmux or nohup, and "
        "launch",
    }.get(cause, "Nothing has to be repaired. Launch")
    return (
        f"{first} the job file again. It left no checkpoint, so it starts from the beginning: what is "
        "written to SM_CHECKPOINT_DIR is kept, with `checkpoint` in the job file."
    )
