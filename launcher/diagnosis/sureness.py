"""How sure a diagnosis is of its root cause, and what else it may have been."""

from __future__ import annotations

from collections.abc import Sequence

from launcher.diagnosis.clocks import position
from launcher.diagnosis.matching import ROLES
from launcher.diagnosis.model import Confidence, Sureness
from launcher.diagnosis.sighting import Sighting
from launcher.diagnosis.signatures.signature import LineRole
from launcher.diagnosis.telling import grouped
from launcher.failure_modes.model import Finding


def judged_sure(root: Sighting, rivals: Sequence[Sighting]) -> Sureness:
    """How sure the root cause is; `rivals` may have failed before it, for all that clocks tell."""
    codes = sorted({sign.code for sign in rivals} - {root.code})
    if codes:
        return Sureness(
            Confidence.UNSURE,
            f"{', '.join(codes)} weighs as much, and no clock that both share tells which came first",
        )
    if root.role is LineRole.INITIATOR and not root.vague:
        return Sureness(Confidence.SURE, "the line itself tells what failed")
    if root.fatal and not root.plumbing:
        return Sureness(Confidence.SURE, "nobody caught the exception, so its process ended with it")
    if root.role is LineRole.CASCADE:
        return Sureness(
            Confidence.UNSURE,
            "such a line is what other failures leave behind, and none of them is in the log",
        )
    if root.role is LineRole.SYMPTOM:
        return Sureness(Confidence.LIKELY, "the line tells how it showed, and nothing in the log tells why")
    return Sureness(Confidence.LIKELY, "the line tells that it failed, and little of what")


def runner_up(root: Sighting, rivals: Sequence[Sighting], others: Sequence[Sighting]) -> Finding | None:
    """What else may have been the cause, where the root cause is not sure."""
    sure = judged_sure(root, rivals)
    if sure.confidence is Confidence.SURE:
        return None
    possible = [sign for sign in (*rivals, *others) if sign.code != root.code and sign.role.may_be_root]
    possible = [sign for sign in possible if sign in rivals or sign.role is not LineRole.CASCADE]
    first = min(
        possible,
        key=lambda sign: (sign not in rivals, ROLES[sign.role], sign.vague, *position(sign)),
        default=None,
    )
    return None if first is None else next(iter(grouped([first], warn=True)))
