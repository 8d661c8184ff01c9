"""Commands work whatever their standard streams are: closed, or of an encoding that lacks characters."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

WriteJob = Callable[..., Path]


def launch_with(streams: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run `launch` in a process of its own, its streams as the shell's redirections say."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {streams}', "sh", sys.executable, "-m", "launcher.cli.app", *arguments],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **environment},
        capture_output=True,
        timeout=60,
    )


@pytest.mark.parametrize("streams", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_no_exit_code(streams: str, write_job: WriteJob) -> None:
    assert launch_with(streams, "check", str(write_job()), "--output", "json").returncode == 0
    assert launch_with(streams, "explain", "NOSUCH001").returncode == 2


def test_standard_input_that_is_closed_is_an_empty_log() -> None:
    closed = launch_with("<&-", "diagnose", "--log", "-")
    empty = launch_with("</dev/null", "diagnose", "--log", "-")
    assert (closed.returncode, closed.stdout, closed.stderr) == (empty.returncode, empty.stdout, empty.stderr)
