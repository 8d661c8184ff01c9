"""Which Python runs a local job, and what is said of one that cannot."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from launcher.backends.interface import BackendError, JobState
from launcher.backends.local import python as interpreter
from launcher.backends.local.backend import LocalBackend
from launcher.backends.local.python import choose_interpreter, interpreter_at, python_environment
from tests.backends.environments import environment, program
from tests.backends.workplace import SHORT, Workplace, finish, texts


def test_the_active_environment_is_taken_where_it_has_torch(tmp_path: Path) -> None:
    with_torch = environment(tmp_path / "with", torch="2.9.1+cu128", cuda="12.8")
    without = environment(tmp_path / "without")
    found = choose_interpreter(None, {"VIRTUAL_ENV": str(tmp_path / "with")})
    assert (found.path, found.torch, found.cuda) == (with_torch, "2.9.1+cu128", "12.8")
    both = {"VIRTUAL_ENV": str(tmp_path / "without"), "CONDA_PREFIX": str(tmp_path / "with")}
    assert choose_interpreter(None, both).path == with_torch
    assert choose_interpreter(None, {"VIRTUAL_ENV": str(tmp_path / "without")}).path == Path(sys.executable)
    assert choose_interpreter(None, {"VIRTUAL_ENV": str(tmp_path / "gone")}).path == Path(sys.executable)
    # Who asks for one gets it, with torch or without.
    given = choose_interpreter(str(without), both)
    assert (given.path, given.torch, given.version[:2]) == (without, None, sys.version_info[:2])


def test_a_broken_active_environment_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin" / "python", "exit 127")
    assert choose_interpreter(None, {"VIRTUAL_ENV": str(tmp_path)}).path == Path(sys.executable)


def test_a_torch_in_the_working_directory_is_not_the_interpreters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = environment(tmp_path / "empty")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    (tmp_path / "torch" / "version.py").write_text("__version__ = '9.9.9'\n")
    monkeypatch.chdir(tmp_path)
    assert interpreter_at(python).torch is None


def test_a_name_is_looked_for_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = environment(tmp_path / "named")
    monkeypatch.setenv("PATH", f"{python.parent}{os.pathsep}{os.environ['PATH']}")
    assert choose_interpreter("python", {}).path == python


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("echo hello", r"is no Python that runs here: it ended with exit code 0\."),
        ("echo broken >&2; exit 3", r"exit code 3 and said: broken"),
        ("echo '{\"slipway\": 1, \"version\": [3, 6, 9], \"torch\": null, \"cuda\": null}'",
         r"is Python 3\.6\.9, and a local run needs 3\.8 or later"),
    ],
)  # fmt: skip
def test_what_is_no_python_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BackendError, match=message) as refused:
        choose_interpreter(str(program(tmp_path / "python", text)), {})
    assert "--python" in refused.value.remedy


def test_a_program_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "BOUND_SECONDS", 0.1)
    with pytest.raises(BackendError, match="did not answer within 0 seconds"):
        interpreter_at(program(tmp_path / "python", "exec sleep 60"))


def test_folders_and_missing_files_are_refused_with_what_to_give(tmp_path: Path) -> None:
    python = environment(tmp_path / "venv")
    with pytest.raises(BackendError, match="is a folder") as refused:
        choose_interpreter(str(tmp_path / "venv"), {})
    assert f"--python {python}" in refused.value.remedy
    with pytest.raises(BackendError, match=f"there is no Python {tmp_path}/gone"):
        choose_interpreter(str(tmp_path / "gone"), {})


def test_programs_of_the_interpreter_come_first_and_its_environment_is_the_active_one(tmp_path: Path) -> None:
    python = environment(tmp_path / "venv")
    others = {"PATH": "/usr/bin", "VIRTUAL_ENV": "/other", "SECRET": "1"}
    assert python_environment(python, others) == {
        "PATH": f"{python.parent}:/usr/bin",
        "VIRTUAL_ENV": str(tmp_path / "venv"),
    }
    assert python_environment(Path("/usr/bin/python3"), others) == {"PATH": "/usr/bin:/usr/bin"}


def test_the_ranks_run_with_the_given_python_and_so_does_a_resumption(workplace: Workplace) -> None:
    python = environment(workplace.folder / "venv")
    script = """
        import os, pathlib, shutil, sys
        pathlib.Path(os.environ["SLIPWAY_CHECKPOINT_DIR"], "state").touch()
        print(sys.executable, shutil.which("python"), flush=True)
    """
    plan = workplace.plan(script)
    with LocalBackend(workplace.home, grace=SHORT, python=python) as local:
        local.submit(plan)
        assert finish(local).state is JobState.COMPLETED
        assert texts(local)[-1] == f"{python} {python}"
    with LocalBackend(workplace.home, grace=SHORT) as later:
        later.resume("job-1", {**(plan.request or {}), "TrainingJobName": "job-2"})
        finish(later, "job-2")
        assert texts(later, name="job-2")[-1] == f"{python} {python}"


def test_a_run_whose_python_is_gone_is_not_resumed_with_another(workplace: Workplace) -> None:
    python = environment(workplace.folder / "venv")
    plan = workplace.plan("pass")
    with LocalBackend(workplace.home, grace=SHORT, python=python) as local:
        local.submit(plan)
        finish(local)
    python.unlink()
    with LocalBackend(workplace.home) as later, pytest.raises(BackendError, match=f"no Python {python}"):
        later.resume("job-1", {**(plan.request or {}), "TrainingJobName": "job-2"})
    assert not (workplace.home / "job-2").exists()
