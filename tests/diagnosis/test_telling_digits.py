"""Which numbers of a line may make a row match, or not, by a single digit of theirs."""

from __future__ import annotations

import re

import pytest

from launcher.diagnosis.known_shapes import Layout, kind_of, shape_of
from launcher.diagnosis.signatures.table import SIGNATURES
from launcher.diagnosis.telling_digits import parts_with_digits, telling_numbers


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        (r"rank \d{1,6} failed", []),
        (r"\[Errno 104\] Connection (?:reset|closed)", [b"[errno 0] connection "]),
        (r"Error 80[34]: .*", [b"error 0: "]),
        (r"exit (?P<code>134|-6)(?!\d)", [b"0", b"-0"]),
        (r"(?<![\d.])\d+\.\d+ GiB", []),
        (r"Request 0x[0-9a-f]+ failed", []),
        (r"[\w.-]+ and [^\s]+ and .{1,9}", []),
        (r"s3://\S+ 40[13]", [b"s0://", b" 0"]),
    ],
)
def test_the_texts_around_the_digits_that_a_pattern_names_are_known(pattern: str, parts: list[bytes]) -> None:
    assert parts_with_digits(re.compile(pattern)) == frozenset(parts)


@pytest.mark.parametrize("pattern", [r"GPU \d ", r"\d\d:\d\d", r"\d{4}-", r"at \d{1,3}\.", r"10?"])
def test_where_the_width_of_a_number_counts_all_digits_may(pattern: str) -> None:
    assert parts_with_digits(re.compile(pattern)) is None


def told(line: str) -> list[str] | None:
    raw = line.encode()
    shape = shape_of(raw.lower())
    places = telling_numbers(kind_of(shape))
    return None if places is None else [line[start:end] for start, end in Layout(shape).of_shape(places)]


def test_only_the_numbers_count_that_may_have_the_digits_of_a_row() -> None:
    assert told("pid 1234: OSError: [Errno 122] Disk quota exceeded: '/mnt/77'") == ["122"]
    assert told("10.0.3.4<30123> failed : Connection reset by peer") == []
    assert told("[rank131]: ValueError: bad value 1234567") == []


def test_of_an_exit_code_all_numbers_may_count() -> None:
    assert told("host 12: exit code 137") in (None, ["12", "137"])


def test_places_of_a_kind_are_those_of_its_lines() -> None:
    line = b"[rank131]: step 123456 at 0x7f3a: 7"
    layout = Layout(shape_of(line))
    spans = ((5, 8), (16, 22), (26, 32), (34, 35))
    assert [line[start:end] for start, end in spans] == [b"131", b"123456", b"0x7f3a", b"7"]
    of_kind = layout.of_kind(spans)
    assert of_kind is not None
    assert layout.of_shape(of_kind) == spans
    assert layout.of_kind(((6, 8),)) is None  # it cuts a number


def test_lines_that_differ_in_their_numbers_alone_are_of_one_kind() -> None:
    one, other = b"[rank5]: 0x7f3a at 10.0.3.4", b"[rank131]: 0xc1 at 10.22.131.4"
    assert kind_of(shape_of(one)) == kind_of(shape_of(other))
    assert kind_of(shape_of(b"rank 5")) != kind_of(shape_of(b"rank 1234567"))


def test_of_few_rows_any_digit_of_a_line_may_count() -> None:
    """A storm of lines with the literal of such a row is not left out: so `\\d{1,6}`, and not `\\d{1,5}`."""
    wide = {row.literal for row in SIGNATURES if parts_with_digits(row.pattern) is None}
    assert wide == {
        " workers (tasks / actors) killed due to memory pressure (oom)",
        " death signal",
        "signalexception",
        "exitcode ",
        " crashed with exit code ",
        ") exited with code ",
        "process name: [",
    }
