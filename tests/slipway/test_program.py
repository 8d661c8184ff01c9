"""What is run: scripts, modules and shell scripts, where they are."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from torch.distributed.run import parse_args

from slipway.container import Container
from slipway.failure import BootError
from slipway.program import program_of, shell_command
from slipway.rendezvous import Rendezvous
from slipway.task import Task
from slipway.torchrun import torchrun_command

BASH = "/bin/bash"


def script(folder: Path, text: str, *, runs: bool) -> Path:
    file = folder / "train.sh"
    file.write_bytes(text.encode())
    file.chmod(0o755 if runs else 0o644)
    return file


def test_the_name_says_what_a_shell_runs(tmp_path: Path) -> None:
    script(tmp_path, "echo", runs=False)
    (tmp_path / "train.py").touch()
    by_shell = program_of(Task("none", 1, entry_point="train.sh"), tmp_path, ["-a"], os.environ)
    assert (by_shell.by_shell, by_shell.command[1:]) == (True, [str(tmp_path / "train.sh"), "-a"])
    assert not program_of(Task("none", 1, entry_point="train.py"), tmp_path, [], {}).by_shell


def test_a_script_with_shebang_and_run_bit_is_run_itself(tmp_path: Path) -> None:
    file = script(tmp_path, "#!/bin/sh\n", runs=True)
    assert shell_command(file, ["--a", "b c"], "/bin") == [str(file), "--a", "b c"]


@pytest.mark.parametrize(
    ("text", "runs"), [("#!/bin/sh\n", False), ("echo\n", True), ("echo\n", False), ("", True)]
)
def test_without_shebang_or_run_bit_bash_runs_it(tmp_path: Path, text: str, runs: bool) -> None:
    file = script(tmp_path, text, runs=runs)
    assert shell_command(file, ["--a"], "/bin") == [BASH, str(file), "--a"]


def test_without_bash_it_is_said_what_the_script_needs(tmp_path: Path) -> None:
    file = script(tmp_path, "echo\n", runs=True)
    with pytest.raises(BootError, match=r"CODE002 train.sh has no shebang .*#!/bin/sh.*chmod"):
        shell_command(file, [], str(tmp_path))


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        ("#!/bin/bash\r\n", "Windows line ends"),
        ("#! /opt/none/zsh -e\n", "`#! /opt/none/zsh -e`, and that interpreter is not in the image"),
        ("#!\n", "is not in the image"),
    ],
)
def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path, first: str, reason: str) -> None:
    with pytest.raises(BootError, match=f"CODE002 .*{reason}"):
        shell_command(script(tmp_path, first, runs=True), [], "/bin")


def package(folder: Path) -> Path:
    (folder / "pkg").mkdir()
    for name in ("__init__", "train"):
        (folder / "pkg" / f"{name}.py").touch()
    return folder


def test_a_module_is_run_by_name(tmp_path: Path) -> None:
    program = program_of(Task("none", 1, module="pkg.train"), package(tmp_path), ["--a"], {})
    assert program.command == [sys.executable, "-u", "-m", "pkg.train", "--a"]


def test_the_interpreter_is_the_one_that_the_environment_asks_of_torchrun(tmp_path: Path) -> None:
    program = program_of(Task("torchrun", 1, module="pkg.train"), package(tmp_path), [], {})
    assert program.command_for({}) == program.command
    assert program.command_for({"PYTHON_EXEC": "pypy"}) == ["pypy", "-u", "-m", "pkg.train"]


def test_a_module_that_its_package_does_not_hold_is_named_with_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(
        BootError, match=r"CODE002 the module pkg.trian .* holds: pkg/__init__.py, pkg/train.py"
    ):
        program_of(Task("none", 1, module="pkg.trian"), package(tmp_path), [], {})


def test_a_module_that_may_be_installed_is_left_to_python(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    for module in ("torch.distributed.run", "elsewhere.train"):
        program = program_of(Task("none", 1, module=module), tmp_path, [], {})
        assert program.words == (module,)


ARGUMENTS = ["--logs", "x", "--log", "--node", "1", "--local=a", "--master", "m", "--nnodes", "9", "--", "-t"]


@pytest.mark.parametrize(
    "task", [Task("torchrun", 2, module="pkg.train"), Task("torchrun", 2, entry_point="a.py")]
)
def test_torchrun_keeps_nothing_of_the_scripts_arguments(tmp_path: Path, task: Task) -> None:
    (tmp_path / "a.py").touch()
    hosts = ("algo-1", "algo-2")
    container = Container(tmp_path, hosts, "algo-2", "", None, {}, {}, {})
    program = program_of(task, package(tmp_path), ARGUMENTS, {})
    command = torchrun_command(container, Rendezvous("algo-1", 7777), 2, program.command, tmp_path)
    parsed = parse_args(command[3:])
    assert (parsed.no_python, parsed.training_script) == (True, sys.executable)
    assert parsed.training_script_args == ["-m", "slipway.ranks.printing", *program.command]
    assert program.command[-len(ARGUMENTS) :] == ARGUMENTS
    assert (parsed.nnodes, parsed.nproc_per_node) == ("2", "2")
    assert (parsed.node_rank, parsed.master_addr, parsed.master_port) == (1, "algo-1", 7777)


def test_torchruns_options_are_spelled_as_every_version_takes_them(tmp_path: Path) -> None:
    container = Container(tmp_path, ("algo-1",), "algo-1", "", None, {}, {}, {})
    program = program_of(Task("torchrun", 1, module="m"), tmp_path, [], {})
    command = torchrun_command(container, Rendezvous("a", 1), 1, program.command, tmp_path, patience=9)
    options = [word for word in command[: command.index("--")] if word[:2] == "--"]
    assert not any("-" in option[2:] for option in options)
