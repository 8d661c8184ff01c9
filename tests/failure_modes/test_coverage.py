"""What is claimed about stages is what the code does, and no more than was planned."""

from __future__ import annotations

import pytest

from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import CATALOGUE, FAMILIES, IN_WORDS, stages_covered
from tools.generate.generated import command_of
from tools.generate.pages import failure_mode_page as generator


def test_the_output_does_not_vary_from_run_to_run() -> None:
    assert generator.generated() == generator.generated()


def test_a_mode_is_caught_only_at_stages_that_were_planned() -> None:
    beyond = {code: {*stages_covered(code)} - {*mode.stages} for code, mode in CATALOGUE.items()}
    assert {code: stages for code, stages in beyond.items() if stages} == {}


def test_stages_come_in_the_order_of_a_jobs_life() -> None:
    order = list(Stage)
    for code in CATALOGUE:
        positions = [order.index(stage) for stage in stages_covered(code)]
        assert positions == sorted(positions)


def test_an_unknown_code_is_caught_nowhere() -> None:
    assert stages_covered("EFA999") == ()


def test_every_stage_has_words() -> None:
    assert list(IN_WORDS) == list(Stage)


def test_every_mode_has_a_section_on_the_page_of_its_family() -> None:
    pages = {page.name: page.read_text("utf-8") for page in generator.PAGES.glob("*.md")}
    named = {code: generator.page_of_code(code).partition("#")[0] for code in CATALOGUE}
    assert [code for code, page in named.items() if f"\n## {code}\n" not in pages[page]] == []


def test_every_page_says_that_it_is_generated_and_how() -> None:
    for page in generator.PAGES.glob("*.md"):
        assert command_of("failure_mode_page") in page.read_text("utf-8").splitlines()[0]


def test_a_claim_about_an_unknown_mode_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "_claims", lambda: iter([(Stage.RUNTIME, "EFA999", "slipway.failure")]))
    with pytest.raises(ValueError, match=r"slipway\.failure claims EFA999"):
        generator.collect()


def test_markup_outside_of_code_is_shown_as_it_is() -> None:
    covered = dict.fromkeys(CATALOGUE, ())
    page = "".join(generator.family_page(family, modes, covered) for family, modes in FAMILIES.items())
    assert "'\\<type> for training job usage'" in page
    assert "`lustre: /train`" in page
