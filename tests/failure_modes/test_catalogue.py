"""The catalogue is complete, and each entry says what an entry must say."""

from __future__ import annotations

import datetime
import importlib
import json
import pkgutil
from pathlib import Path

import pytest

from launcher import failure_modes
from launcher.failure_modes import sources
from launcher.failure_modes.catalogue import CATALOGUE, FAMILIES
from launcher.failure_modes.model import FailureMode, Retry, Source

DOCUMENTED = json.loads((Path(__file__).parent / "documented_severities.json").read_text("utf-8"))
"""Code to default severity, in the documented order."""

KNOWN_SOURCES = [value for value in vars(sources).values() if isinstance(value, Source)]

each_mode = pytest.mark.parametrize("mode", CATALOGUE.values(), ids=lambda mode: mode.code)


def test_the_catalogue_holds_exactly_the_documented_codes_in_their_order() -> None:
    assert list(CATALOGUE) == list(DOCUMENTED)


def test_none_of_the_modes_is_lost() -> None:
    assert len(CATALOGUE) == 106


@each_mode
def test_the_default_severity_is_the_documented_one(mode: FailureMode) -> None:
    assert mode.severity == DOCUMENTED[mode.code]


def test_no_mode_that_a_family_defines_is_left_out() -> None:
    defined = set()
    for module in pkgutil.iter_modules(failure_modes.__path__, "launcher.failure_modes."):
        members = vars(importlib.import_module(module.name)).values()
        defined |= {member.code for member in members if isinstance(member, FailureMode)}
    assert defined == set(CATALOGUE)


def test_no_mode_stands_in_two_families() -> None:
    listed = [mode.code for modes in FAMILIES.values() for mode in modes]
    assert len(listed) == len(set(listed))


@each_mode
def test_a_mode_is_found_under_its_own_code(mode: FailureMode) -> None:
    assert CATALOGUE[mode.code] is mode


def test_only_what_passes_by_itself_or_with_other_hosts_is_run_again() -> None:
    assert {mode.code: mode.retry.value for mode in CATALOGUE.values() if mode.retry is not Retry.NEVER} == {
        "CAP001": "later",
        "CKPT004": "same",
        "HUB001": "later",
        "DISK002": "same",
        "HW001": "other-hosts",
        "HW002": "other-hosts",
        "MEM003": "other-hosts",
        "MPI001": "other-hosts",
        "NCCL006": "other-hosts",
        "NCCL008": "same",
        "NCCL009": "same",
        "NCCL011": "other-hosts",
        "NEU001": "other-hosts",
        "STOP001": "same",
    }


def test_what_is_no_cause_of_its_own_is_marked_as_a_symptom() -> None:
    assert {mode.code: mode.symptom.value for mode in CATALOGUE.values() if mode.symptom is not None} == {
        "NCCL004": "effect",
        "NCCL005": "effect",
        "NCCL006": "echo",
        "NCCL008": "effect",
    }


def test_a_cause_counts_before_an_effect_and_an_effect_before_an_echo() -> None:
    weakness = [CATALOGUE[code].weakness for code in ("MEM001", "NCCL004", "NCCL006")]
    assert weakness == [0, 1, 2]


@each_mode
def test_cause_and_remedy_are_whole_sentences(mode: FailureMode) -> None:
    for text in (mode.cause, mode.remedy):
        assert text == " ".join(text.split())
        assert text.endswith(".")
        assert len(text) > 40


@each_mode
def test_a_title_is_short_and_no_sentence(mode: FailureMode) -> None:
    assert 0 < len(mode.title) <= 100
    assert not mode.title.endswith(".")


@each_mode
def test_backticks_come_in_pairs(mode: FailureMode) -> None:
    for text in (mode.title, mode.cause, mode.remedy):
        assert text.count("`") % 2 == 0


@each_mode
def test_a_mode_names_its_sources(mode: FailureMode) -> None:
    assert mode.sources
    assert len(mode.sources) == len(set(mode.sources))
    assert set(mode.sources) <= set(KNOWN_SOURCES)


@pytest.mark.parametrize("source", KNOWN_SOURCES, ids=str)
def test_every_known_source_is_cited(source: Source) -> None:
    assert any(source in mode.sources for mode in CATALOGUE.values())


def test_no_two_sources_have_the_same_title() -> None:
    assert len(KNOWN_SOURCES) == len({source.title for source in KNOWN_SOURCES})


def test_sources_were_looked_at_by_now() -> None:
    """A date in the future was made up."""
    assert all(source.as_of <= datetime.date.today() for source in KNOWN_SOURCES)


@pytest.mark.parametrize("field", ["title", "cause", "remedy"])
def test_no_two_modes_share_a_text(field: str) -> None:
    texts = [getattr(mode, field) for mode in CATALOGUE.values()]
    assert len(texts) == len(set(texts))
