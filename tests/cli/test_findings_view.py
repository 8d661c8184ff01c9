"""Findings on a terminal: what, where with the line, what to do; and no secret."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.cli.findings_view import show_findings
from launcher.cli.output import console
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Location, Severity, Stage

Shown = Callable[..., str]

FILE = """name: a_b
environment:
  # why
  TOKEN: planted-value

hyperparameters: {key: planted-value}
code:
  entry_point: train.py
"""


@pytest.fixture
def shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shown:
    file = tmp_path / "job.yaml"
    file.write_text(FILE)

    def show(line: int, column: int) -> str:
        place = Location(str(file), line, column)
        finding = job_file.INVALID_VALUE.finding(Stage.SPEC, "is wrong", remedy="Mend it.", location=place)
        show_findings(console(), [finding])
        return capsys.readouterr().out

    return show


def test_the_line_is_shown_with_a_caret_below_the_place(shown: Shown) -> None:
    lines = [line.rstrip() for line in shown(8, 3).splitlines()]
    text = next(line for line in lines if "entry_point: train.py" in line)
    caret = lines[lines.index(text) + 1]
    assert caret.index("^") == text.index("entry_point")


@pytest.mark.parametrize("line", [4, 6])
def test_a_line_that_may_hold_a_secret_is_not_shown(shown: Shown, line: int) -> None:
    printed = shown(line, 3)
    assert "planted-value" not in printed
    assert f":{line}:3" in printed


def test_credentials_of_an_address_are_hidden_in_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("--index https://me:planted@host/simple --bogus\n")
    place = Location(str(file), 1, file.read_text().index("--bogus") + 1)
    show_findings(
        console(), [job_file.INVALID_VALUE.finding(Stage.SPEC, "is wrong", remedy="Mend", location=place)]
    )
    text, caret = [line.rstrip() for line in capsys.readouterr().out.splitlines()][-3:-1]
    assert "planted" not in text
    assert caret.index("^") == text.index("--bogus")


def test_a_place_outside_of_the_file_has_no_excerpt(shown: Shown) -> None:
    assert "^" not in shown(99, 1)


def test_the_worst_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    order = [Severity.INFO, Severity.ERROR, Severity.WARNING]
    show_findings(
        console(),
        [job_file.INVALID_VALUE.finding(Stage.SPEC, severity.value, severity=severity) for severity in order],
    )
    printed = capsys.readouterr().out
    assert printed.index("error") < printed.index("warning") < printed.index("info")
