"""What makes a function a live rule: the facts that it needs, and what is said where one is missing."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import TypeAlias

from launcher.account.facts import AccountFacts, Unverified
from launcher.failure_modes.model import FailureMode, Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.live.subject import LiveSubject

Judge: TypeAlias = Callable[[LiveSubject], Iterator[Finding]]

_FACTS = frozenset(field.name for field in dataclasses.fields(AccountFacts)) - {"region"}


def live_rule(mode: FailureMode, *facts: str, absence_counts: bool = False) -> Callable[[Judge], Judge]:
    """Register a rule that finds `mode` and judges by these fields of AccountFacts.

    Where one of the facts could not be had, the rule is not called: each gives one finding that says
    so. Where one is None, because the job does not need it, nothing is found; a rule with
    `absence_counts` is called all the same, because None is also what does not exist.

    Raises ValueError where a field is not in AccountFacts.
    """
    if unknown := set(facts) - _FACTS:
        raise ValueError(f"AccountFacts has no {', '.join(sorted(unknown))}")

    def mark(judge: Judge) -> Judge:
        @functools.wraps(judge)
        def guarded(subject: LiveSubject) -> Iterator[Finding]:
            held = [getattr(subject.account, name) for name in facts]
            if None in held and not absence_counts:
                return
            missing = [fact for fact in held if isinstance(fact, Unverified)]
            if missing:
                yield from (could_not_verify(mode, fact) for fact in missing)
            else:
                yield from judge(subject)

        return finds(Stage.LIVE, mode)(guarded)

    return mark


def could_not_verify(mode: FailureMode, fact: Unverified) -> Finding:
    """The finding in place of a judgement: what could not be seen, why, and the permission for it."""
    return mode.finding(
        Stage.LIVE,
        f"could not verify ({mode.title}): {fact.what} could not be read, which needs {fact.permission}: "
        f"{fact.reason.rstrip('.')}",
        remedy=f"Ask for {fact.permission} (the cluster's launcher policy has what the checks need), or "
        "look at it yourself before you launch.",
        severity=Severity.WARNING,
        subject=fact.what,
        verified=False,
    )
