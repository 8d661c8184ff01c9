"""Which rows match a text, whatever was read before it."""

from __future__ import annotations

import random
import re

from launcher.diagnosis.matching import rows_matching
from launcher.diagnosis.signatures.signature import Signature
from launcher.diagnosis.signatures.table import SIGNATURES


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
        for _ in range(12):
            text = re.sub(r"\d", another, row.example)
            if list(rows_matching(text)) != one_by_one(text):
                different.append(text)
    assert different == []


def test_blanks_with_which_a_terminal_fills_a_line_change_nothing() -> None:
    for row in SIGNATURES:
        assert list(rows_matching(f"{row.example}   \t")) == list(rows_matching(row.example))
