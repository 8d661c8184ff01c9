"""The labels of findings in public programs fit the packages, and the figures are those of the binomial."""

from __future__ import annotations

import pytest

from launcher.failure_modes.registry import CATALOGUE
from tools.checks.real_programs import EARLIER, NEW, Figures, half_of, labels, packages


def test_each_label_is_of_a_package_and_of_a_code_that_there_is() -> None:
    there = {(each.name, each.version) for each in packages()}
    codes = set(CATALOGUE)
    for label in labels():
        assert (label.package, label.version) in there
        assert label.code in codes
        assert label.why


def test_no_place_is_labelled_twice() -> None:
    places = [
        (each.package, each.version, each.file, each.code, line) for each in labels() for line in each.lines
    ]
    assert len(places) == len(set(places))


@pytest.mark.parametrize("halves", ["AB", "HI"])
def test_a_package_of_two_halves_that_were_fetched_together_is_of_that_of_its_name(halves: str) -> None:
    halved = [each for each in packages() if each.half in halves]
    assert {half_of(each.name, halves) for each in halved} == set(halves)
    assert [each.name for each in halved if each.half != half_of(each.name, halves)] == []


def test_a_package_that_was_fetched_can_be_fetched_again() -> None:
    fetched = [each for each in packages() if each.half != EARLIER]
    assert all(each.source and each.folder and each.version for each in fetched)
    assert all(each.sha256 for each in fetched if each.archive)
    sources = {half: {each.source for each in fetched if each.half == half} for half in NEW}
    for number, half in enumerate(NEW[2:], start=2):
        assert not sources[half] & {source for before in NEW[:number] for source in sources[before]}


@pytest.mark.parametrize("half", ["J", "K"])
def test_no_repository_of_these_halves_has_the_name_of_an_earlier_package_whoever_owns_it(half: str) -> None:
    names = {each.name.lower() for each in packages() if each.half == half}
    before = {EARLIER, *NEW[: NEW.index(half)]}
    earlier = {
        name.rpartition("/")[2].rpartition(":")[2].lower()
        for each in packages()
        if each.half in before
        for name in (each.name, each.source)
    }
    assert names
    assert names & earlier == set()


@pytest.mark.parametrize(("true", "found", "bound"), [(23, 23, 0.878), (14, 24, 0.397), (0, 5, 0.0)])
def test_the_bound_is_that_of_clopper_and_pearson(true: int, found: int, bound: float) -> None:
    assert Figures(true, found).bound == pytest.approx(bound, abs=0.001)


def test_nothing_found_promises_nothing() -> None:
    assert (Figures(0, 0).precision, Figures(0, 0).bound) == (1.0, 0.0)
