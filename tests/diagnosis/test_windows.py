"""Streams of bytes are cut into lines of bounded length, wherever their blocks end."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.diagnosis.windows import AHEAD, LONGEST, WINDOW, Window, Windows


def windows(blocks: list[bytes], size: int = WINDOW) -> list[Window]:
    cut = Windows(size)
    found = [window for block in blocks for window in cut.feed(block)]
    return [*found, *cut.end()]


def lines(blocks: list[bytes], size: int = WINDOW) -> list[bytes]:
    return [line for window in windows(blocks, size) for line in window.lines[: window.count]]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n"]), max_size=60).map(b"".join),
    st.integers(1, 9),
    st.integers(1, 40),
)
def test_the_lines_are_the_same_wherever_blocks_and_windows_end(text: bytes, block: int, size: int) -> None:
    blocks = [text[at : at + block] for at in range(0, len(text), block)]
    wanted = re.split(rb"\r\n|\r|\n", text)
    assert lines(blocks, size) == (wanted if wanted[-1] else wanted[:-1])


def test_windows_number_their_lines_and_look_ahead() -> None:
    text = b"".join(b"line %d\n" % number for number in range(1000))
    found = windows([text], 500)
    assert len(found) > 10
    for window in found[:-1]:
        assert len(window.lines) == window.count + AHEAD
        assert window.lines[-1] == b"line %d" % (window.start + len(window.lines) - 1)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([b"", b"a", b"line"]), min_size=1, max_size=60).map(b"\n".join),
    st.integers(1, 80),
    st.integers(1, 30),
)
def test_the_last_lines_of_a_window_are_those_that_it_has_when_it_is_cut_apart(
    text: bytes, size: int, most: int
) -> None:
    for window in windows([text], size):
        last = window.last(most)
        assert last == window.lines[max(0, window.count - most) : window.count]


def test_a_line_that_somebody_noted_is_the_same_before_and_after_the_lines_are_cut_apart() -> None:
    text = b"".join(b"line %d\n" % number for number in range(20))
    for number in (0, 7, 15, 19):
        (window,) = windows([text])
        window.note(number, text.index(b"line %d\n" % number))
        early = (window.line(number), window.after(number))
        assert early == (window.lines[number], window.lines[number + 1 : number + 1 + AHEAD])
        assert early == (window.line(number), window.after(number))


def test_of_a_line_without_an_end_only_the_beginning_is_kept() -> None:
    cut = Windows()
    for _ in range(20):
        assert list(cut.feed(b"x" * (1 << 20))) == []
        assert sum(map(len, cut._blocks)) <= WINDOW + LONGEST
    found = [*cut.feed(b"\nnext\n"), *cut.end()]
    assert [window.lines for window in found] == [[b"x" * LONGEST, b"next"]]


def test_a_break_behind_a_long_line_may_be_cut_in_half() -> None:
    for end in (b"\r", b"\n", b"\r\n"):
        long = b"x" * (2 * WINDOW - 1) + end + b"next"
        assert lines([long]) == [b"x" * LONGEST, b"next"]
