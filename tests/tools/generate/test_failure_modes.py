"""The families as people write them: what a file may say, and what is said of one that is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.generate.failure_modes import FOLDER, compiled
from tools.generate.generated import ROOT
from tools.generate.literals import demanded, literal_of

SOURCES, FAMILY = (
    Path(__file__).with_name("family").joinpath(f"{name}.toml").read_text("utf-8")
    for name in ("sources", "toasters")
)


def family(*changes: tuple[str, str]) -> dict[str, str]:
    text = FAMILY
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return {"sources": SOURCES, "toasters": text}


def test_a_row_is_made_for_each_of_a_list_and_of_fragments() -> None:
    cold, hot = compiled(family())[1]["log"]
    assert cold["pattern"] == r"toaster (?P<host>\w+) is too cold"
    assert (hot["mode"], hot["says"], hot["literal"]) == ("TOAST001", "{host} is too hot", " is too hot")
    assert ("vague" in cold, hot["vague"]) == (False, True)


def test_a_text_may_stand_in_several_lines() -> None:
    assert compiled(family())[0]["modes"][0]["cause"] == "It is left in for too long."


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('title = "the toast burns"', "", "toasters.toml: BURNS: title is missing"),
        ('title = "', 'titel = "', "toasters.toml: BURNS.titel: there is no such key"),
        ('severity = "error"', 'severity = "bad"', "toasters.toml: BURNS.severity: 'bad' is not"),
        ('stages = ["log"]', 'stages = ["D"]', "toasters.toml: BURNS.stages: 'D' is not"),
        ('retry = "never"', "", "toasters.toml: BURNS: retry is missing"),
        ('sources = ["PAGE"]', 'sources = ["BOOK"]', "toasters.toml: BURNS.sources: 'BOOK' is not known"),
        (
            'minutes", source = "PAGE"',
            'minutes", source = "BOOK"',
            "toasters.toml: BURNS.figures: a figure.source: 'BOOK' is not known",
        ),
        ('role = "initiator"', 'role = "first"', "toasters.toml: BURNS.log[1].role: 'first' is not"),
        ("{{WHERE}}", "{{THERE}}", "toasters.toml: BURNS.log[1].pattern: {{THERE}} stands for nothing"),
        ('"toaster {{WHERE}} "', '"toaster ("', "toasters.toml: BURNS.log[1].pattern: missing )"),
        ("INFO no toaster is too {{heat}}", "a jar", "toasters.toml: BURNS.log[1].near_miss: the near miss"),
        ("order = 1", "order = ", "toasters.toml: Invalid value"),
        ("precedence = 1", "precedent = 1", "toasters.toml.precedent: there is no such key"),
        ('heading = "Toasters"', "", "toasters.toml: 'heading'"),
        (
            'role = "initiator"',
            'role = "cascade"\nmode = "TOAST2"',
            "BURNS.log[1]: {'TOAST2'} is no mode's code",
        ),
    ],
)
def test_an_error_names_the_file_and_the_key(old: str, new: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        compiled(family((old, new)))


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        (r"rank \d+ failed", {"rank ", " failed"}),
        (r"^[Tt]imed out\b(?!, going on)", {"timed out"}),
        (r"(?:first|last) rank", {"st", " rank"}),
        (r"(?P<who>rank) (?>left)? (?:here){2}", {"rank ", " ", "here"}),
        (r"one\n {2,}two", {"one", "two"}),
    ],
)
def test_what_a_pattern_demands_is_known(pattern: str, texts: set[str]) -> None:
    assert {text for text in demanded(pattern, 0) if text} >= texts


def test_the_literal_is_what_pattern_and_near_miss_have_in_common() -> None:
    assert (
        literal_of(re.compile("NCCL WARN Call to bind failed"), "INFO the Call to bind ended")
        == " call to bind "
    )
    with pytest.raises(ValueError, match="take a nearer one"):
        literal_of(re.compile("NCCL WARN"), "nothing of it")


def test_the_page_for_developers_shows_a_mode_as_it_stands_there() -> None:
    page = (ROOT / "docs" / "contributing" / "developing.md").read_text("utf-8")
    shown = re.findall(r"```toml\n(\[.*?)```", page, re.DOTALL)
    assert len(shown) == 1
    assert shown[0] in (FOLDER / "training_script.toml").read_text("utf-8")
