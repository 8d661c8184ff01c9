"""`launch` with closed or limited standard streams, and its completion in shells."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import RunLaunch, WriteJob


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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize(
    "command",
    [["plan", "JOB"], ["check", "JOB", "--output", "json"], ["explain", "--all"], ["--help"], ["schema"]],
    ids=" ".join,
)
def test_a_full_disk_below_the_output_is_said_and_is_no_fault_of_the_launcher(
    command: list[str], write_job: WriteJob
) -> None:
    words = [str(write_job()) if word == "JOB" else word for word in command]
    ended = launch_with(">/dev/full", *words)
    told = ended.stderr.decode()
    assert ended.returncode == 1
    assert "No space left on device" in told
    assert "run the command again" in told
    assert "fault of the launcher" not in told
    assert "Exception ignored" not in told


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_where_nothing_can_be_said_at_all_the_exit_code_says_it(write_job: WriteJob) -> None:
    assert launch_with(">/dev/full 2>&1", "plan", str(write_job())).returncode == 1


@pytest.mark.parametrize("command", [["list", "--local"], ["clean", "--yes"], ["status", "x"]], ids=" ".join)
def test_a_working_directory_that_was_deleted_is_said(command: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    script = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    words = ["sh", "-c", script, "sh", str(folder), sys.executable, "-m", "launcher.cli.app", *command]
    ended = subprocess.run(
        words,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 2
    assert "was deleted meanwhile" in ended.stderr
    assert "fault of the launcher" not in ended.stderr


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


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without anything in it."""
    for name in ("ZSH", "ZSH_CUSTOM", "ZSH_VERSION", "BASH_VERSION", "FISH_VERSION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("launch sta", "status"), ("launch check --li", "--live"), ("launch cluster pl", "plan")],
)
def test_bash_completes_commands_and_options(
    run_launch: RunLaunch, home: Path, typed: str, offered: str
) -> None:
    assert run_launch("--install-completion", "--shell", "bash")[0] == 0
    words = typed.split()
    program = (
        f'. "$HOME/.bashrc"; COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _launch; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    run = subprocess.run(
        [str(shutil.which("bash")), "--norc", "-c", program],
        cwd=home,
        env={"HOME": str(home)},
        capture_output=True,
        text=True,
    )
    assert run.stdout.split() == [offered], run.stderr


def test_installing_it_again_adds_no_second_line(run_launch: RunLaunch, home: Path) -> None:
    run_launch("--install-completion", "--shell", "bash")
    before = (home / ".bashrc").read_text()
    code, _, err = run_launch("--install-completion", "--shell", "bash")
    assert code == 0
    assert "bash-completion/completions/launch" in err
    assert (home / ".bashrc").read_text() == before


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_get_a_script_of_their_own(run_launch: RunLaunch, home: Path, shell: str) -> None:
    assert run_launch("--install-completion", "--shell", shell)[0] == 0
    scripts = [file for file in home.rglob("*launch*") if file.is_file()]
    assert len(scripts) == 1
    assert "diagnose" in scripts[0].read_text()


def test_a_script_that_cannot_be_written_is_told_with_its_place(run_launch: RunLaunch, home: Path) -> None:
    (home / ".local").write_text("no folder")
    code, _, err = run_launch("--install-completion", "--shell", "bash")
    assert code == 2
    assert f"{home}/.local" in err


def test_a_shell_that_cannot_be_seen_is_to_be_named(
    run_launch: RunLaunch, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cyclopts.completion import detect

    def unseen() -> None:
        raise detect.ShellDetectionError

    monkeypatch.setattr(detect, "detect_shell", unseen)
    code, _, err = run_launch("--install-completion")
    assert code == 2
    assert "--shell bash" in err
