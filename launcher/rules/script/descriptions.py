"""What stands above a rule, taken apart: for the page of the rules, for `launch explain` and for SARIF.

A rule's docstring says in this order what it finds, why that matters and where it is silent, then `Bad:` and
`Good:` with a line of code each, and last `Source:`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import getdoc
from typing import Any

from launcher.failure_modes import registry
from launcher.rules.script import check


@dataclass(frozen=True, slots=True)
class RuleDescription:
    """The parts of a rule's docstring as Markdown, each without the word that begins it."""

    rule: str
    finds: str
    why: str
    bad: str
    good: str
    source: str
    codes: tuple[str, ...]
    with_job: bool


def rule_descriptions() -> list[RuleDescription]:
    """Those of all rules on scripts, in the order in which their findings are shown.

    None under `python -OO`, which leaves docstrings out.
    """
    codes = {each.function: tuple(mode.code for mode in each.modes) for each in registry.REGISTRY}
    plain: list[Callable[..., Any]] = [*check.RULES, check.unread_finding]
    return [
        _described(rule, codes[rule], with_job=rule not in plain)
        for rule in (*plain, *check.JOB_RULES)
        if getdoc(rule)
    ]


def descriptions_of(code: str) -> list[RuleDescription]:
    """Those of the rules that find a failure mode."""
    return [each for each in rule_descriptions() if code in each.codes]


def _described(rule: Callable[..., Any], codes: tuple[str, ...], *, with_job: bool) -> RuleDescription:
    """A part that the docstring lacks is empty."""
    prose, _, rest = (getdoc(rule) or "").partition("\n\nBad:")
    example, _, source = rest.rpartition("Source:")
    bad, _, good = example.partition("Good:")
    finds, _, why = prose.partition("\n\n")
    return RuleDescription(
        rule=rule.__name__,
        finds=_joined(finds),
        why=_joined(why),
        bad=_joined(bad),
        good=_joined(good),
        source=_joined(source),
        codes=codes,
        with_job=with_job,
    )


def _joined(text: str) -> str:
    """Each paragraph on one line."""
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))
