"""Which cases `make test` takes: those that are named or every n-th, and never none without a word."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.exhaustive import ONE_IN, mark_exhaustive, share_and_all


class Case:
    """A collected case of a test, as far as it is asked."""

    def __init__(self, function: str, case: str, mark: Any) -> None:
        self.nodeid, self.name = f"tests/test_x.py::{function}[{case}]", f"{function}[{case}]"
        self._mark = mark
        self.exhaustive = False

    def get_closest_marker(self, name: str) -> Any:
        return self._mark if name == "few_cases" else None

    def add_marker(self, mark: Any) -> None:
        assert mark.name == "exhaustive"
        self.exhaustive = True


def cases(function: str, names: list[str], *kept: str, **how: int) -> list[Any]:
    mark = SimpleNamespace(args=kept, kwargs=how) if kept or how else None
    return [Case(function, name, mark) for name in names]


def left(items: list[Any]) -> list[str]:
    return [item.name for item in items if not item.exhaustive]


def test_the_cases_that_are_named_stay() -> None:
    items = cases("test_a", ["dev", "p4d", "a [0]"], "dev", "a [0]")
    mark_exhaustive(items, whole=True)
    assert left(items) == ["test_a[dev]", "test_a[a [0]]"]


def test_every_third_case_stays_of_each_function() -> None:
    items = [*cases("test_a", list("abcd"), every=3), *cases("test_b", list("ab"), every=3)]
    mark_exhaustive(items, whole=True)
    assert left(items) == ["test_a[a]", "test_a[d]", "test_b[a]"]


def test_a_test_that_says_nothing_stays_as_it_is() -> None:
    items = cases("test_a", ["a", "b"])
    mark_exhaustive(items, whole=True)
    assert len(left(items)) == 2


def test_a_named_case_that_is_not_there_is_an_error_unless_only_some_were_asked_for() -> None:
    with pytest.raises(pytest.UsageError, match=r"test_a has no case \['gone'\], only \['dev'\]"):
        mark_exhaustive(cases("test_a", ["dev"], "dev", "gone"), whole=True)
    mark_exhaustive(cases("test_a", ["dev"], "dev", "gone"), whole=False)


def test_a_share_of_the_texts_is_the_same_whatever_is_added() -> None:
    texts = [f"log {number}" for number in range(100)]
    share, everything = share_and_all(texts)
    grown, _ = share_and_all([*texts, "one more"])
    assert everything.values == (texts,)
    assert 100 / ONE_IN / 2 < len(share.values[0]) < 100 / ONE_IN * 2
    assert set(share.values[0]) == set(grown.values[0]) - {"one more"}
    assert [len(case.marks) for case in (share, everything)] == [0, 1]
