"""Which tests `make test` leaves to `make test-all`: those that repeat a behaviour with other values.

A test that repeats what others show has the marker `exhaustive`. One with many cases has `few_cases`: those
that it names stay in `make test`, or every n-th of them, and the others are `exhaustive`. A test that itself
goes through many texts gets a share of them, and as an exhaustive case all of them (`share_and_all`).

    @pytest.mark.few_cases("dev")
    @pytest.mark.parametrize("cluster", ["dev", "p5-large"])

    @pytest.mark.few_cases(every=4)
    @pytest.mark.parametrize("seed", range(64))

    @pytest.mark.parametrize("logs", share_and_all(LOGS))
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

ONE_IN = 8
"""Of so many texts `make test` looks at one."""


def share_and_all(each: Sequence[T], text_of: Callable[[T], str] = str) -> list[Any]:
    """Two cases for a test of many texts: a share of them, the same whatever is added, and all.

    Args:
        each: What the test goes through.
        text_of: The text of one of them, which says whether it is in the share.
    """
    share = [one for one in each if zlib.crc32(text_of(one).encode()) % ONE_IN == 0]
    return [
        pytest.param(share, id="a share"),
        pytest.param(list(each), id="all", marks=pytest.mark.exhaustive),
    ]


def mark_exhaustive(items: Sequence[pytest.Item], *, whole: bool) -> None:
    """Mark the cases that `make test` leaves out.

    Args:
        items: The tests that were collected, each function's cases in their order.
        whole: Whether they are all cases of their functions, so that each case that stays must be among them.

    Raises:
        pytest.UsageError: A case that is to stay is not there.
    """
    for cases in _by_function(items):
        mark = cases[0].get_closest_marker("few_cases")
        if mark is None:
            continue
        names = [case.name.partition("[")[2].removesuffix("]") for case in cases]
        missing = set(mark.args) - set(names)
        if whole and missing:
            function = cases[0].nodeid.partition("[")[0]
            raise pytest.UsageError(f"{function} has no case {sorted(missing)}, only {sorted(set(names))}")
        kept = set(mark.args) or set(names[:: mark.kwargs["every"]])
        for case, name in zip(cases, names, strict=True):
            if name not in kept:
                case.add_marker(pytest.mark.exhaustive)


def _by_function(items: Sequence[pytest.Item]) -> list[list[pytest.Item]]:
    found: dict[str, list[pytest.Item]] = {}
    for item in items:
        found.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return list(found.values())
