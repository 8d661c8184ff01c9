"""Which lines a comment accepts findings at."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from launcher.scripts.ignores import IgnoreComment, ignore_comments
from launcher.scripts.index import FileIndex
from launcher.scripts.reading import read_source


def comments(text: str) -> tuple[IgnoreComment, ...]:
    read = read_source(dedent(text).encode(), Path("train.py"))
    assert isinstance(read, FileIndex), read
    return ignore_comments(read)


def accepted_lines(text: str) -> list[int]:
    lines = range(1, text.count("\n") + 2)
    return [line for line in lines if any(each.accepts("DDP004", line) for each in comments(text))]


def test_a_comment_holds_for_its_own_line() -> None:
    assert accepted_lines("a = 1\nb = 2  # slipway: ignore[DDP004]\nc = 3\n") == [2]


def test_a_comment_alone_on_its_line_holds_for_the_statement_below() -> None:
    assert accepted_lines("a = 1\n# slipway: ignore[DDP004]\n\n# why\nb = 2\nc = 3\n")[-1] == 5


def test_it_holds_for_every_line_of_the_statement() -> None:
    assert accepted_lines("f(\n    a,\n    b,\n)  # slipway: ignore[DDP004]\nc = 3\n") == [1, 2, 3, 4]


def test_above_an_if_it_holds_for_the_head_alone() -> None:
    assert accepted_lines("# slipway: ignore[DDP004]\nif a:\n    b()\n") == [2]


def test_above_a_decorator_it_holds_for_what_is_decorated() -> None:
    assert accepted_lines("# slipway: ignore[DDP004]\n@a\n@b\ndef f():\n    pass\n") == [2, 3, 4]


def test_ignore_file_holds_for_all_lines_wherever_it_stands() -> None:
    assert accepted_lines("a = 1\nb = 2  # slipway: ignore-file[DDP004]\n") == [1, 2, 3]


def test_it_names_several_codes_each_with_its_column_and_a_reason() -> None:
    (comment,) = comments("a = 1  # slipway: ignore[DDP004, CKPT008]  one host only\n")
    assert comment.codes == (("DDP004", 26), ("CKPT008", 34))
    assert comment.reason == "one host only"
    assert not comment.accepts("DDP008", 1)


def test_within_a_string_it_is_no_comment() -> None:
    assert comments('a = "# slipway: ignore[DDP004]"\n') == ()


def test_a_word_about_a_slipway_is_no_comment_of_this_kind() -> None:
    assert comments("a = 1  # slipway: where ships are built\n") == ()


@pytest.mark.parametrize(
    ("written", "flaw"),
    [
        ("ignore DDP004", "`ignore DDP004` is not known"),
        ("ignore", "`ignore` names no codes in brackets"),
        ("ignore[]", "`ignore` names no codes in brackets"),
        ("ignore[DDP004", "`ignore` names no codes in brackets"),
        ("ignores[DDP004]", "`ignores[DDP004]` is not known"),
    ],
)
def test_a_comment_that_cannot_be_read_says_why_and_accepts_nothing(written: str, flaw: str) -> None:
    (comment,) = comments(f"a = 1  # slipway: {written}\n")
    assert comment.flaw == flaw
    assert not comment.accepts("DDP004", 1)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_are_counted_as_python_counts_them(newline: str) -> None:
    text = f"a = 1{newline}\x0c{newline}b = 2  # slipway: ignore[DDP004]{newline}"
    read = read_source(text.encode(), Path("train.py"))
    assert isinstance(read, FileIndex)
    assert [comment.line for comment in ignore_comments(read)] == [3]
