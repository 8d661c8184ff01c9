"""Which of the signs is the root cause, and what followed from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from launcher.diagnosis.ending import End, Ending
from launcher.diagnosis.matching import ROLES
from launcher.diagnosis.model import Diagnosis, RootCause, Verdict
from launcher.diagnosis.reader import Reading
from launcher.diagnosis.reason import BEFORE_ALL_LINES
from launcher.diagnosis.redaction import redacted, shown
from launcher.diagnosis.sighting import Sighting
from launcher.diagnosis.signatures.signature import LineRole
from launcher.diagnosis.stops import split_by_stop, stopped, unexplained
from launcher.failure_modes import checkpoints, data, distribution, job_runtime, nccl
from launcher.failure_modes.model import Finding, Retry, Severity, Stage

CLOSE = 12
"""Lines of a host between a context and the symptom that it explains."""

_MOST_EVIDENCE = 4
_NAMED_RANKS = 8
_COPY_BELOW = 3
_LONGEST_REMEDY = 1000
_SURVIVED = 500
"""Lines of its host after a vague sign, more than a failing job prints while it comes down."""

_LAGS = (nccl.COLLECTIVE_TIMED_OUT, data.UNEVEN_BATCHES, checkpoints.STATE_DICT_NOT_ON_EVERY_RANK)
"""Modes in which ranks wait for others that lag behind: those that waited name the operation."""


def judge(
    reading: Reading,
    reason: Sequence[Sighting],
    ending: Ending | None = None,
    late: Mapping[str, int] | None = None,
) -> Diagnosis:
    """The diagnosis from what was read of the logs, of the service's reason, and of how the job ended.

    Of a job that completed nothing is a root cause but that the ranks never met, which no exit code shows.
    The weightier role counts, whatever came first: initiator, symptom, cascade. Within a role what is
    definite beats what is vague, then the earlier sign counts. What an end from outside explains is a
    consequence; `late` are each host's lines after it. Restarts of the ranks are told last, one by one.
    """
    ending = ending or Ending()
    healthy = ending.end is End.COMPLETED or (reading.success and not reading.failure and not reason)
    signs = [] if healthy else [sign for sign in (*reason, *reading.sightings) if sign.role.may_be_root]
    signs = [sign for sign in signs if not _was_survived(sign, reading)]
    # Lines that say it end no job: they are the cause where nothing else is, no less where it ended well.
    apart = [sign for sign in reading.sightings if _says_that_nobody_met(sign)]
    signs = [sign for sign in signs if sign not in apart]
    notes = [sign for sign in reading.sightings if sign.role is LineRole.ADVISORY]
    if ending.end is End.STOPPED:
        notes += apart
    else:
        signs = signs or apart
    history = [finding for sign in reading.restarts for finding in _grouped([sign], warn=True)]
    stop = stopped(signs, ending)
    root = _first(unexplained(signs, ending, lengths=reading.lengths, late=late or {}))
    if root is None and stop is not None:
        earlier, later = split_by_stop(signs, ending)
        followed = tuple(_grouped(later))
        findings = (stop.finding, *followed, *_grouped([*earlier, *notes], warn=True), *history)
        return Diagnosis(Verdict.STOPPED, stop, followed, findings, job_runtime.STOPPED.retry)
    notes = [sign for sign in notes if root is None or sign.mode is not root.mode]
    if root is None:
        verdict = Verdict.UNKNOWN if ending.end is End.FAILED else Verdict.HEALTHY
        return Diagnosis(verdict, None, (), (*_grouped(notes, warn=True), *history), Retry.NEVER)
    others = [sign for sign in signs if sign is not root]
    explained, context = _explained(root, signs, reading)
    explained = _attributed(explained, others)
    cause = _root_cause(explained, others, context)
    consequences = tuple(_grouped(sign for sign in others if not _same(sign, root)))
    if ending.stop is not None and stop is not None:
        consequences = (*(each for each in consequences if each.code != stop.finding.code), stop.finding)
    findings = (cause.finding, *consequences, *_grouped(notes, warn=True), *history)
    return Diagnosis(Verdict.FAILED, cause, consequences, findings, explained.retry or explained.mode.retry)


def _says_that_nobody_met(sign: Sighting) -> bool:
    return sign.mode is distribution.RANKS_NEVER_MET and sign.role.may_be_root


def _was_survived(sign: Sighting, reading: Reading) -> bool:
    """Whether a mere mention of a failure is followed by so much that the job must have gone on."""
    if sign.index == BEFORE_ALL_LINES:
        return False
    length = reading.lengths.get(sign.host or "", max(reading.lengths.values(), default=0))
    return sign.role is LineRole.CASCADE and sign.vague and length - sign.index > _SURVIVED


def _same(sign: Sighting, root: Sighting) -> bool:
    """Whether a sign is the root cause again, in other words of the same rank."""
    return (sign.code, sign.rank, sign.host) == (root.code, root.rank, root.host)


def _first(signs: Sequence[Sighting]) -> Sighting | None:
    """The root cause among the signs, the same for every order in which the streams came."""
    if not signs:
        return None
    # What the boot wrote is a diagnosis already: among signs of one weight it comes before the lines.
    weight = min(_weight(sign) for sign in signs)
    best = [sign for sign in signs if _weight(sign) == weight]
    reported = [sign for sign in best if sign.index == BEFORE_ALL_LINES]
    best = reported or best
    comparable = best[0].clock is not None and len({sign.clock for sign in best}) == 1
    return min(
        best, key=lambda sign: (sign.time if comparable and sign.time is not None else 0.0, *_position(sign))
    )


def _weight(sign: Sighting) -> tuple[int, bool]:
    return ROLES[sign.role], sign.vague


def _position(sign: Sighting) -> tuple[int, str, int, str]:
    return sign.index, sign.host or "", -1 if sign.rank is None else sign.rank, sign.code


def _explained(root: Sighting, signs: Iterable[Sighting], reading: Reading) -> tuple[Sighting, str | None]:
    """The root cause that a line shortly before such a symptom reveals, and that line."""
    if root.role is LineRole.INITIATOR:
        return root, None
    alike = [sign for sign in signs if sign.code == root.code and sign.index != BEFORE_ALL_LINES]
    for context, host, index, text in sorted(reading.contexts, key=lambda entry: (entry[1], -entry[2])):
        near = (
            (sign.host or "") in (host, root.host or "") and 0 < sign.index - index <= CLOSE for sign in alike
        )
        if root.mode in context.of and any(near):
            return replace(root, mode=context.mode), text
    return root, None


def _attributed(root: Sighting, others: Sequence[Sighting]) -> Sighting:
    """The root cause with rank and message from other lines, where its own do not say."""
    local = next((sign.captured["local_rank"] for sign in others if _same_launcher(sign, root)), None)
    if root.rank is None and local is not None:
        root = replace(root, captured={"local_rank": local, **root.captured})
    if root.rank is None:
        named = [sign for sign in others if sign.rank is not None and _tells_of(sign, root)]
        if len({sign.rank for sign in named}) == 1:
            root = replace(root, rank=named[0].rank, host=root.host or named[0].host)
    if root.mode in _LAGS and (apart := _apart([root, *others])):
        root = replace(root, what=f"{root.what}; {apart}")
    return root


def _tells_of(sign: Sighting, root: Sighting) -> bool:
    """Whether a sign that has a rank speaks of the same failure: a late name, or torchrun's table."""
    if root.mode in _LAGS:
        return sign.mode in _LAGS and "ms" in sign.captured
    if sign.host == root.host and sign.details and 0 < sign.index - root.index <= _COPY_BELOW:
        return True  # torch prints an exception, and again with its traceback behind the rank's prefix.
    if "exitcode" in sign.captured:
        return not sign.host or not root.host or sign.host.split(".")[0] == root.host.split(".")[0]
    return sign.code == root.code and sign.host == root.host


def _same_launcher(sign: Sighting, root: Sighting) -> bool:
    """Whether a sign is torchrun's word on the first local rank of this host that failed."""
    return "local_rank" in sign.captured and sign.host == root.host and sign.index > root.index


def _apart(signs: Iterable[Sighting]) -> str | None:
    """Where the ranks waited, if not all in the same collective."""
    waiting: dict[tuple[str, str], list[int]] = {}
    for sign in signs:
        operation, sequence = sign.captured.get("operation"), sign.captured.get("sequence")
        if operation and sequence and sign.rank is not None and "other" not in sign.captured:
            waiting.setdefault((operation, sequence), []).append(sign.rank)
    if len(waiting) < 2:
        return None
    parts = [f"{_ranks(ranks)} in {name} {number}" for (name, number), ranks in sorted(waiting.items())]
    return "ranks are apart: " + ", ".join(parts[:4])


def _root_cause(root: Sighting, others: Sequence[Sighting], context: str | None) -> RootCause:
    place = f" ({root.place})" if root.place else ""
    finding = root.mode.finding(
        Stage.LOG,
        shown(f"{_who(root)}{root.what}") + place,
        remedy=_remedy(root),
        severity=Severity.ERROR,
        subject=root.subject,
    )
    mates = [sign for sign in others if sign.rank == root.rank and sign.host == root.host]
    # Under `none` the container knows the rank, and its lines do not.
    beside = [sign for sign in others if sign.rank in (root.rank, None) and sign.host == root.host]
    lines = [*_where(root, beside), root.text]
    if context:
        lines.insert(0, context)
    lines += [sign.text for sign in mates if sign.index != BEFORE_ALL_LINES]
    evidence = list(dict.fromkeys(shown(line) for line in lines if line.strip()))
    kept = (
        evidence if len(evidence) <= _MOST_EVIDENCE else [*evidence[: _MOST_EVIDENCE - 1], shown(root.text)]
    )
    return RootCause(finding, root.rank, root.host, shown(root.text), tuple(dict.fromkeys(kept)))


def _where(root: Sighting, mates: Sequence[Sighting]) -> tuple[str, ...]:
    """The lines that show where it happened. A reason is cut to what the service takes: the same traceback
    in the log tells more."""
    if root.index != BEFORE_ALL_LINES or root.place is None:
        return root.details
    file = root.place.rpartition(":")[0]
    return next(
        (mate.details for mate in mates if mate.details and mate.details[0].startswith(f"{file}:")),
        root.details,
    )


def _grouped(signs: Iterable[Sighting], *, warn: bool = False) -> Iterable[Finding]:
    """One finding for each failure mode: its first sign, and how many ranks or hosts have it."""
    modes: dict[str, list[Sighting]] = {}
    for sign in signs:
        modes.setdefault(sign.code, []).append(sign)
    order = sorted(modes.values(), key=lambda group: min((ROLES[sign.role], sign.code) for sign in group))
    for group in order:
        first = min(group, key=lambda sign: (ROLES[sign.role], sign.vague, *_position(sign)))
        ranks = sorted({sign.rank for sign in group if sign.rank is not None})
        hosts = sorted({sign.host for sign in group if sign.host})
        who = (
            f"{_ranks(ranks)}: "
            if len(ranks) > 1
            else f"{len(hosts)} hosts: "
            if len(hosts) > 1
            else _who(first)
        )
        severity = Severity.WARNING if warn and first.mode.severity is Severity.ERROR else first.mode.severity
        yield first.mode.finding(
            Stage.LOG,
            shown(f"{who}{first.what}"),
            remedy=_remedy(first),
            severity=severity,
            subject=first.subject,
        )


def _remedy(sign: Sighting) -> str | None:
    return None if sign.remedy is None else shown(sign.remedy, _LONGEST_REMEDY)


def _ranks(ranks: Sequence[int]) -> str:
    unique = sorted(set(ranks))
    named = ", ".join(map(str, unique[:_NAMED_RANKS]))
    more = f" and {len(unique) - _NAMED_RANKS} more" if len(unique) > _NAMED_RANKS else ""
    return f"rank{'s' if len(unique) > 1 else ''} {named}{more}"


def _who(sign: Sighting) -> str:
    """Such as `rank 3 on algo-2: `."""
    host = redacted(sign.host) if sign.host else None
    if sign.rank is None:
        return f"{host}: " if host else ""
    return f"rank {sign.rank} on {host}: " if host else f"rank {sign.rank}: "
