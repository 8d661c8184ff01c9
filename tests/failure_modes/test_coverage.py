"""What is claimed about stages is what the code does, and no more than was planned."""

from __future__ import annotations

import pytest

from launcher.failure_modes.catalogue import CATALOGUE
from launcher.failure_modes.coverage import IN_WORDS, stages_covered
from launcher.failure_modes.model import Stage
from tools.generate import failure_mode_page as generator


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


def test_the_page_has_a_section_for_every_mode() -> None:
    page = generator.PAGE.read_text("utf-8")
    assert [code for code in CATALOGUE if f"\n### {code}\n" not in page] == []


def test_the_page_says_that_it_is_generated_and_how() -> None:
    first_line = generator.PAGE.read_text("utf-8").splitlines()[0]
    assert generator.COMMAND in first_line


def test_a_claim_about_an_unknown_mode_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "_claims", lambda: iter([(Stage.RUNTIME, "EFA999", "slipway.failure")]))
    with pytest.raises(ValueError, match=r"slipway\.failure claims EFA999"):
        generator.collect()


def test_markup_outside_of_code_is_shown_as_it_is() -> None:
    covered = dict.fromkeys(CATALOGUE, ())
    page = generator.page(covered)
    assert "'\\<type> for training job usage'" in page
    assert "`lustre: /train`" in page
