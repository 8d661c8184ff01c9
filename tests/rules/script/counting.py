"""How many programs each rule has that it must find, and that it must leave alone.

They are the files of `programs/RULE/`, and those cases of parametrised tests of which the test says so, with
`shows` or `leaves_alone` above its `parametrize`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from launcher.failure_modes.registry import REGISTRY
from launcher.rules.script.check import JOB_RULES, RULES

Rule = Callable[[Any], Any]
Test = TypeVar("Test", bound=Callable[..., None])

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*/*.py"))

Cases = dict[tuple[str, str], dict[str, int]]
"""By the rule's name and the code: how many cases each test has. A module may be imported twice."""

found: Cases = {}
left_alone: Cases = {}


def rules_by_name() -> dict[str, Rule]:
    return {rule.__name__: rule for rule in (*RULES, *JOB_RULES)}


def codes_of(rule: Rule) -> tuple[str, ...]:
    """The codes that a rule registers."""
    return tuple(mode.code for each in REGISTRY if each.function is rule for mode in each.modes)


def shows(
    rule: Rule, code: str = "", *, naming: str = "", cases: Iterable[object] | None = None
) -> Callable[[Test], Test]:
    """The cases of a test are found by a rule: all, or those in whose text `naming` stands.

    `code` says which, of a rule with several. `cases` are given where the parameters are names alone.
    """
    return _counted(
        found, [(rule.__name__, each) for each in ([code] if code else codes_of(rule))], naming, cases
    )


def leaves_alone(
    *rules: Rule, code: str = "", naming: str = "", cases: Iterable[object] | None = None
) -> Callable[[Test], Test]:
    """The cases of a test look like what these rules find, and are right."""
    keys = [(rule.__name__, each) for rule in rules for each in ([code] if code else codes_of(rule))]
    return _counted(left_alone, keys, naming, cases)


def _counted(
    counts: Cases,
    keys: list[tuple[str, str]],
    naming: str,
    cases: Iterable[object] | None,
) -> Callable[[Test], Test]:
    def count(test: Test) -> Test:
        given = cases
        if given is None:
            (mark,) = [each for each in getattr(test, "pytestmark", ()) if each.name == "parametrize"]
            given = mark.args[1]
        number = sum(naming in str(each) for each in given)
        for key in keys:
            counts.setdefault(key, {})[f"{test.__name__} {naming}"] = number
        return test

    return count
