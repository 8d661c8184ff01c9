"""What stands in a shell script that the job starts: lines that no shell on Linux can run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from launcher.failure_modes import training_script
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.planning.strategies.programs import SHELL
from launcher.rules.job.subject import JobSubject, SourceSubject
from launcher.source.errors import SourceError
from launcher.source.tree import SourceTree

MOST_BYTES = 1_000_000
"""Of a script that is looked at; one of these has a few kilobytes."""

_PATH = ("code", "entry_point")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "busybox"})


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def shell_script_has_unix_line_ends(subject: SourceSubject) -> Iterator[Finding]:
    """A shell takes the carriage return for a part of each line's last word: `set -e\\r` is no option."""
    text = _text(subject)
    number = next((n for n, line in enumerate(text.split(b"\n"), 1) if line.endswith(b"\r")), None)
    if number is not None:
        yield training_script.ENTRY_POINT_MISSING.at(
            _PATH,
            f"{subject.source.entry_point_name} has Windows line ends (line {number}): a shell takes the "
            "carriage return for a part of the line's last word, and would fail on the hosts",
            remedy="Save it with Unix line ends (in git, .gitattributes: `*.sh text eol=lf`).",
        )


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def shell_script_is_run_by_what_it_names(subject: JobSubject) -> Iterator[Finding]:
    """Without the run bit, bash runs the script, whatever its first line names; the toolkit sets the bit."""
    if not subject.plan.with_boot:
        return
    first = _text(subject).partition(b"\n")[0].decode("utf-8", "replace").rstrip("\r")
    script = subject.source.entry_point_name
    interpreter = _interpreter(first)
    if interpreter is None or interpreter in _SHELLS or _may_run(subject.source, script):
        return
    yield training_script.ENTRY_POINT_MISSING.at(
        _PATH,
        f"{script} begins with {first[:100]!r} and has no run bit: bash would run it instead of "
        f"{interpreter}",
        remedy=f"Make it executable (chmod +x {script}), begin it with #!/bin/bash, or name a Python program "
        "`.py`.",
    )


def _text(subject: SourceSubject) -> bytes:
    """The shell script that the job starts; empty where it starts none, or none that can be read here."""
    source, entry_point = subject.source, subject.code.entry_point
    if entry_point is None or not entry_point.endswith(SHELL) or source.is_unread:
        return b""
    if not source.packs_entry_point:
        return b""
    try:
        return source.read(source.entry_point_name, MOST_BYTES)
    except SourceError:
        return b""  # Said where the source is packed.


def _interpreter(first: str) -> str | None:
    """The name of the program that a first line names, such as `python3` of `#!/usr/bin/env python3`."""
    words = first[2:].split() if first.startswith("#!") else []
    names = [PurePosixPath(word).name for word in words if not word.startswith("-") and "=" not in word]
    return next((name for name in names if name != "env"), None)


def _may_run(source: SourceTree, name: str) -> bool:
    return any(file.name == name and file.executable for file in source.files)
