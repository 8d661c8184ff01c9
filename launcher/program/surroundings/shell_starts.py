"""The shell script beside a program that starts it: the variables that it exports, and the words it gives.

Only where there is one alone: of several nobody knows which is meant for a training on several hosts. It is
looked for in the program's own folder and in that of its project.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from launcher.frozen import frozen
from launcher.program.program import Program
from launcher.source.shell_text import Word
from launcher.text.regular_files import read_regular

_LARGEST_SCRIPT = 50_000
"""Bytes of a script that is read; theirs are a few kilobytes."""
_MOST_SCRIPTS = 40


@frozen
class ShellSetting:
    """A variable that a shell script hands to the program in every run, and where."""

    name: str
    value: str
    file: Path
    line: int


@frozen
class ShellStart:
    """A line of a shell script that starts the program. What is not known of it is None.

    `words` are those that the program gets, `hosts` is on how many of them its ranks are, `meets_at` the
    address at which they meet, `port` the port that its starter is told. `configuration` is the file of
    accelerate's settings, as it is written.
    """

    file: Path
    line: int
    words: tuple[Word, ...]
    hosts: int | None
    processes_per_host: int | None
    meets_at: str | None
    port: str | None
    configuration: str | None


@frozen
class StartingScript:
    """A shell script that starts a program: its text, the lines that do so, and the variables that each of
    them hands on with one value, which is written. `is_for_slurm` says that it is for a Slurm cluster, whose
    hosts and networks it knows."""

    file: Path
    text: str
    starts: tuple[ShellStart, ...]
    settings: tuple[ShellSetting, ...]
    is_for_slurm: bool


class ShellStarts:
    """How the only shell script beside a program starts it."""

    def __init__(self, program: Program) -> None:
        """Of a program; nothing is looked at before somebody asks."""
        self._program = program

    @cached_property
    def script(self) -> StartingScript | None:
        """The only script that starts the program; None where there is none, or several do, and where a job
        starts it without one."""
        if self._program.words is not None:
            return None
        found = [read for file in self._beside() if (read := self._read(file)) is not None]
        return found[0] if len(found) == 1 else None

    @property
    def starts(self) -> tuple[ShellStart, ...]:
        """The lines that start the program."""
        return () if self.script is None else self.script.starts

    @property
    def settings(self) -> tuple[ShellSetting, ...]:
        """The variables that each of these lines hands on with one value."""
        return () if self.script is None else self.script.settings

    def _beside(self) -> Iterator[Path]:
        folders = (self._program.entry.path.parent, Path(self._program.root))
        for folder in folders[: 1 if os.path.realpath(folders[0]) == os.path.realpath(folders[1]) else 2]:
            try:
                names = sorted(each.name for each in folder.iterdir() if each.suffix == ".sh")
            except OSError:
                continue
            yield from (folder / name for name in names[:_MOST_SCRIPTS])

    def _read(self, file: Path) -> StartingScript | None:
        # Few programs have such a script beside them.
        from launcher.source.start_script import BatchJob, hosts_asked_for, is_batch_script, read_batch_script

        try:
            text = read_regular(file, _LARGEST_SCRIPT + 1).decode("utf-8", "replace")
        except OSError:
            return None
        if len(text) > _LARGEST_SCRIPT or self._program.entry.path.stem not in text:
            return None
        script = read_batch_script(text)
        own = [each for each in script.starts if self._is_started(file, each.start.script, each.folder)]
        if not own:
            return None
        asked = hosts_asked_for(script.options)

        def as_start(job: BatchJob) -> ShellStart:
            start = job.start
            hosts = start.hosts or (None if asked is None else Word(asked[0]))
            by_variable = start.by_srun and start.starter == "python"  # torchrun reads its options alone.
            address = job.exports.get("MASTER_ADDR", (None, 0))[0] if by_variable else None
            return ShellStart(
                file,
                job.line,
                start.arguments,
                int(hosts.text) if hosts is not None and hosts.text.isdecimal() else None,
                start.processes_per_host,
                _written(start.meets_at or address),
                _written(start.port),
                _written(start.configuration),
            )

        handed_on = [
            {**job.exports, **{name: (value, job.line) for name, value in job.environment.items()}}
            for job in own
        ]
        settings = tuple(
            ShellSetting(name, written, file, line)
            for name, (value, line) in handed_on[0].items()
            if (written := _written(value)) is not None
            and all(name in each and each[name][0] == value for each in handed_on)
        )
        return StartingScript(file, text, tuple(map(as_start, own)), settings, is_batch_script(text))

    def _is_started(self, file: Path, script: Word, folder: Word | None) -> bool:
        """Whether a line starts the program; one whose folder nobody knows does by the name."""
        entry = self._program.entry.path
        if script.is_open or "$" in script.text or (folder is not None and folder.is_open):
            return posixpath.basename(script.text.rstrip("\"'")) == entry.name
        place = posixpath.normpath(posixpath.join("" if folder is None else folder.text, script.text))
        if place.startswith(("/", "..")):
            return posixpath.basename(place) == entry.name
        return os.path.realpath(file.parent / place) == os.path.realpath(entry)


def _written(word: Word | None) -> str | None:
    """The text of a word that holds nothing of whoever starts the script."""
    return None if word is None or word.is_open or "$" in word.text else word.text
