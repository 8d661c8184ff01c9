"""Seconds as they are shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from launcher.diagnosis.logs.lines import redacted
from launcher.text.values import (
    CREDENTIAL_FORMS,
    HIDDEN,
    LONGEST_WORD,
    credential_in,
    duration_in_words,
    elapsed_time,
    exact_duration,
    gibibytes,
    gigabytes,
    nearest,
    parse_duration,
    ranks_text,
    size_in_words,
    split_uri,
    without_controls,
    without_secrets,
)
from slipway.watchdog import judge_stall

CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))

DAY = 86400


def test_a_span_reads_like_in_the_job_file() -> None:
    words = {0: "0s", 90: "1m30s", 1800: "30m", 5400: "1h30m", DAY: "24h", 28 * DAY: "672h"}
    assert {seconds: exact_duration(seconds) for seconds in words} == words


@given(st.integers(min_value=0, max_value=10**7))
def test_the_job_file_reads_an_exact_duration_back(seconds: int) -> None:
    assert parse_duration(exact_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("name", "in_words"),
    [("passed", elapsed_time), ("sentences", duration_in_words), ("sizes", size_in_words)],
)
def test_a_number_is_shown_in_words(name: str, in_words: Callable[[float], str]) -> None:
    assert [(number, in_words(number)) for number, _ in CASES[name]] == [tuple(each) for each in CASES[name]]


def test_disks_and_memory_have_the_units_that_they_are_sold_in() -> None:
    assert [gigabytes(count * 1000**3) for count in (10_000, 501)] == ["10,000 GB", "501 GB"]
    assert gibibytes(40 * 2**30) == "40.0 GiB"


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ([2], "rank 2"),
        ([3, 0, 1], "ranks 0, 1, 3"),
        ([*range(7), *range(8, 64)], "ranks 0-6, 8-63"),
        (range(0, 64, 2), "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 24 more stretches"),
        ([5, 5], "rank 5"),
    ],
)
def test_ranks_are_named_or_drawn_together(ranks: list[int], words: str) -> None:
    assert ranks_text(ranks) == words


@given(st.sets(st.integers(0, 40), min_size=1))
def test_the_container_and_the_launcher_say_it_alike(ranks: set[int]) -> None:
    assert judge_stall.ranks_text(sorted(ranks, reverse=True)) == ranks_text(sorted(ranks, reverse=True))


def test_a_uri_is_a_bucket_and_a_key() -> None:
    parts = {"s3://data/train/1": ("data", "train/1"), "s3://data/": ("data", ""), "s3://data": ("data", "")}
    assert {uri: split_uri(uri) for uri in parts} == parts


@pytest.mark.parametrize(("text", "shown"), CASES["controls"])
def test_colours_go_and_what_would_act_unseen_is_written_out(text: str, shown: str) -> None:
    assert without_controls(text) == shown


@given(st.text())
def test_nothing_that_acts_is_left(text: str) -> None:
    left = without_controls(text)
    assert not any((ord(each) < 0x20 and each not in "\t\n") or 0x7F <= ord(each) < 0xA0 for each in left)
    assert not set(left) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    assert without_controls(left) == left


@given(st.text())
def test_json_keeps_its_value(text: str) -> None:
    assert json.loads(without_controls(json.dumps({text: [text]}, ensure_ascii=False))) == {text: [text]}


TYPES = ["ml.p4d.24xlarge", "ml.p4de.24xlarge", "ml.p5.48xlarge"]


def test_the_likest_come_first_and_no_more_than_asked_for() -> None:
    assert nearest("ml.p4d.24xlrge", TYPES) == ["ml.p4d.24xlarge"]
    assert nearest("ml.p4d.24xlrge", TYPES, most=2) == ["ml.p4d.24xlarge", "ml.p4de.24xlarge"]
    assert nearest("banana", TYPES) == []


def test_a_word_too_long_for_a_slip_is_not_compared() -> None:
    near = "x" * LONGEST_WORD
    assert nearest(near, [near]) == [near]
    assert nearest(f"{near}x", [near]) == []


LETTERS = "abcdefghijklmnopqrst"

CREDENTIALS = {
    "an AWS access key id": "AKIA" + "IOSFODNN7EXAMPLE",
    "a private key": "-----BEGIN OPENSSH PRIVATE KEY-----" + LETTERS,
    "a GitHub token": "ghp_" + LETTERS,
    "a GitLab token": "glpat-" + LETTERS,
    "a Hugging Face token": "hf_" + LETTERS,
    "a Slack token": "xoxe-" + LETTERS,
    "an API key": "nvapi-" + LETTERS,
    "a JSON web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
    "a password in a URL": "postgres://me:" + LETTERS + "@db/x",
    "an AWS secret": "aws_secret_access_key: wJalrXUtnFEMI" + LETTERS,
}


@pytest.mark.parametrize(("what", "form"), CREDENTIAL_FORMS, ids=[what for what, _ in CREDENTIAL_FORMS])
def test_a_credential_is_known_by_its_form_and_hidden(what: str, form: re.Pattern[str]) -> None:
    text = f"value {CREDENTIALS[what]}"
    assert credential_in(text) == what
    found = form.search(text)
    assert found is not None
    assert found["value"] not in redacted(text)
    assert HIDDEN in redacted(text)


def test_what_only_begins_like_a_credential_is_none() -> None:
    for text in ("hf_hub_download", "sk-learn", "ghp_", "AKIA", "https://host:8080/x", "eyJ.a.b"):
        assert credential_in(text) is None
    # What stands around a secret stays.
    assert without_secrets("a b=c d", re.compile("b=(?P<value>c)")) == f"a b={HIDDEN} d"
