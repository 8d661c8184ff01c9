"""`launch --install-completion`: what it writes completes, in the shell it was written for."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

RunLaunch = Callable[..., tuple[int, str, str]]


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
