"""Commands work whatever their standard streams are: closed, or of an encoding that lacks characters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

RunLaunch = Callable[..., tuple[int, str, str]]
WriteJob = Callable[..., Path]


def launch_with(streams: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run `launch` in a process of its own, its streams as the shell's redirections say."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {streams}', "sh", sys.executable, "-m", "launcher.cli.app", *arguments],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **environment},
        capture_output=True,
        timeout=60,
    )


@pytest.mark.few_cases(">&-", "<&- >&- 2>&-")
@pytest.mark.parametrize("streams", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_no_exit_code(streams: str, write_job: WriteJob) -> None:
    assert launch_with(streams, "check", str(write_job()), "--output", "json").returncode == 0
    assert launch_with(streams, "explain", "NOSUCH001").returncode == 2


def test_standard_input_that_is_closed_is_an_empty_log() -> None:
    closed = launch_with("<&-", "diagnose", "--log", "-")
    empty = launch_with("</dev/null", "diagnose", "--log", "-")
    assert (closed.returncode, closed.stdout, closed.stderr) == (empty.returncode, empty.stdout, empty.stderr)


ASCII = {"PYTHONIOENCODING": "ascii"}


def test_text_for_an_ascii_terminal_has_escapes_for_what_it_lacks(write_job: WriteJob) -> None:
    planned = launch_with("", "plan", str(write_job()), **ASCII)
    assert planned.returncode == 0
    assert b"2 \\xd7 ml.p4d.24xlarge" in planned.stdout


def test_json_for_an_ascii_terminal_is_the_same_value(write_job: WriteJob) -> None:
    file = write_job(environment={"NAME": "Grüße 🐍"})
    ascii_only = launch_with("", "plan", str(file), "--output", "json", **ASCII)
    utf8 = launch_with("", "plan", str(file), "--output", "json", PYTHONIOENCODING="utf-8")
    assert "Grüße 🐍".encode() in utf8.stdout
    told = [json.loads(each.stdout)["request"]["Environment"]["NAME"] for each in (ascii_only, utf8)]
    assert told == ["Grüße 🐍", "Grüße 🐍"]


def test_a_half_surrogate_on_the_command_line_is_repeated_as_an_escape(run_launch: RunLaunch) -> None:
    code, _, err = run_launch("explain", "half \ud83d surrogate")
    assert (code, r"half \ud83d surrogate" in err.lower()) == (2, True)
