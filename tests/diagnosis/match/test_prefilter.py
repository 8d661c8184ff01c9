"""Which lines become candidates, whatever finds the literals and wherever streams are cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.diagnosis.logs.lines import TAIL, WINDOW, LogStream, Record
from launcher.diagnosis.match import prefilter
from launcher.diagnosis.match.prefilter import (
    EXPLAINED_WITHIN,
    AutomatonFinder,
    Candidate,
    Finder,
    PatternFinder,
    Scanner,
    distinct,
    finder_of,
)
from launcher.diagnosis.signs.reader import SOUGHT_LITERALS
from tests.diagnosis.cases import cases


def scanner() -> Scanner:
    return Scanner(finder_of(["needle"]))


def of_blocks(text: str, block: int = 1 << 16) -> list[Candidate]:
    whole = text.encode()
    blocks = iter([whole[at : at + block] for at in range(0, len(whole), block)])
    return list(scanner().find_candidates([], [LogStream("one", "algo-1", 5, 1, blocks)]))


def test_a_line_has_its_number_and_what_follows() -> None:
    text = "hay\n" * 300_000 + "a NEEDLE\n" + "".join(f"after {number}\n" for number in range(20))
    (found,) = of_blocks(text)
    assert (found.index, found.text, found.host, found.rank, found.local_rank) == (
        *(300_000, "a NEEDLE", "algo-1"),
        *(5, 1),
    )
    assert found.following() == [f"after {number}" for number in range(8)]
    assert found.following(2) == ["after 0", "after 1"]


def test_a_literal_may_be_torn_over_two_lines_and_not_over_three() -> None:
    assert [found.index for found in of_blocks("hay\nnee\ndle\nhay")] == [1]
    assert of_blocks("ne\ned\nle\n") == []


def test_torn_or_not_it_is_found_at_every_boundary_of_windows() -> None:
    text = "h" * 39 + "\n"
    for lines in range(WINDOW // 40 - 14, WINDOW // 40 + 6):
        for torn in ("needle\n", "nee\ndle\n"):
            (found,) = of_blocks(text * lines + torn + text * 99)
            assert found.index == lines


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(["", "", "hay", "h", "needle", "two needles", "nee", "dl", "dle", "e", "needle pin"]),
        min_size=1,
        max_size=40,
    )
)
def test_the_same_lines_are_found_where_few_have_a_literal_as_where_many_have(lines: list[str]) -> None:
    text = "\n".join(lines)

    def found() -> list[tuple[int, str, list[str]]]:
        reader = Scanner(finder_of(["needle", "pin", "needle pin", "le"]))
        streams = [LogStream("one", "algo-1", None, None, iter([text.encode()]))]
        return [(each.index, each.text, each.following()) for each in reader.find_candidates([], streams)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prefilter, "_SPARSE", 0)
        of_few = found()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prefilter, "_SPARSE", 1 << 30)
        of_many = found()
    assert of_few == of_many
    assert [text for _, text, _ in of_few] == [lines[index] for index, _, _ in of_few]
    assert [following for *_, following in of_few] == [
        (lines[: -1 if not lines[-1] else None])[index + 1 : index + 9] for index, _, _ in of_few
    ]


def test_a_wanted_stream_gives_every_line_until_it_is_not() -> None:
    reader, seen = scanner(), []
    records = [Record(None, "algo-1", f"line {number} {'needle' * (number == 10)}") for number in range(400)]
    for found in reader.find_candidates(records):
        seen.append((found.index, found.hit))
        (reader.wanted_streams.add if found.index < 300 else reader.wanted_streams.discard)("algo-1")
    assert [index for index, _ in seen] == [*range(10, 301)]
    assert [index for index, hit in seen if hit] == [10]


def of_contexts(lines: list[str], *, wanted: bool = False) -> list[Candidate]:
    reader = Scanner(finder_of(["needle", "pin"]), contexts={"pin"})
    if wanted:
        reader.wanted_streams.add("one")
    return list(
        reader.find_candidates(
            [], [LogStream("one", "algo-1", None, None, iter(["\n".join(lines).encode()]))]
        )
    )


@pytest.mark.parametrize("sparse", [0, 1 << 30], ids=["of many", "of few"])
def test_a_context_is_looked_at_where_another_line_follows_shortly(
    sparse: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefilter, "_SPARSE", sparse)
    lines = ["hay"] * 2000
    for number in (10, 500 - EXPLAINED_WITHIN - 1, 500 - EXPLAINED_WITHIN, 499, 501):
        lines[number] = "a pin"
    lines[500] = "a needle"
    assert [found.index for found in of_contexts(lines)] == [500 - EXPLAINED_WITHIN, 499, 500]


def test_a_context_is_looked_at_where_nobody_knows_yet_what_follows() -> None:
    lines = ["hay"] * 2000
    lines[2000 - TAIL - 1] = lines[2000 - TAIL] = "a pin"
    assert [found.index for found in of_contexts(lines)] == [2000 - TAIL]


def test_a_context_in_a_stream_that_is_read_whole_is_a_hit() -> None:
    lines = ["hay"] * 2000
    lines[10] = "a pin"
    assert [found.index for found in of_contexts(lines, wanted=True) if found.hit] == [7, 8, 9, 10]


def test_lines_that_a_record_may_reach_into_are_hits_as_well() -> None:
    reader = scanner()
    reader.wanted_streams.add("")
    records = [Record(None, "", "needle" if number == 5 else "hay") for number in range(9)]
    assert [found.index for found in reader.find_candidates(records) if found.hit] == [2, 3, 4, 5]


def test_lines_of_records_keep_their_times_also_where_a_record_has_several_lines() -> None:
    records = [
        Record(float(number), f"algo-{number % 3}", f"bar\rneedle {number}\r\n" if number % 7 == 0 else "hay")
        for number in range(5000)
    ]
    found = list(scanner().find_candidates(records))
    assert len(found) == len(range(0, 5000, 7))
    for each in found:
        assert each.text == f"needle {each.time:.0f}"
        assert each.host == f"algo-{int(each.time or 0) % 3}"


def test_the_last_lines_of_each_stream_are_kept() -> None:
    reader = scanner()
    records = [Record(float(number), f"algo-{number % 2}", f"line {number}") for number in range(2000)]
    assert list(reader.find_candidates(records)) == []
    tails = list(reader.tails())
    assert len(tails) == 2 * TAIL
    assert (tails[-1].text, tails[-1].time, tails[-1].index) == ("line 1999", 1999.0, 999)
    assert reader.lengths() == {"algo-0": 1000, "algo-1": 1000}


def test_a_text_that_is_not_utf_8_hides_nothing() -> None:
    stream = LogStream("one", "", None, None, iter([b"\xff\xfe a needle \xe2\x82"]))
    (found,) = scanner().find_candidates([], [stream])
    assert found.text == "\ufffd\ufffd a needle \ufffd"


FEW = distinct(["error", "error: ", "rror: x", "a.b", "aa", "╰─", "xid"])
SOUGHT = {"few": FEW, "all": distinct(SOUGHT_LITERALS)}

needs_hyperscan = pytest.mark.skipif(prefilter.hyperscan is None, reason="hyperscan is not installed")


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
    sought = distinct(SOUGHT_LITERALS)
    pattern, automaton = PatternFinder(sought), AutomatonFinder(sought)
    for case in cases():
        text = case.text.encode()
        assert pattern.hits(text) == automaton.hits(text), case.name


def test_without_hyperscan_there_is_the_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefilter, "hyperscan", None)
    assert isinstance(finder_of(["error"]), PatternFinder)


@needs_hyperscan
def test_on_a_processor_that_hyperscan_does_not_know_there_is_the_pattern(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuses(sought: object) -> None:
        raise prefilter.hyperscan.error("not supported here")

    assert isinstance(finder_of(["error"]), AutomatonFinder)
    monkeypatch.setattr(prefilter, "AutomatonFinder", refuses)
    assert isinstance(finder_of(["sought by nobody else"]), PatternFinder)


@needs_hyperscan
def test_the_automaton_of_what_is_sought_is_small() -> None:
    """A literal such as `--- logging error ---` makes it six times as large, in 25 MB of memory."""
    assert AutomatonFinder(distinct(SOUGHT_LITERALS)).size < 300_000
