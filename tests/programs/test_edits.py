"""Edits change what they name, and nothing around it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.failure_modes.model import Edit, Fix
from launcher.scripts.edits import (
    EditError,
    compatible,
    edited,
    replaced,
    statement_before,
    without_keyword,
    wrapped,
)
from launcher.scripts.index import FileIndex
from launcher.scripts.reading import read_source
from launcher.scripts.scopes import statement_of

Edits = Callable[[ast.Call], Edit | tuple[Edit, ...] | None]


def after(data: bytes, make: Edits) -> bytes:
    """A file after the edits that are made of its call of `target`."""
    read = read_source(data, Path("train.py"))
    assert isinstance(read, FileIndex), read
    (call,) = read.calls_of["target"]
    made = make(call)
    assert made is not None
    return edited(data, made if isinstance(made, tuple) else (made,))


def sort_it(call: ast.Call) -> tuple[Edit, ...]:
    return wrapped(call, "sorted(", ")")


def test_an_expression_is_wrapped_and_stays_as_it_is_written() -> None:
    assert after(b"for a in target( 'x' ):  # why\n    pass\n", sort_it) == (
        b"for a in sorted(target( 'x' )):  # why\n    pass\n"
    )


def test_an_expression_is_replaced() -> None:
    data = b"os.environ['A'] = target(1, 2)   # why\n"
    assert after(data, lambda call: replaced(call, '"1"')) == b"os.environ['A'] = \"1\"   # why\n"


@pytest.mark.parametrize(
    "data",
    [
        "é = 'ü'; target('ä')\n".encode(),
        b"\xef\xbb\xbf" + "é = 'ü'; target('ä')\n".encode(),
        "# -*- coding: latin-1 -*-\né = 'ü'; target('ä')\n".encode("latin-1"),
        "# -*- coding: shift_jis -*-\nx = '日本'; target('語')\n".encode("shift_jis"),
        b"x = '''a\r\nb'''\r\ntarget(1)\r\n",
        b"x = 1\rtarget(1)\r",
        b"\x0cx = 1\n\x0c\ntarget(1)",
        b"if True:\n\ttarget(1)  \n\n\n",
    ],
    ids=["utf-8", "mark", "latin-1", "shift_jis", "crlf", "cr", "form feeds", "tabs"],
)
def test_all_around_stays_byte_for_byte(data: bytes) -> None:
    begin = data.index(b"target(")
    end = data.index(b")", begin) + 1
    assert after(data, sort_it) == data[:begin] + b"sorted(" + data[begin:end] + b")" + data[end:]


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        (b"target(a, shuffle=True, sampler=s)\n", b"target(a, sampler=s)\n"),
        (b"target(a, sampler=s, shuffle=True)\n", b"target(a, sampler=s)\n"),
        (b"target(shuffle=True, sampler=s)\n", b"target(sampler=s)\n"),
        (b"target(shuffle=True)\n", b"target()\n"),
        (b"target(shuffle=True,)\n", b"target()\n"),
        (b"target((a), shuffle=True)\n", b"target((a))\n"),
        (b"target(\n    a,\n    shuffle=True,\n    b=1,\n)\n", b"target(\n    a,\n    b=1,\n)\n"),
        (b"target(\n    a,\n    b=1,\n    shuffle=True,\n)\n", b"target(\n    a,\n    b=1,\n)\n"),
    ],
)
def test_a_keyword_goes_with_its_comma(before: bytes, wanted: bytes) -> None:
    assert after(before, lambda call: without_keyword(call, "shuffle")) == wanted


def test_a_keyword_behind_a_comment_stays() -> None:
    read = read_source(b"target(a,  # all of it\n       shuffle=True)\n", Path("train.py"))
    assert isinstance(read, FileIndex)
    assert without_keyword(read.calls[0], "shuffle") is None


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_a_statement_comes_before_another_with_its_indentation_and_newline(newline: bytes) -> None:
    data = b"for a in b:" + newline + b"\t# why" + newline + b"\ttarget(1)" + newline
    wanted = data.replace(b"\ttarget", b"\tsampler.set_epoch(a)" + newline + b"\ttarget")
    assert after(data, lambda call: statement_before(statement_of(call), "sampler.set_epoch(a)")) == wanted


def test_a_statement_behind_another_on_its_line_gets_none_before_it() -> None:
    read = read_source(b"a = 1; target(1)\n", Path("train.py"))
    assert isinstance(read, FileIndex)
    assert statement_before(statement_of(read.calls[0]), "b()") is None


def edit(start: int, end: int, text: str = "") -> Edit:
    return Edit("train.py", start, end, text)


def test_edits_that_overlap_are_refused() -> None:
    with pytest.raises(EditError, match="overlap at character 2"):
        edited(b"abcdef\n", [edit(0, 3, "x"), edit(2, 4, "y")])


def test_two_insertions_at_one_place_are_refused() -> None:
    with pytest.raises(EditError, match="overlap"):
        edited(b"abcdef\n", [edit(1, 1, "x"), edit(1, 1, "y")])


def test_the_same_edit_twice_is_made_once() -> None:
    assert edited(b"abcdef\n", [edit(0, 1, "x"), edit(0, 1, "x")]) == b"xbcdef\n"


def test_edits_next_to_each_other_are_both_made() -> None:
    assert edited(b"abcdef\n", [edit(0, 1, "x"), edit(1, 2, "y")]) == b"xycdef\n"


def test_an_edit_outside_of_the_file_is_refused() -> None:
    with pytest.raises(EditError, match="outside"):
        edited(b"a = 1\n", [edit(3, 99, "x")])


def test_what_would_not_parse_is_refused() -> None:
    with pytest.raises(EditError, match="no valid Python"):
        edited(b"a = 1\n", [edit(0, 1, "(")])


def test_what_the_encoding_lacks_is_refused() -> None:
    with pytest.raises(EditError, match="iso-8859-1 lacks '語'"):
        edited(b"# coding: latin-1\na = 1\n", [edit(18, 19, "語")])


def test_of_fixes_that_overlap_the_first_is_made_and_whole() -> None:
    first = Fix(True, (edit(0, 2), edit(8, 9)))
    second = Fix(True, (edit(4, 5), edit(1, 3)))
    third = Fix(True, (edit(4, 6),))
    assert compatible([first, second, third]) == [first, third]
