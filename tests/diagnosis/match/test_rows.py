"""Which rows match a line, and in which lines single digits count."""

from __future__ import annotations

import random
import re

from launcher.diagnosis.match.rows import rows_matching, telling_numbers
from launcher.diagnosis.signatures import SIGNATURES, Signature
from launcher.text.log_lines import Layout, digit_kind, digit_shape


def one_by_one(text: str) -> list[tuple[Signature, dict[str, str]]]:
    """What matches by each row's own pattern, with nothing remembered."""
    rows = [row for row in SIGNATURES if row.literal in text.lower()]
    found = [(row, row.pattern.search(text)) for row in rows]
    return [
        (row, {name: value for name, value in match.groupdict().items() if value is not None})
        for row, match in found
        if match is not None
    ]


def test_lines_that_differ_in_their_digits_match_what_they_match_alone() -> None:
    chance = random.Random(5)

    def another(digit: re.Match[str]) -> str:
        return chance.choice((digit[0], str(chance.randrange(10))))

    different = []
    for row in SIGNATURES:
        for _ in range(6):
            text = re.sub(r"\d", another, row.example)
            if list(rows_matching(text)) != one_by_one(text):
                different.append(text)
    assert different == []


def test_blanks_with_which_a_terminal_fills_a_line_change_nothing() -> None:
    for row in SIGNATURES:
        assert list(rows_matching(f"{row.example}   \t")) == list(rows_matching(row.example))


def told(line: str) -> list[str] | None:
    raw = line.encode()
    shape = digit_shape(raw.lower())
    places = telling_numbers(digit_kind(shape))
    return None if places is None else [line[start:end] for start, end in Layout(shape).of_shape(places)]


def test_only_the_numbers_count_that_may_have_the_digits_of_a_row() -> None:
    assert told("pid 1234: OSError: [Errno 122] Disk quota exceeded: '/mnt/77'") == ["122"]
    assert told("10.0.3.4<30123> failed : Connection reset by peer") == []
    assert told("[rank131]: ValueError: bad value 1234567") == []


def test_of_an_exit_code_all_numbers_may_count() -> None:
    assert told("host 12: exit code 137") in (None, ["12", "137"])


def test_places_of_a_kind_are_those_of_its_lines() -> None:
    line = b"[rank131]: step 123456 at 0x7f3a: 7"
    layout = Layout(digit_shape(line))
    spans = ((5, 8), (16, 22), (26, 32), (34, 35))
    assert [line[start:end] for start, end in spans] == [b"131", b"123456", b"0x7f3a", b"7"]
    of_kind = layout.of_kind(spans)
    assert of_kind is not None
    assert layout.of_shape(of_kind) == spans
    assert layout.of_kind(((6, 8),)) is None  # it cuts a number


def test_lines_that_differ_in_their_numbers_alone_are_of_one_kind() -> None:
    one, other = b"[rank5]: 0x7f3a at 10.0.3.4", b"[rank131]: 0xc1 at 10.22.131.4"
    assert digit_kind(digit_shape(one)) == digit_kind(digit_shape(other))
    assert digit_kind(digit_shape(b"rank 5")) != digit_kind(digit_shape(b"rank 1234567"))


def test_of_few_rows_any_digit_of_a_line_may_count() -> None:
    """A storm of lines with the literal of such a row is not left out: so `\\d{1,6}`, and not `\\d{1,5}`."""
    wide = {row.literal for row in SIGNATURES if row.digits is None}
    assert wide == {
        " workers (tasks / actors) killed due to memory pressure (oom)",
        " death signal",
        "signalexception",
        "exitcode ",
        " crashed with exit code ",
        ") exited with code ",
        "process name: [",
    }
