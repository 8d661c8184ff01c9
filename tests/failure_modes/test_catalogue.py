"""The catalogue is complete, and each entry says what an entry must say."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from operator import attrgetter

import pytest

from launcher import failure_modes
from launcher.failure_modes import nccl, sources
from launcher.failure_modes.model import FailureMode, Source
from launcher.failure_modes.registry import ATTRIBUTES, CATALOGUE, FAMILIES

KNOWN_SOURCES = [value for value in vars(sources).values() if isinstance(value, Source)]


def wrong(holds: Callable[[FailureMode], bool]) -> list[str]:
    """The codes of the modes for which something does not hold."""
    return [mode.code for mode in CATALOGUE.values() if not holds(mode)]


def test_no_two_modes_have_the_same_code() -> None:
    modes = [each for family in ATTRIBUTES.values() for each in vars(family).values()]
    codes = [each.code for each in modes if isinstance(each, FailureMode)]
    assert sorted(codes) == sorted(CATALOGUE)
    assert [mode for modes in FAMILIES.values() for mode in modes] == list(CATALOGUE.values())


def test_a_mode_is_found_under_its_own_code_and_name() -> None:
    assert CATALOGUE["NCCL005"] is nccl.SYSTEM_ERROR
    assert nccl.SYSTEM_ERROR.code == "NCCL005"


def test_a_name_that_no_family_has_is_no_attribute() -> None:
    for path in ("nccl.SYSTM_ERROR", "ncl"):
        with pytest.raises(AttributeError, match=path.rpartition(".")[2]):
            attrgetter(path)(failure_modes)


def test_a_cause_counts_before_an_effect_and_an_effect_before_an_echo() -> None:
    weakness = [CATALOGUE[code].weakness for code in ("MEM001", "NCCL004", "NCCL006")]
    assert weakness == [0, 1, 2]


def test_cause_and_remedy_are_whole_sentences() -> None:
    assert wrong(lambda mode: all(text.endswith(".") for text in (mode.cause, mode.remedy))) == []
    assert wrong(lambda mode: min(len(mode.cause), len(mode.remedy)) > 40) == []


def test_a_title_is_short_and_no_sentence() -> None:
    assert wrong(lambda mode: 0 < len(mode.title) <= 100 and not mode.title.endswith(".")) == []


def test_backticks_come_in_pairs() -> None:
    assert (
        wrong(lambda mode: all(text.count("`") % 2 == 0 for text in (mode.title, mode.cause, mode.remedy)))
        == []
    )


def test_a_mode_names_its_sources() -> None:
    assert wrong(lambda mode: 0 < len(mode.sources) == len(set(mode.sources))) == []


def test_every_known_source_is_cited() -> None:
    assert {*KNOWN_SOURCES} - {source for mode in CATALOGUE.values() for source in mode.sources} == set()


def test_no_two_sources_have_the_same_title() -> None:
    assert len(KNOWN_SOURCES) == len({source.title for source in KNOWN_SOURCES})


def test_sources_were_looked_at_by_now() -> None:
    """A date in the future was made up."""
    assert [source for source in KNOWN_SOURCES if source.as_of > datetime.date.today()] == []


@pytest.mark.parametrize("field", ["title", "cause", "remedy"])
def test_no_two_modes_share_a_text(field: str) -> None:
    texts = [getattr(mode, field) for mode in CATALOGUE.values()]
    assert len(texts) == len(set(texts))
