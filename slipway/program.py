"""What is run: a Python script, a module, or a shell script, as words for the interpreter or for torchrun."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from slipway.failure import BootError
from slipway.ranks.start import script_words
from slipway.source import find_entry_point, find_module
from slipway.task import Task
from slipway.watchdog.of_host import is_watched


class ProgramCommand(NamedTuple):
    """A program and its arguments: a Python file, with `is_module` the name of a module, or with `by_shell`
    the command of a shell script."""

    is_module: bool
    words: tuple[str, ...]
    by_shell: bool = False

    @property
    def command(self) -> list[str]:
        """What starts it alone; Python without buffering."""
        if self.by_shell:
            return list(self.words)
        return [sys.executable, "-u", *(["-m"] if self.is_module else []), *self.words]

    def command_for(self, environment: Mapping[str, str]) -> list[str]:
        """The same by the interpreter that this environment asks of torchrun, in PYTHON_EXEC."""
        return [environment.get("PYTHON_EXEC", sys.executable), *self.command[1:]]


def program_of(
    task: Task, folder: Path, arguments: Sequence[str], environment: Mapping[str, str]
) -> ProgramCommand:
    """The program that a task names, below the code's `folder`.

    Raises BootError (CODE002) where it is not there or its strategy cannot start it.
    """
    if task.entry_point is not None and task.entry_point.endswith(".sh"):
        if task.strategy != "none":
            raise BootError(
                "CODE002",
                f"{task.entry_point} is a shell script, and {task.strategy} starts Python programs only. Use "
                "`strategy: none`, and start the ranks in the script, or name a .py file",
            )
        script = find_entry_point(folder, task.entry_point)
        return ProgramCommand(
            False, tuple(shell_command(script, arguments, environment.get("PATH"))), by_shell=True
        )
    if task.module is not None:
        find_module(folder, task.module)
        return ProgramCommand(
            *script_words(task.module, arguments, environment, is_module=True, watched=is_watched(task))
        )
    script = find_entry_point(folder, task.entry_point or "")
    return ProgramCommand(*script_words(str(script), arguments, environment, watched=is_watched(task)))


def shell_command(script: Path, arguments: Sequence[str], search_path: str | None) -> list[str]:
    """The script itself where it has a shebang and the run bit, else bash with the script.

    `search_path` is the PATH in which bash is looked for. Raises BootError (CODE002) where the shebang's
    interpreter or bash is not in the image.
    """
    with script.open("rb") as file:
        first = file.readline(256)
    # Also false on a file system that is mounted without permission to run anything (access(2)).
    if first.startswith(b"#!") and os.access(script, os.X_OK):
        _check_interpreter(script, first[2:])
        return [str(script), *arguments]
    bash = shutil.which("bash", path=search_path)
    if bash is None:
        raise BootError(
            "CODE002",
            f"{script.name} has no shebang with a run bit, and there is no bash in the image to run it with. "
            "Begin it with the line #!/bin/sh and make it executable (chmod +x), or use an image with bash",
        )
    return [bash, str(script), *arguments]


def _check_interpreter(script: Path, line: bytes) -> None:
    text = line.decode("utf-8", "replace").rstrip("\n")
    words = text.split()
    if text.endswith("\r"):
        raise BootError(
            "CODE002",
            f"{script.name} has Windows line ends, so that Linux looks for an interpreter called "
            f"{text.strip(' ')!r}. Save it with Unix line ends (in git, .gitattributes: `*.sh text eol=lf`)",
        )
    if not words or not Path(words[0]).exists():
        raise BootError(
            "CODE002",
            f"{script.name} begins with `#!{text}`, and that interpreter is not in the image. "
            "Correct the first line, such as #!/bin/bash",
        )
