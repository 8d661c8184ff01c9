"""The shell script that a job starts: what stands in it, and findings at its lines."""

from __future__ import annotations

import re
from dataclasses import replace

from launcher.failure_modes.model import Finding, Location
from launcher.jobs.load_job import with_folders
from launcher.jobs.specification import JobSpec, Strategy
from launcher.planning.strategies.strategy import SHELL_ENDING
from launcher.rules.job.subject import SourceSubject
from launcher.rules.script.configuration_files import words_of
from launcher.source.folder_walk import SourceError
from launcher.source.shell_text import Word, variables_of_words
from launcher.source.start_line import RANK_STARTERS
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


def started_by_words(subject: SourceSubject, job: JobSpec) -> tuple[BatchJob, ...]:
    """The same with the words and the variables that the job gives the script; a training once."""
    given = with_folders(job)
    variables = {name: Word(str(value)) for name, value in given.environment.items()}
    words = variables_of_words([Word(each) for each in words_of(given)])
    return read_batch_script(shell_text(subject).decode("utf-8", "replace"), {**variables, **words}).jobs


def job_of_start(job: JobSpec, start: BatchJob, devices: int) -> JobSpec | None:
    """The job that would start what a command of its shell script starts, on hosts with so many devices.

    None where a run alone would tell its words, where it goes to another folder before, and on several hosts,
    whose ranks find one another in ways that the script has to see to.
    """
    line = start.start
    words = (line.script, *line.arguments, *start.environment.values())
    if any(each.is_open or "${" in each.text for each in words) or start.folder is not None:
        return None
    if start.program is None or (job.resources.instance_count or 1) > 1 or line.starter == "mpi":
        return None
    starts_ranks = line.starter in RANK_STARTERS
    # torchrun alone starts one process where it is told no number.
    default = 1 if line.starter in ("torchrun", "python") else devices
    exported = {name: word for name, (word, _) in start.exports.items()}
    own = {name: word.text for name, word in (exported | dict(start.environment)).items() if not word.is_open}
    named = {"module": line.script.text} if line.is_module else {"entry_point": start.program}
    code = {"entry_point": None, "module": None, **named, "arguments": [each.text for each in line.arguments]}
    ranks = {
        "strategy": Strategy.TORCHRUN if starts_ranks else Strategy.NONE,
        "processes_per_host": line.processes_per_host or default,
    }
    given = {
        "code": job.code.model_copy(update=code),
        "distribution": job.distribution.model_copy(update=ranks),
        "environment": {**job.environment, **own},
        "hyperparameters": {},
    }
    return job.model_copy(update=given)


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
