"""`--rank` and `--grep` of a launch, and what is shown without them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from launcher.backends.interface import LogLine
from launcher.cli.interaction import HIDDEN, ReadingView, choose_lines, console, message, passing, print_json
from launcher.failure_modes.model import Refusal
from launcher.planning.request_view import RequestView
from tests.cli.conftest import RunLaunch, WriteJob

VIEW = RequestView(
    {
        "AlgorithmSpecification": {
            "ContainerEntrypoint": ["python3", "/opt/ml/input/data/code/slipway.pyz"],
            "ContainerArguments": ["--strategy", "torchrun", "--processes-per-host", "2"],
        },
        "ResourceConfig": {"InstanceType": "ml.m5.xlarge", "InstanceCount": 2},
    }
)
PRINTED = [LogLine(0.0, "algo-2", f"[rank{rank}]:step {rank}") for rank in range(4)]


def seen(rank: str | None, grep: str | None = None) -> tuple[list[int], list[str]]:
    told: list[str] = []
    choice = choose_lines(VIEW, rank, grep, lambda: told.append(HIDDEN))
    kept = PRINTED if choice is None else choice.keep(PRINTED)
    return [PRINTED.index(line) for line in kept], told


def test_rank_0_by_default_another_one_or_all() -> None:
    assert seen(None) == ([0], [HIDDEN])
    assert seen("3") == ([3], [])
    assert seen("all") == ([0, 1, 2, 3], [])


def test_a_pattern_chooses_of_every_rank_and_of_one() -> None:
    assert seen(None, "step [23]") == ([2, 3], [])
    assert seen("all", "step [23]") == ([2, 3], [])
    assert seen("2", "step [23]") == ([2], [])


def test_a_rank_that_the_job_does_not_have_is_refused() -> None:
    with pytest.raises(Refusal, match="no rank 4: it has 2 hosts with 2 processes each") as refused:
        seen("4")
    assert "from 0 to 3" in refused.value.remedy


@pytest.mark.parametrize("rank", ["-1", "first", "9" * 5000, "²"])
def test_what_is_no_rank_at_all_is_refused(rank: str) -> None:
    with pytest.raises(Refusal, match="is not the number of a rank") as refused:
        seen(rank)
    assert "or all" in refused.value.remedy
    assert len(refused.value.message) < 100


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


def test_what_is_laid_out_in_columns_ends_no_line_with_blanks_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table.grid()
    table.add_row(Text("one"))
    table.add_row(Text(" two three four five six"))
    for columns, printed in (
        (None, "one\n two three four five six\n"),
        ("12", "one\n two three\nfour five\nsix\n"),
        ("0", "one\n two three four five six\n"),
        ("9" * 12, "one\n two three four five six\n"),
    ):
        monkeypatch.delenv("COLUMNS", raising=False)
        if columns is not None:
            monkeypatch.setenv("COLUMNS", columns)
        console().print(table)
        assert capsys.readouterr().out == printed
    console().print("a line of a log  ", markup=False)
    assert capsys.readouterr().out == "a line of a log  \n"


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


@pytest.fixture
def file(write_job: WriteJob, tmp_path: Path) -> Path:
    """A job whose source has files that are packed and others that are not."""
    file = write_job()
    source = tmp_path / "src"
    for name in ("lib/a.py", "data/x.bin", "__pycache__/a.pyc", *(f"{number}.log" for number in range(9))):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text("x" * 1500)
    (source / ".slipwayignore").write_text("data/\n*.log\n")
    return file


def test_a_plan_says_what_is_packed_and_what_is_left_out(
    run_launch: RunLaunch, file: Path, tmp_path: Path
) -> None:
    _, out, err = run_launch("plan", file)
    text = " ".join(out.split())
    assert f"code 3 files, 1.53 kB of {tmp_path / 'src'}, most in lib/ (1.5 kB), train.py (17 B)" in text, err
    assert "left out by .slipwayignore: 0.log, 1.log, 2.log, 3.log, 4.log and 5 more" in text
    assert "always: __pycache__/" in text


def test_a_plan_has_the_same_as_data(run_launch: RunLaunch, file: Path, tmp_path: Path) -> None:
    source = json.loads(run_launch("plan", file, "--output", "json")[1])["source"]
    assert (source["place"], source["files"], source["size_bytes"]) == (str(tmp_path / "src"), 3, 1529)
    assert source["largest"][0] == {"name": "lib/", "size_bytes": 1500}
    mine, always = source["left_out"]
    assert (mine["by"], mine["count"]) == (str(tmp_path / "src" / ".slipwayignore"), 10)
    assert (mine["first"][0], mine["first"][-1]) == ("0.log", "data/")
    assert always == {"by": None, "count": 1, "first": ["__pycache__/"]}
    assert len(source["sha256"]) == 64


def read_two_gigabytes(*steps: tuple[float, int]) -> None:
    """A reading that after so many seconds has come so far."""
    times = iter([0.0, *(at for at, _ in steps)])
    view = ReadingView(clock=lambda: next(times, 99.0))
    for _, read in steps:
        view(read, 2_000_000_000)


def test_a_short_reading_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    read_two_gigabytes((0.5, 10), (1.9, 2_000_000_000))
    assert capsys.readouterr().err == ""


def test_a_log_gets_one_line_of_a_long_reading(capsys: pytest.CaptureFixture[str]) -> None:
    read_two_gigabytes((1, 10), (2.1, 1_000_000_000), (9, 1_500_000_000), (12, 2_000_000_000))
    assert capsys.readouterr().err == "reading 2 GB of code\n"


def test_a_terminal_shows_how_far_a_long_reading_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    read_two_gigabytes((2.1, 1_000_000_000), (2.2, 1_000_000_001), (9, 1_500_000_000), (12, 2_000_000_000))
    assert capsys.readouterr().err == (
        "\rreading 2 GB of code: 50%\rreading 2 GB of code: 75%\rreading 2 GB of code: 100%\n"
    )


ON_S3 = {"source_dir": "s3://mine/source.tar.gz", "entry_point": "train.py"}
