"""The fields of a job file that a command line says which starts a training, and what it leaves open."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Any

from launcher.drafts.job_draft import Path
from launcher.source.shell_text import Word
from launcher.source.start_line import RANK_STARTERS, StartLine

_OPTION = re.compile(r"-{1,2}[A-Za-z]")
_VARIABLE = re.compile(r"\$(?:\{\w+(?:\[[@*]\])?\}|\w+|[@*])")


def fields_of_start(start: StartLine) -> Iterator[tuple[Path, Any]]:
    """The fields of a job file that the line says, each with its value."""
    if start.starter in RANK_STARTERS:
        yield ("distribution", "strategy"), "torchrun"
    elif start.starter == "mpi":
        yield ("distribution", "strategy"), "mpi"
    if not start.script.is_open:
        yield from _program(start)
    if known := [each.text for each in _arguments(start)[0]]:
        yield ("code", "arguments"), known
    if start.processes_per_host is not None:
        yield ("distribution", "processes_per_host"), start.processes_per_host
    again = None if start.restarts is None else start.restarts.text
    if again is not None and again.isdecimal() and int(again):
        yield ("limits", "restarts"), int(again)


def _arguments(start: StartLine) -> tuple[list[Word], list[str]]:
    """Those that are known, and the texts of those that are not, each with its option.

    Values of one option are known together or not at all; what stands behind them as a variable alone may be
    any number of words of whoever starts the script.
    """
    known: list[Word] = []
    left: list[str] = []
    for group in _by_option(start.arguments):
        loose = [each for each in group[2:] if _VARIABLE.fullmatch(each.text) is not None]
        loose += [each for each in group[:1] if _VARIABLE.fullmatch(each.text) is not None]
        rest = [each for each in group if each not in loose]
        if any(each.is_open for each in rest):
            left.append(" ".join(each.text for each in rest))
        else:
            known += rest
        left += [each.text for each in loose]
    return known, left


def _program(start: StartLine) -> Iterator[tuple[Path, Any]]:
    if start.is_module:
        yield ("code", "module"), start.script.text
        return
    path = posixpath.normpath(start.script.text)
    if path.startswith(("/", "..", "$")):
        if start.image is None:
            yield ("code", "source_dir"), posixpath.dirname(path) or "."
        path = posixpath.basename(path)
    yield ("code", "entry_point"), path


def questions_of_start(start: StartLine) -> Iterator[tuple[Path, str]]:
    """What it leaves open, each with the field."""
    if start.script.is_open:
        yield ("code", "entry_point"), f"which script is {start.script.text}?"
    elif start.image is not None and start.script.text.startswith(("/", "..", "$")):
        yield ("code", "source_dir"), f"where is the code? The container has {start.script.text}"
    for text in _arguments(start)[1]:
        yield ("code", "arguments"), f"what is {text}? It stands among the arguments."
    if start.lost:
        yield (
            ("distribution", "options"),
            f"{start.starter} is told {', '.join(start.lost)}: torchrun starts the ranks here, and what "
            "these say belongs into the script or its variables.",
        )
    if start.starter == "shell":
        yield ("distribution", "strategy"), "how does the shell script start its ranks?"
    if start.processes is not None and (start.processes.is_open or "$" in start.processes.text):
        yield (
            ("distribution", "processes_per_host"),
            f"how many on each host? The line has {start.processes.text}",
        )


def _by_option(words: Sequence[Word]) -> Iterator[list[Word]]:
    """The words of a script's arguments: each option with its values, and each word that is behind none."""
    group: list[Word] = []
    for each in words:
        begins = _OPTION.match(each.text) is not None
        if group and (begins or not _OPTION.match(group[0].text)):
            yield group
            group = []
        group.append(each)
    if group:
        yield group
