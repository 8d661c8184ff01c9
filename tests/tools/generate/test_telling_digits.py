"""Which digits of a line a pattern looks at."""

from __future__ import annotations

import re

import pytest

from tools.generate.telling_digits import parts_with_digits


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
