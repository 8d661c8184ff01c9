"""The page that goes through the seed documents: every row has its proof, and what can be run is run."""

from __future__ import annotations

import ast
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from launcher.cli.app import main
from launcher.failure_modes.model import Stage
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "contributing" / "seeds.md"

SENTENCES = 121
"""How many sentences of the documents ask, warn or describe a symptom, as counted when they were read."""


@dataclass(frozen=True)
class Row:
    """One sentence: what shows that it is handled, and the letters of the stages that it still waits for."""

    number: int
    sentence: str
    shown_by: tuple[str, ...]
    waits_for: str


@dataclass(frozen=True)
class Command:
    """A command of the page and the words that it must print."""

    row: int
    words: tuple[str, ...]
    says: str


def _rows() -> list[Row]:
    rows = []
    for line in PAGE.read_text("utf-8").splitlines():
        if re.match(r"\| \d+ \|", line):
            number, sentence, _, shown, waits_for = (cell.strip() for cell in line.strip("|").split(" |"))
            rows.append(Row(int(number), sentence, tuple(shown.split("<br>")), waits_for.replace(" ", "")))
    return rows


ROWS = _rows()


def _commands() -> list[Command]:
    found = []
    for row in ROWS:
        for shown in row.shown_by:
            command = re.fullmatch(r"`launch (.+?)` → (.+)", shown)
            if command:
                found.append(Command(row.number, tuple(shlex.split(command[1])), command[2]))
    return found


COMMANDS = _commands()


def _tests() -> list[str]:
    return [
        shown.strip("`") for row in ROWS for shown in row.shown_by if re.fullmatch(r"`tests/\S+::\w+`", shown)
    ]


def test_every_sentence_of_the_documents_has_a_row() -> None:
    assert [row.number for row in ROWS] == list(range(1, SENTENCES + 1))


def test_a_row_is_shown_by_something_unless_it_is_open() -> None:
    runnable = len(COMMANDS) + len(_tests())
    assert runnable + sum(row.shown_by == ("–",) for row in ROWS) == sum(len(row.shown_by) for row in ROWS)
    assert [row.number for row in ROWS if row.shown_by == ("–",) and not row.waits_for] == []


def test_open_rows_name_stages() -> None:
    letters = {stage.letter for stage in Stage}
    assert [row.number for row in ROWS if set(row.waits_for) - letters] == []


@pytest.mark.parametrize("test", sorted(set(_tests())))
def test_a_test_that_the_page_names_is_there(test: str) -> None:
    """A function of a test file, or what a file of cases has cases for: a rule, or a sentence."""
    path, name = test.split("::")
    if path.endswith(".yaml"):
        assert f"{name.replace('_', ' ')}:" in (ROOT / path).read_text("utf-8").splitlines()
        return
    if path.endswith(".test"):
        assert f"[rule {name}]" in (ROOT / path).read_text("utf-8").splitlines()
        return
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.few_cases(every=4)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: f"row-{command.row}")
def test_a_command_of_the_page_prints_what_it_says(
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("SLIPWAY_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main(list(command.words))
    assert _one_line(command.says) in _one_line(capsys.readouterr().out)


def _one_line(text: str) -> str:
    """Without what wrapping at a width adds, and without the page's own marks of code."""
    return " ".join(text.replace("`", "").split())
