"""Which of the signs is the root cause, and what followed from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from launcher.diagnosis.clocks import Clocks, first_of
from launcher.diagnosis.closing import impression, rare, unknown_in_words
from launcher.diagnosis.consequences import with_consequences
from launcher.diagnosis.ending import End, Ending
from launcher.diagnosis.incidents import last_incident
from launcher.diagnosis.matching import ROLES
from launcher.diagnosis.model import Diagnosis, Verdict
from launcher.diagnosis.naming import attributed, without_innocents
from launcher.diagnosis.ranks import RankState, with_the_silent
from launcher.diagnosis.reading import Reading
from launcher.diagnosis.reason import BEFORE_ALL_LINES, known_by_log
from launcher.diagnosis.remedies.asked_job import NOTHING_ASKED, AskedJob
from launcher.diagnosis.remedies.numbers import remedy_with_numbers
from launcher.diagnosis.sighting import Sighting
from launcher.diagnosis.signatures.signature import SHORTLY, LineRole
from launcher.diagnosis.standstill import hangs, silent_before, stands_still
from launcher.diagnosis.stops import split_by_stop, stopped, unexplained
from launcher.diagnosis.sureness import judged_sure, runner_up
from launcher.diagnosis.telling import grouped, root_cause, survived
from launcher.failure_modes import distribution, hardware, interruption, training_script
from launcher.failure_modes.model import Finding, Retry

_ENDS_BY_SIGNAL = (training_script.NATIVE_CRASH, hardware.HOST_OUT_OF_MEMORY)


def judge(
    reading: Reading,
    reason: Sequence[Sighting],
    ending: Ending | None = None,
    late: Mapping[str, int] | None = None,
    job: AskedJob = NOTHING_ASKED,
) -> Diagnosis:
    """The diagnosis from what was read of the logs, of the service's reason, and of how the job ended.

    Of a job that completed nothing is a root cause but that the ranks never met, which no exit code shows.
    Only the last incident counts (`incidents`), without what followed from another rank's failure
    (`consequences`). In it the weightier role counts, whatever came first: initiator, symptom, cascade.
    Within a role what is definite beats what is vague, then the earlier sign counts, as far as that is known
    (`clocks`). What an end from outside explains is a consequence; `late` are each host's lines after it.
    What was survived, and restarts of the ranks, are told last. The remedy has the numbers of the lines and
    of the `job`, where they are known.
    """
    ending = ending or Ending()
    ranks = with_the_silent(reading.ranks, reading.world_size, whole=reading.is_whole)
    healthy = ending.end is End.COMPLETED or (reading.success and not reading.failure and not reason)
    told = (*known_by_log(reason, reading.sightings), *reading.sightings)
    signs = [] if healthy else [sign for sign in told if sign.role.may_be_root]
    # Lines that say it end no job: they are the cause where nothing else is, no less where it ended well.
    apart = [sign for sign in reading.sightings if _says_that_nobody_met(sign)]
    signs = [sign for sign in signs if sign not in apart]
    incident = last_incident(reading, signs, failed=ending.end is End.FAILED or bool(reason))
    signs = with_consequences(incident.signs)
    notes = [sign for sign in reading.sightings if sign.role is LineRole.ADVISORY] + [*incident.noise]
    if ending.end is End.STOPPED:
        notes += apart
    else:
        signs = signs or apart
    history = [finding for sign in reading.restarts for finding in grouped([sign], warn=True)]
    history = [*survived(incident.history), *history]
    stop = stopped(signs, ending)
    weighty = _telling_how(_weightiest(unexplained(signs, ending, lengths=reading.lengths, late=late or {})))
    if not weighty and stop is not None:
        earlier, later = split_by_stop(signs, ending)
        followed = tuple(grouped(later))
        findings = (stop.finding, *followed, *grouped([*earlier, *notes], warn=True), *history)
        still = silent_before(reading.closing, ending.stop, ranks, whole=reading.is_whole)
        if still is not None:
            unusual = rare(reading.closing)
            return _unknown(findings, ranks, still, unusual)
        return Diagnosis(Verdict.STOPPED, stop, followed, findings, interruption.STOPPED.retry, ranks=ranks)
    if not weighty:
        explained_by = [*notes, *reading.restarts, *(each.sign for each in incident.history)]
        findings = (*grouped(notes, warn=True), *history)
        return _without_cause(reading, ending, findings, ranks, explained_by, well=healthy)
    root, rivals = first_of(weighty, Clocks(reading.courses, signs))
    notes = [sign for sign in notes if sign.mode is not root.mode]
    others = [sign for sign in signs if sign is not root]
    explained, context = _explained(root, signs, reading)
    explained = attributed(explained, others, reading)
    explained = _without_rank(explained, rivals) if explained.about is None else explained
    explained = without_innocents(explained, signs, ranks)
    if (remedy := remedy_with_numbers(explained, others, job)) is not None:
        explained = replace(explained, remedy=remedy)
    cause = root_cause(explained, others, context)
    cause = replace(cause, sureness=judged_sure(explained, rivals))
    consequences = tuple(grouped(sign for sign in others if not _same(sign, root)))
    if ending.stop is not None and stop is not None:
        consequences = (*(each for each in consequences if each.code != stop.finding.code), stop.finding)
    findings = (cause.finding, *consequences, *grouped(notes, warn=True), *history)
    return Diagnosis(
        Verdict.FAILED,
        cause,
        consequences,
        findings,
        explained.retry or explained.mode.retry,
        ranks=ranks,
        runner_up=runner_up(explained, rivals, others),
    )


def _without_cause(
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
    seen = impression(closing, told, reading.ended_well)
    still = stands_still(closing, reading.unfinished, reading.ended_well, ranks, whole=reading.is_whole)
    by_lines = ending.end is End.NOT_TOLD and not reading.unread and seen.healthy and still is None
    if ending.end is End.RUNNING:
        # What a log leaves open, such as how it ends, the place knows; not that the job goes on.
        still = hangs(closing, ending.trains_at, reading.ended_well, ranks, whole=reading.is_whole)
    runs = ending.end is End.RUNNING and still is None
    if well or ending.end is End.COMPLETED or runs or by_lines:
        return Diagnosis(Verdict.HEALTHY, None, (), findings, Retry.NEVER, ranks=ranks)
    summary = unknown_in_words(closing, ranks, reading.unread, still, whole=reading.is_whole)
    return _unknown(findings, ranks, summary, seen.unusual or rare(closing))


def _unknown(
    findings: tuple[Finding, ...], ranks: tuple[RankState, ...], summary: str, unusual: tuple[str, ...]
) -> Diagnosis:
    return Diagnosis(
        Verdict.UNKNOWN, None, (), findings, Retry.NEVER, ranks=ranks, summary=summary, unusual=unusual
    )


def _says_that_nobody_met(sign: Sighting) -> bool:
    return sign.mode is distribution.RANKS_NEVER_MET and sign.role.may_be_root


def _same(sign: Sighting, root: Sighting) -> bool:
    """Whether a sign is the root cause again, in other words of the same rank."""
    return (sign.code, sign.rank, sign.host) == (root.code, root.rank, root.host)


def _weightiest(signs: Sequence[Sighting]) -> list[Sighting]:
    """The signs of the greatest weight: the lower role, and what is definite."""
    weight = min((_weight(sign) for sign in signs), default=None)
    return [sign for sign in signs if _weight(sign) == weight]


def _telling_how(weighty: Sequence[Sighting]) -> Sequence[Sighting]:
    """The signs without those that tell of the end of a process and not how, where another one tells its
    signal: starters say both, in any order."""
    if not any(sign.mode in _ENDS_BY_SIGNAL for sign in weighty):
        return weighty
    return [sign for sign in weighty if sign.mode is not training_script.SCRIPT_RAISED or not sign.vague]


def _weight(sign: Sighting) -> tuple[int, bool]:
    return ROLES[sign.role], sign.vague


def _without_rank(root: Sighting, rivals: Sequence[Sighting]) -> Sighting:
    """The root cause, of nobody where others may have failed before and nothing tells who did."""
    candidates = {(sign.rank, sign.host) for sign in (root, *rivals)}
    alike = {(sign.code, sign.what) for sign in (root, *rivals)}
    if len(candidates) < 2 or (len(alike) == 1 and {rank for rank, _ in candidates} == {None}):
        return root  # What fails in the same way on every host need not be looked for on another one.
    named = sorted({_named(sign) for sign in (root, *rivals)})
    listed = ", ".join(named[:6]) + (f" and {len(named) - 6} more" if len(named) > 6 else "")
    what = f"{root.what}; no clock that they share tells who of these failed first: {listed}"
    hosts = {host for _, host in candidates}
    return replace(root, what=what, rank=None, host=root.host if len(hosts) == 1 else None, about="")


def _named(sign: Sighting) -> str:
    where = f" on {sign.host}" if sign.host else ""
    return f"rank {sign.rank}{where} ({sign.code})" if sign.rank is not None else f"{sign.host} ({sign.code})"


def _explained(root: Sighting, signs: Iterable[Sighting], reading: Reading) -> tuple[Sighting, str | None]:
    """The root cause that a line shortly before such a symptom reveals, and that line."""
    if root.role is LineRole.INITIATOR:
        return root, None
    alike = [sign for sign in signs if sign.code == root.code and sign.index != BEFORE_ALL_LINES]
    for context, host, index, text in sorted(reading.contexts, key=lambda entry: (entry[1], -entry[2])):
        of_host = [sign for sign in alike if (sign.host or "") in (host, root.host or "")]
        if root.mode in context.of and any(0 < sign.index - index <= SHORTLY for sign in of_host):
            return replace(root, mode=context.mode), text
    return root, None
