"""A diagnosis in words: the root cause with its evidence, and one finding for each mode beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from launcher.diagnosis.clocks import position
from launcher.diagnosis.matching import ROLES
from launcher.diagnosis.model import RootCause
from launcher.diagnosis.naming import ranks_in_words
from launcher.diagnosis.notes import Survived
from launcher.diagnosis.reason import BEFORE_ALL_LINES
from launcher.diagnosis.redaction import redacted, shown
from launcher.diagnosis.sighting import Sighting
from launcher.diagnosis.signatures.signature import LineRole
from launcher.failure_modes.model import Finding, Severity, Stage

_MOST_EVIDENCE = 4
_LONGEST_REMEDY = 1000


def root_cause(root: Sighting, others: Sequence[Sighting], context: str | None) -> RootCause:
    """The root cause with its message and a few lines that show it; `others` are the signs beside it."""
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


def grouped(signs: Iterable[Sighting], *, warn: bool = False) -> Iterable[Finding]:
    """One finding for each failure mode: its first sign, and how many ranks or hosts have it."""
    modes: dict[str, list[Sighting]] = {}
    for sign in signs:
        modes.setdefault(sign.code, []).append(sign)
    order = sorted(modes.values(), key=lambda group: min((ROLES[sign.role], sign.code) for sign in group))
    for group in order:
        first = min(group, key=lambda sign: (ROLES[sign.role], sign.vague, *position(sign)))
        ranks = sorted({sign.rank for sign in group if sign.rank is not None})
        hosts = sorted({sign.host for sign in group if sign.host})
        who = (
            f"{ranks_in_words(ranks)}: "
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


def survived(history: Iterable[Survived]) -> Iterator[Finding]:
    """What failed and was survived, a warning for each mode; what only followed from it is left out."""
    for restarted, how in (
        (False, "training went on after it"),
        (True, "the ranks were started anew after it"),
    ):
        signs = [each.sign for each in history if each.restarted is restarted]
        telling = [sign for sign in signs if sign.role is not LineRole.CASCADE and not sign.plumbing]
        yield from grouped(
            (replace(sign, what=f"{sign.what} (survived: {how})") for sign in telling), warn=True
        )


def _remedy(sign: Sighting) -> str | None:
    return None if sign.remedy is None else shown(sign.remedy, _LONGEST_REMEDY)


def _who(sign: Sighting) -> str:
    """Such as `rank 3 on algo-2: `."""
    host = redacted(sign.host) if sign.host else None
    if sign.rank is None:
        return f"{host}: " if host else ""
    return f"rank {sign.rank} on {host}: " if host else f"rank {sign.rank}: "
