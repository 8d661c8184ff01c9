"""Two finders of literals, one answer: what is read of a log does not depend on what is installed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.diagnosis import literals
from launcher.diagnosis.literals import AutomatonFinder, Finder, PatternFinder, distinct, finder_of
from launcher.diagnosis.reader import LITERALS
from tests.diagnosis.cases import cases

FEW = distinct(["error", "error: ", "rror: x", "a.b", "aa", "╰─", "xid"])
SOUGHT = {"few": FEW, "all": distinct(LITERALS)}

needs_hyperscan = pytest.mark.skipif(literals.hyperscan is None, reason="hyperscan is not installed")


def plainly(sought: tuple[bytes, ...], text: bytes) -> list[tuple[int, int]]:
    lower = text.lower()
    return sorted(
        (start + len(literal), number)
        for number, literal in enumerate(sought)
        for start in range(len(lower))
        if lower.startswith(literal, start)
    )


@pytest.fixture(params=["pattern", pytest.param("automaton", marks=needs_hyperscan)])
def few(request: pytest.FixtureRequest) -> Finder:
    return PatternFinder(FEW) if request.param == "pattern" else AutomatonFinder(FEW)


def test_literals_are_found_in_any_case_and_wherever_they_overlap(few: Finder) -> None:
    text = "ERROR: x, aaa, a.b, a-b, ╰─ Xid".encode()
    found = few.hits(text)
    assert found == plainly(FEW, text)
    assert [FEW[number].decode() for _, number in found] == [
        *("error", "error: ", "rror: x", "aa", "aa", "a.b", "╰─", "xid")
    ]


def test_only_ascii_has_a_case(few: Finder) -> None:
    assert few.hits("\u0130xid E\u212aRROR".encode()) == [(5, FEW.index(b"xid"))]


PIECES = st.one_of(
    st.binary(max_size=6),
    st.sampled_from([b"ERROR", b"rror: x", b"aa", b"a.", b"b", b"XI", b"d", "╰─".encode(), b"\n"]),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=12).map(b"".join))
def test_the_pattern_finds_what_stands_there(text: bytes) -> None:
    assert PatternFinder(FEW).hits(text) == plainly(FEW, text)


@needs_hyperscan
@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=12).map(b"".join))
def test_the_automaton_finds_what_stands_there(text: bytes) -> None:
    assert AutomatonFinder(FEW).hits(text) == plainly(FEW, text)


@needs_hyperscan
def test_both_find_the_same_in_all_labelled_logs() -> None:
    sought = distinct(LITERALS)
    pattern, automaton = PatternFinder(sought), AutomatonFinder(sought)
    for case in cases():
        text = case.text.encode()
        assert pattern.hits(text) == automaton.hits(text), case.name


def test_without_hyperscan_there_is_the_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literals, "hyperscan", None)
    assert isinstance(finder_of(["error"]), PatternFinder)


@needs_hyperscan
def test_on_a_processor_that_hyperscan_does_not_know_there_is_the_pattern(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuses(sought: object) -> None:
        raise literals.hyperscan.error("not supported here")

    assert isinstance(finder_of(["error"]), AutomatonFinder)
    monkeypatch.setattr(literals, "AutomatonFinder", refuses)
    assert isinstance(finder_of(["sought by nobody else"]), PatternFinder)


@needs_hyperscan
def test_the_automaton_of_what_is_sought_is_small() -> None:
    """A literal such as `--- logging error ---` makes it six times as large, in 25 MB of memory."""
    assert AutomatonFinder(distinct(LITERALS)).size < 300_000
