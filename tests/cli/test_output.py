"""What commands print cannot act on the terminal that shows it, whatever it holds."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from launcher.cli.output import console, message, passing, print_json

HOSTILE = "a\x1b]52;c;ZXZpbA==\x1b\\\x9d52;c;ZXZpbA==\x9c\x9b2J\u202ez"
SHOWN = r"a\u009d52;c;ZXZpbA==\u009c\u009b2J\u202ez"


def in_a_table(text: str) -> Table:
    table = Table.grid()
    table.add_row(Text(text))
    return table


def test_messages_show_controls_instead_of_sending_them(capsys: pytest.CaptureFixture[str]) -> None:
    message(f"error: {HOSTILE}")
    assert capsys.readouterr().err == f"error: {SHOWN}\n"


@pytest.mark.parametrize("make", [str, Text, in_a_table])
def test_what_rich_prints_shows_controls_instead_of_sending_them(
    make: Callable[[str], RenderableType], capsys: pytest.CaptureFixture[str]
) -> None:
    console().print(make(HOSTILE), markup=False)
    printed = capsys.readouterr().out
    assert printed.startswith(SHOWN[:20])
    assert not set(printed) & set(HOSTILE) - set(SHOWN)


def test_colours_of_our_own_stay(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    console().print(Text(HOSTILE, "bold red"))
    assert capsys.readouterr().out == f"\x1b[1;31m{SHOWN}\x1b[0m\n"


def test_json_shows_controls_and_keeps_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"text": HOSTILE})
    printed = capsys.readouterr().out
    assert "\x9d" not in printed
    assert "\u202e" not in printed
    assert json.loads(printed) == {"text": HOSTILE}


def test_a_message_does_not_stick_to_the_progress_above_it(capsys: pytest.CaptureFixture[str]) -> None:
    passing("upload the code: 0% of 21.3 kB")
    passing("upload the code: 50% of 21.3 kB")
    message("error: AWS refused")
    message("a second line")
    lines = capsys.readouterr().err.split("\n")
    assert lines[0] == "\rupload the code: 0% of 21.3 kB\rupload the code: 50% of 21.3 kB"
    assert lines[1:] == ["error: AWS refused", "a second line", ""]


def test_progress_that_is_complete_ends_its_line_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    passing("upload the code: 50% of 21.3 kB")
    passing("upload the code: 100% of 21.3 kB", last=True)
    message("submitted")
    assert capsys.readouterr().err.split("\r")[2] == "upload the code: 100% of 21.3 kB\nsubmitted\n"
