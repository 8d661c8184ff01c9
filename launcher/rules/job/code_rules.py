"""Rules on the code of a job: the source, the script that the job starts, and its arguments.

A shell script is read for lines that no shell on Linux can run, and hyperparameters are to be in the words
that the script's own parser takes.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from launcher.failure_modes import training_script
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.load_job import import_folders
from launcher.rules.job.requirement_rules import sure_imports
from launcher.rules.job.start_scripts import shell_starts, shell_text
from launcher.rules.job.subject import JobSubject, SourceSubject
from launcher.source.folder_walk import IgnoredPath, largest_entries, sizes_in_words
from launcher.source.tree import SourceTree, module_files, runnable_modules
from launcher.text.values import nearest, size_in_words

# The source directory, the script that the job starts, and what of them is packed.


LARGE_BYTES = 100_000_000
"""More code than this is data that came along: it is read for every plan and sent with every change."""

_MOST_LINKS = 3
"""So many links that lead nowhere are told one by one."""

_SOURCE_DIR = ("code", "source_dir")
_ENTRY_POINT = ("code", "entry_point")
_MODULE = ("code", "module")


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def entry_point_is_there(subject: SourceSubject) -> Iterator[Finding]:
    """Without its script a job downloads, starts and fails on every host."""
    source, entry_point = subject.source, subject.code.entry_point
    if not source.exists:
        yield training_script.ENTRY_POINT_MISSING.at(
            _SOURCE_DIR,
            f"the source directory {source.folder} does not exist",
            remedy="Correct `code.source_dir`; it is relative to the job file.",
        )
    elif not source.files and source.problems:
        return  # `source_can_be_packed` says why nothing can be seen of it.
    elif entry_point is not None and not source.has_entry_point:
        near = nearest(entry_point, source.scripts)
        scripts = ", ".join(source.scripts) or "no scripts"
        there = f"Did you mean {near[0]}?" if near else f"There are: {scripts}."
        yield training_script.ENTRY_POINT_MISSING.at(
            _ENTRY_POINT,
            f"the entry point {entry_point} is not in {source.place}",
            remedy=f"Correct `code.entry_point`, which is relative to `code.source_dir`. {there}",
        )


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def source_can_be_packed(subject: SourceSubject) -> Iterator[Finding]:
    """A link, a special file or gigabytes of data cannot go to the hosts, and nothing goes without them."""
    if subject.source.exists:
        for problem in subject.source.problems:
            yield training_script.ENTRY_POINT_MISSING.at(
                _SOURCE_DIR, problem.message.rstrip("."), remedy=problem.remedy
            )


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def links_lead_somewhere(subject: SourceSubject) -> Iterator[Finding]:
    """A link to what is not there is left out: whoever opens it fails here as there."""
    for name in subject.source.dangling[:_MOST_LINKS]:
        yield training_script.ENTRY_POINT_MISSING.at(
            _SOURCE_DIR,
            f"{subject.source.folder / name} is a symbolic link to what is not there, and is left out",
            remedy=f"Remove it, or put back what it leads to, if the job needs that. The line {name} in "
            ".slipwayignore leaves it out without a word.",
            severity=Severity.WARNING,
        )


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def entry_point_is_packed(subject: SourceSubject) -> Iterator[Finding]:
    """A script that lies on the disk and yet not in the archive is missing on every host; S3 is not asked."""
    source = subject.source
    if source.is_unread:
        yield training_script.ENTRY_POINT_MISSING.at(
            _SOURCE_DIR,
            f"the code at {source.place} was not looked at, nor whether it holds {subject.code.program}",
            remedy="A submission reads it, and so does `launch check --live`.",
            severity=Severity.INFO,
            verified=False,
        )
    elif subject.code.module is not None:
        return  # `module_is_there` judges it.
    elif not source.problems and source.has_entry_point and not source.packs_entry_point:
        message, remedy = _why_not_packed(source)
        yield training_script.ENTRY_POINT_MISSING.at(_ENTRY_POINT, message, remedy=remedy)


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def nothing_hides_the_boot(subject: SourceSubject) -> Iterator[Finding]:
    """A module of our package starts the ranks, and one of its name in the source would hide it."""
    source = subject.source
    names = {file.name for file in source.files}
    folders = {"", posixpath.dirname(source.entry_point_name)} if subject.code.module is None else {""}
    for folder in sorted(folders):
        package = posixpath.join(folder, "slipway")
        if f"{package}.py" in names:
            found = f"{package}.py"
        elif f"{package}/__init__.py" in names and f"{package}/ranks/start.py" not in names:
            found = f"{package}/__init__.py"
        else:
            continue
        yield training_script.ENTRY_POINT_MISSING.at(
            _SOURCE_DIR,
            f"{found} in {source.place} hides the library slipway in the container: the ranks, which one of "
            "its modules starts, would fail on every host, and `import slipway` would find it instead",
            remedy="Give it another name, or leave it out by .slipwayignore.",
        )


_LOADED_BY_EVERY_RANK = (
    "collections contextlib copyreg encodings enum fnmatch functools importlib keyword operator pathlib re "
    "reprlib signal struct threading types typing warnings weakref"
)
"""Python's modules that `python -m slipway.ranks.start` loads from their files in each of 3.10 to 3.13."""

_LOADED_BY_TORCH = (
    "argparse ast asyncio base64 bisect copy csv ctypes dataclasses datetime dis glob hashlib heapq inspect "
    "json linecache logging multiprocessing numbers pickle platform pprint queue random select selectors "
    "shutil socket string subprocess tempfile textwrap token tokenize traceback uuid zipfile"
)
"""What torch 2.13 and its torch.distributed load besides, under 3.11, without what is seldom used."""


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def nothing_hides_python(subject: JobSubject) -> Iterator[Finding]:
    """The source is in PYTHONPATH, before Python's own modules, so that one of their names comes first."""
    source, program = subject.source, subject.program
    has_torch = subject.job.distribution.strategy.value == "torchrun" or (
        program is not None and any(name.partition(".")[0] == "torch" for *_, name in sure_imports(program))
    )
    for file in source.files:
        module = file.name.removesuffix(".py").removesuffix("/__init__")
        always = module in _LOADED_BY_EVERY_RANK.split()
        if module != file.name and (always or (has_torch and module in _LOADED_BY_TORCH.split())):
            yield training_script.ENTRY_POINT_MISSING.at(
                _SOURCE_DIR,
                f"{file.name} in {source.place} hides Python's own module {module}, which "
                f"{'every rank loads as it starts' if always else 'torch imports'}, and is run in its place",
                remedy="Give it another name, move it into a package, or leave it out by .slipwayignore.",
                severity=None if always else Severity.WARNING,
            )


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def code_is_small(subject: SourceSubject) -> Iterator[Finding]:
    """What is packed is downloaded and unpacked by every host before the script starts."""
    source = subject.source
    if not source.problems and source.size_bytes > LARGE_BYTES:
        yield training_script.ENTRY_POINT_MISSING.at(
            _SOURCE_DIR,
            f"the source {source.place} holds {size_in_words(source.size_bytes)} that every "
            f"host downloads, most in {sizes_in_words(largest_entries(source.files))}",
            remedy="Leave out by .slipwayignore what the job does not need; give data as an input.",
            severity=Severity.WARNING,
        )


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def module_is_there(subject: SourceSubject) -> Iterator[Finding]:
    """A module that its package does not hold fails on every host; another package may be installed."""
    source, module = subject.source, subject.code.module
    if module is None or source.problems or source.is_unread:
        return
    names = {file.name for file in source.files}
    folders = import_folders(subject.job) if isinstance(subject, JobSubject) else ()
    if folders is None or names.intersection(module_files(module, folders)):
        return
    known = sorted({*runnable_modules(names)})
    near = nearest(module, known)
    meant = f"Did you mean {near[0]}? " if near else ""
    left_out = next(filter(None, map(source.why_ignored, module_files(module))), None)
    if left_out is not None and left_out.ignore_file is not None:
        yield training_script.ENTRY_POINT_MISSING.at(
            _MODULE,
            f"the module {module} is left out by {left_out.ignore_file.name} of "
            f"{left_out.ignore_file.parent}: the pattern {left_out.pattern} fits {left_out.name}",
            remedy=_remedy_of_pattern(source, left_out),
        )
    elif {each.partition(".")[0] for each in known} & {module.partition(".")[0]}:
        yield training_script.ENTRY_POINT_MISSING.at(
            _MODULE,
            f"the module {module} is not in {source.folder}, which holds its package: there is neither "
            f"{' nor '.join(module_files(module))}",
            remedy=f"Correct `code.module`, as Python imports it from `code.source_dir`. {meant}".rstrip(),
        )
    else:
        yield training_script.ENTRY_POINT_MISSING.at(
            _MODULE,
            f"the module {module} is not in {source.folder}: it must be installed, by the image or by the "
            "job's requirements",
            remedy=f"{meant}Correct `code.module` or `code.source_dir` if it is of the source.",
            severity=Severity.WARNING if near else Severity.INFO,
        )


def _why_not_packed(source: SourceTree) -> tuple[str, str]:
    """Why the entry point is not in the archive, and what to do."""
    entry_point = source.entry_point
    if source.entry_point_is_outside:
        return (
            f"the entry point {entry_point} is outside of {source.folder}, and only what is inside is packed",
            "Give `code.entry_point` relative to `code.source_dir`, without `..`.",
        )
    ignored = source.why_ignored(source.entry_point_name)
    if ignored is None:
        return (
            f"the entry point {entry_point} is in {source.folder} under another name, and Linux tells upper "
            "from lower case",
            "Write `code.entry_point` as the file is called.",
        )
    if ignored.ignore_file is None:
        return (
            f"the entry point {entry_point} is in {ignored.name}, which is never packed",
            "Move the script out of that folder.",
        )
    return (
        f"the entry point {entry_point} is left out by {ignored.ignore_file.name} of "
        f"{ignored.ignore_file.parent}: the pattern {ignored.pattern} fits {ignored.name}",
        _remedy_of_pattern(source, ignored),
    )


def _remedy_of_pattern(source: SourceTree, left_out: IgnoredPath) -> str:
    return f"Change the pattern, or add the line !{left_out.name} to {source.folder / '.slipwayignore'}."


_CONFIGURATIONS = (".py", ".yaml", ".yml", ".json", ".toml", ".cfg", ".ini", ".conf")


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def named_files_are_packed(subject: JobSubject) -> Iterator[Finding]:
    """A configuration in the source folder that the job names for its script must be in the archive."""
    for index, word in enumerate(subject.job.code.arguments):
        text = str(word).rpartition("=")[2]
        left_out = subject.source.why_ignored(posixpath.normpath(text)) if "$" not in text else None
        if text.endswith(_CONFIGURATIONS) and left_out is not None and left_out.ignore_file is not None:
            yield training_script.ENTRY_POINT_MISSING.at(
                ("code", "arguments", index),
                f"{text} is left out by {left_out.ignore_file.name} of {left_out.ignore_file.parent}: the "
                f"pattern {left_out.pattern} fits {left_out.name}, and the script would not find the file",
                remedy=_remedy_of_pattern(subject.source, left_out),
            )


# What stands in a shell script that the job starts.


_ENTRY_POINT_FIELD = ("code", "entry_point")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "busybox"})


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def shell_script_has_unix_line_ends(subject: SourceSubject) -> Iterator[Finding]:
    """A shell takes the carriage return for a part of each line's last word: `set -e\\r` is no option."""
    text = shell_text(subject)
    number = next((n for n, line in enumerate(text.split(b"\n"), 1) if line.endswith(b"\r")), None)
    if number is not None:
        yield training_script.ENTRY_POINT_MISSING.at(
            _ENTRY_POINT_FIELD,
            f"{subject.source.entry_point_name} has Windows line ends (line {number}): a shell takes the "
            "carriage return for a part of the line's last word, and would fail on the hosts",
            remedy="Save it with Unix line ends (in git, .gitattributes: `*.sh text eol=lf`).",
        )


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def shell_script_is_run_by_what_it_names(subject: JobSubject) -> Iterator[Finding]:
    """Without the run bit, bash runs the script, whatever its first line names; the toolkit sets the bit."""
    if not subject.plan.with_boot:
        return
    first = shell_text(subject).partition(b"\n")[0].decode("utf-8", "replace").rstrip("\r")
    script = subject.source.entry_point_name
    interpreter = _interpreter(first)
    if interpreter is None or interpreter in _SHELLS or _has_run_bit(subject.source, script):
        return
    yield training_script.ENTRY_POINT_MISSING.at(
        _ENTRY_POINT_FIELD,
        f"{script} begins with {first[:100]!r} and has no run bit: bash would run it instead of "
        f"{interpreter}",
        remedy=f"Make it executable (chmod +x {script}), begin it with #!/bin/bash, or name a Python program "
        "`.py`.",
    )


_MAKES_FILES = re.compile(r"\b(?:cd|pushd|cat|tee|cp|mv|curl|wget|git|tar|unzip|aws|pip)\b|>")


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def shell_script_starts_what_is_packed(subject: SourceSubject) -> Iterator[Finding]:
    """A Python script by a relative path; a warning, and none where the shell script moves or makes files."""
    lines = shell_text(subject).decode("utf-8", "replace").split("\n")
    if any(_MAKES_FILES.search(each) for each in lines if not each.lstrip().startswith("#")):
        return
    packed = {file.name for file in subject.source.files}
    started = [each.start.script for each in shell_starts(subject) if not each.start.is_module]
    scripts = [each.text for each in started if not each.is_open and "$" not in each.text]
    for script in dict.fromkeys(each for each in scripts if each.endswith(".py")):
        if not script.startswith("/") and posixpath.normpath(script) not in packed:
            yield training_script.ENTRY_POINT_MISSING.at(
                _ENTRY_POINT_FIELD,
                f"{subject.source.entry_point_name} starts {script}, which is not in {subject.source.place}",
                severity=Severity.WARNING,
            )


def _interpreter(first: str) -> str | None:
    """The name of the program that a first line names, such as `python3` of `#!/usr/bin/env python3`."""
    words = first[2:].split() if first.startswith("#!") else []
    names = [PurePosixPath(word).name for word in words if not word.startswith("-") and "=" not in word]
    return next((name for name in names if name != "env"), None)


def _has_run_bit(source: SourceTree, name: str) -> bool:
    return any(file.name == name and file.executable for file in source.files)


# Hyperparameters in the words that the script's own parser takes.


_STYLE = ("code", "argument_style")


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def hyperparameters_are_in_the_scripts_style(subject: JobSubject) -> Iterator[Finding]:
    """A parser that is given words of another style exits with code 2, on every host at once."""
    job, script = subject.job, subject.command_line
    names = [*job.hyperparameters, *(job.tuning.ranges if job.tuning else ())]
    style, program = job.code.argument_style, job.code.program
    if not names or style == "none":
        return
    if script.hydra_line is not None and style != "hydra":
        word = f"--{names[0]} ..." if style == "spaced" else f"--{names[0]}=..."
        yield training_script.ENTRY_POINT_MISSING.at(
            _STYLE,
            f"{program} takes {names[0]}=... (@hydra.main, line {script.hydra_line}) and would refuse {word}",
            remedy="Write `argument_style: hydra`."
            if job.tuning is None and subject.plan.with_boot
            else "Use another way than hydra to read them (SM_HPS): the images' toolkit, which starts the "
            "script here, passes `--name value` alone.",
        )
    elif script.options is not None and script.hydra_line is None and style == "hydra":
        yield training_script.ENTRY_POINT_MISSING.at(
            _STYLE,
            f"{program} reads its options with argparse and would refuse {names[0]}=...",
            remedy="Leave `argument_style` out, or write `argument_style: equals`.",
        )
    elif script.options is not None and style == "spaced":
        for name in names:
            if len(name) == 1 and f"--{name}" in script.options and f"-{name}" not in script.options:
                yield training_script.ENTRY_POINT_MISSING.at(
                    ("hyperparameters", name),
                    f"a name of one letter is passed as -{name}, and {program} declares --{name} alone",
                    remedy=f"Declare both in the script: add_argument('-{name}', '--{name}')"
                    + (", or write `argument_style: equals`." if subject.plan.with_boot else "."),
                )
