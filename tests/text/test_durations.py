"""Seconds as they are shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.jobs.values import parse_duration
from launcher.text.durations import duration_in_words, elapsed_time, exact_duration

DAY = 86400


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0s"), (90, "1m30s"), (1800, "30m"), (5400, "1h30m"), (DAY, "24h"), (28 * DAY, "672h")],
)
def test_a_span_reads_like_in_the_job_file(seconds: int, words: str) -> None:
    assert exact_duration(seconds) == words


@given(st.integers(min_value=0, max_value=10**7))
def test_the_job_file_reads_an_exact_duration_back(seconds: int) -> None:
    assert parse_duration(exact_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "0s"),
        (59.9, "59s"),
        (60, "1m00s"),
        (187, "3m07s"),
        (3600, "1h00m"),
        (7530, "2h05m"),
        (DAY, "24h00m"),
    ],
)
def test_what_has_passed_is_shown_to_two_units(seconds: float, words: str) -> None:
    assert elapsed_time(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "less than a minute"),
        (59, "less than a minute"),
        (61, "1 minute"),
        (119, "1 minute"),
        (120, "2 minutes"),
        (7199, "119 minutes"),
        (7200, "2 hours"),
        (3 * DAY, "72 hours"),
    ],
)
def test_a_sentence_has_the_duration_rounded_down(seconds: float, words: str) -> None:
    assert duration_in_words(seconds) == words
