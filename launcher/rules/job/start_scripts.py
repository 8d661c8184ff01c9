"""The shell script that a job starts: what stands in it, and findings at its lines."""

from __future__ import annotations

import re
from dataclasses import replace

from launcher.failure_modes.model import Finding, Location
from launcher.planning.strategies.strategy import SHELL_ENDING
from launcher.rules.job.subject import SourceSubject
from launcher.source.folder_walk import SourceError
from launcher.source.start_script import BatchJob, read_batch_script
from launcher.text.regular_files import relative_to_working_folder

MOST_SHELL_BYTES = 1_000_000
"""Of a script that is looked at; one of these has a few kilobytes."""


def shell_text(subject: SourceSubject) -> bytes:
    """The shell script that the job starts; empty where it starts none, or none that can be read here."""
    source, entry_point = subject.source, subject.code.entry_point
    if entry_point is None or not entry_point.endswith(SHELL_ENDING) or source.is_unread:
        return b""
    if not source.packs_entry_point:
        return b""
    try:
        return source.read(source.entry_point_name, MOST_SHELL_BYTES)
    except SourceError:
        return b""  # Said where the source is packed.


def shell_starts(subject: SourceSubject) -> tuple[BatchJob, ...]:
    """The commands of the shell script that the job starts that start a training."""
    return read_batch_script(shell_text(subject).decode("utf-8", "replace")).starts


def line_of_option(subject: SourceSubject, start: BatchJob, *names: str) -> int:
    """The line of a command that names one of its options, as a long command goes on over several lines."""
    lines = shell_text(subject).decode("utf-8", "replace").split("\n")
    option = re.compile(rf"--({'|'.join(re.sub('[-_]', '[-_]', each) for each in names)})\b")
    for number, line in enumerate(lines[start.line - 1 :], start.line):
        if option.search(line):
            return number
        if not line.rstrip().endswith("\\"):
            break
    return start.line


def in_shell_script(subject: SourceSubject, finding: Finding, line: int) -> Finding:
    """A finding at a line of the shell script instead of the job file's field that names it; as it is where
    the script lies in an archive."""
    source = subject.source
    if source.is_packed or source.is_unread:
        return finding
    file = source.folder / source.entry_point_name
    shown = str(relative_to_working_folder(file))
    return replace(finding, path=None, location=Location(shown, line, 1))
