"""Rules on the code of a job: the source, the script, its arguments, and what is installed before it starts.

A shell script is read for lines that no shell on Linux can run, a requirements file for lines that pip would
refuse on every host, and hyperparameters are to be in the words that the script's own parser takes.
"""

from __future__ import annotations

import ast
import itertools
import os
import posixpath
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from launcher.failure_modes import training_script
from launcher.failure_modes.model import Finding, Location, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.job_sections import DEFAULT_REQUIREMENTS, NO_REQUIREMENTS
from launcher.planning.images import image_release
from launcher.planning.strategies.strategy import SHELL_ENDING
from launcher.program.index import FileIndex, absolute_module_name, is_package
from launcher.program.program import Program
from launcher.rules.job.subject import JobSubject, SourceSubject
from launcher.source.folder_walk import SourceError, largest_entries, sizes_in_words
from launcher.source.requirements_file import FileLine, WantedPackage
from launcher.source.tree import SourceTree, module_files, runnable_modules
from launcher.text.values import nearest, size_in_words

if TYPE_CHECKING:
    from packaging.requirements import Requirement

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
        program is not None and any(name.partition(".")[0] == "torch" for *_, name in _sure_imports(program))
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
    if names.intersection(module_files(module)):
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
            remedy=f"Change the pattern, or add the line !{left_out.name} to "
            f"{source.folder / '.slipwayignore'}.",
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
        f"Change the pattern, or add the line !{ignored.name} to {source.folder / '.slipwayignore'}.",
    )


# What stands in a shell script that the job starts.


MOST_SHELL_BYTES = 1_000_000
"""Of a script that is looked at; one of these has a few kilobytes."""

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


def shell_commands(subject: SourceSubject) -> list[str]:
    """The commands of the shell script that the job starts, without comments."""
    lines = shell_text(subject).decode("utf-8", "replace").replace("\\\n", " ").split("\n")
    plain = [each for each in lines if not each.lstrip().startswith("#")]
    return [each for line in plain for each in re.split(r"[;|&]", line.partition(" #")[0])]


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


_MAKES_FILES = re.compile(r"\b(?:cd|pushd|cat|tee|cp|mv|curl|wget|git|tar|unzip|aws|pip)\b|>")
_STARTERS = frozenset({"python", "python3", "torchrun", "accelerate", "deepspeed", "mpirun"})


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def shell_script_starts_what_is_packed(subject: SourceSubject) -> Iterator[Finding]:
    """A Python script by a relative path; a warning, and none where the shell script moves or makes files."""
    commands = shell_commands(subject)
    if any(map(_MAKES_FILES.search, commands)):
        return
    packed = {file.name for file in subject.source.files}
    started = [words for each in commands if _STARTERS & set(words := each.split())]
    scripts = [next((word for word in words if word.endswith(".py")), "/") for words in started]
    for script in dict.fromkeys(scripts):
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


# What the script imports of the user's own.


_MADE_LATER = ("_pb2", "_pb2_grpc", "_version", "version", "__about__")
"""The ends of modules that a build writes."""


@finds(Stage.SPEC, training_script.REQUIREMENT_MISSING)
def own_modules_are_packed(subject: JobSubject) -> Iterator[Finding]:
    """A module of the user's that every run imports and the archive does not hold.

    It is left out by a pattern, lies beside the source folder, or is in none of the packages that are packed.
    A warning, as something that is installed may have the same name. Silent where the program changes
    `sys.path`, and of what it imports in a `try`, a condition or a function.
    """
    program, source = subject.program, subject.source
    if program is None or source.problems or source.is_packed or "PYTHONPATH" in subject.job.environment:
        return
    if any(word in file.text for word in ("sys.path", "sys.modules", "__path__") for file in program.files):
        return
    told = set[str]()
    for file, node, module in _sure_imports(program):
        if module in told or module.endswith(_MADE_LATER):
            continue
        why = _why_module_is_missing(subject, program, file, module)
        if why is not None:
            told.add(module)
            yield training_script.REQUIREMENT_MISSING.finding(
                Stage.SPEC,
                f"{posixpath.basename(file.path.as_posix())} imports {module}, which {why[0]}: the "
                "script would end with 'No module named' on every host",
                remedy=why[1],
                severity=Severity.WARNING,
                location=file.location(node),
                subject=module,
            )


_QUIETLY_THERE = re.compile(
    r"torch\w*|functorch|triton|numpy|scipy|pandas|sklearn|PIL|cv2|ya?ml|requests|tqdm|boto\w+|s3\w+|fsspec"
    r"|matplotlib|mpl_toolkits|seaborn|plotly|bokeh|psutil|packaging|h5py|numba|click|attrs?|filelock|networkx"
    r"|sympy|jinja2|joblib|dateutil|pytz|six|certifi|urllib3|dill|cloudpickle|typing_extensions|setuptools"
    r"|pkg_resources|pip|mpi4py|sagemaker\w*|sm\w+|shap|horovod|apex|amp_C|transformer_engine|flash_attn"
    r"|tensor(?:flow|board)|keras|google|omegaconf|huggingface_hub|tokenizers|safetensors|lightning_utilities"
    r"|slipway|IPython|Cython|pynvml|ninja"
)
"""What images and the packages that are listed often bring: of the rest one is reminded."""


@finds(Stage.SPEC, training_script.REQUIREMENT_MISSING)
def imports_are_listed(subject: JobSubject) -> Iterator[Finding]:
    """An information on packages that every run imports and no requirement names: the image has to have them.

    Nothing of an image of one's own, nor where the program installs packages or looks for modules itself.
    """
    job, program, source = subject.job, subject.program, subject.source
    if not (job.framework and program and subject.on_sagemaker) or source.problems or source.is_packed:
        return
    if any(re.search(r"sys\.path|sys\.modules|\bpip\b", file.text) for file in program.files):
        return
    packed = {name for file in source.files for name in (file.name.split("/"))}
    missing: dict[str, Location] = {}
    for file, node, module in _sure_imports(program):
        top = module.partition(".")[0]
        own = any(name == top or name.startswith(f"{top}.") for name in packed)
        own = own or _why_module_is_missing(subject, program, file, module) is not None
        if not own and not _QUIETLY_THERE.fullmatch(top) and not _is_installed(subject, top):
            missing.setdefault(top, file.location(node))
    if not missing or "PYTHONPATH" in job.environment:
        return
    listed = source.requirements.file if source.requirements else None
    what = f"{listed} does not name" if listed else "nothing that is installed brings"
    yield training_script.REQUIREMENT_MISSING.finding(
        Stage.SPEC,
        f"the script imports {', '.join(missing)}, which {what}: it runs only if the image has "
        f"{'it' if len(missing) == 1 else 'them'}",
        remedy=f"Add what is missing to {listed or DEFAULT_REQUIREMENTS} in the source folder.",
        severity=Severity.INFO,
        location=next(iter(missing.values())),
        subject="code.requirements",
        verified=False,
    )


def _sure_imports(program: Program) -> Iterator[tuple[FileIndex, ast.stmt, str]]:
    """What is imported as soon as the program starts: in which file, by which statement, which module."""
    waiting, seen = [program.entry], {program.entry}
    while waiting:
        file = waiting.pop()
        for node in file.tree.body:
            named = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and (node.module or node.level):
                named = ["." * node.level + (node.module or "")]
            for name in named:
                module = absolute_module_name(name, program.module_name(file), is_package(file))
                parts = module.split(".")
                yield file, node, module
                for length in range(1, len(parts) + 1):
                    found = program.modules.get(".".join(parts[:length]))
                    if found is not None and found not in seen:
                        seen.add(found)
                        waiting.append(found)


def _why_module_is_missing(
    subject: JobSubject, program: Program, file: FileIndex, module: str
) -> tuple[str, str] | None:
    """Why a module of the user's is not in the archive, and what to do; None where it is, or is another's."""
    source, top = subject.source, module.partition(".")[0]
    packed = {each.name for each in source.files}
    found = program.modules.get(module)
    if found is not None:
        name = os.path.relpath(os.path.realpath(found.path), os.path.realpath(source.folder))
        ignored = source.why_ignored(name) if name not in packed else None
        if ignored is None or ignored.ignore_file is None:
            return None
        return (
            f"{ignored.ignore_file.name} leaves out (the pattern {ignored.pattern} fits {ignored.name})",
            f"Change the pattern, or add the line !{name} to {source.folder / '.slipwayignore'}.",
        )
    places = {"", posixpath.dirname(source.entry_point_name)}
    own = [place for place in places if posixpath.join(place, top, "__init__.py") in packed]
    if own and "." in module:
        wanted = [posixpath.join(place, *module.split(".")) for place in own]
        if any(name.startswith((f"{each}.", f"{each}/")) for each in wanted for name in packed):
            return None
        return f"is not in the package {top} that is packed", "Correct the import, or pack the module."
    if own or any(name.startswith((f"{top}.", f"{top}/")) for name in packed) or _is_installed(subject, top):
        return None
    beside = source.folder.parent / top
    if beside.with_name(f"{top}.py").is_file() or (beside / "__init__.py").is_file():
        return (
            f"lies in {source.folder.parent}, outside of code.source_dir, and only what is inside is packed",
            "Set `code.source_dir` to the folder that holds both, or move the module.",
        )
    return None


def _is_installed(subject: JobSubject, top: str) -> bool:
    """Whether a module may come from Python itself, or from a package of the requirements."""
    wanted = subject.source.requirements
    if top in sys.stdlib_module_names or (wanted is not None and wanted.fetched):
        return True
    texts = [each.text for each in wanted.packages] if wanted else []
    return any(top.lower() in text.replace("-", "_").lower() or text.startswith(".") for text in texts)


# What is installed before the script.


_FIELD = ("code", "requirements")


@finds(Stage.SPEC, training_script.REQUIREMENT_MISSING)
def named_requirements_are_packed(subject: JobSubject) -> Iterator[Finding]:
    """A file that the job names must be on the hosts; where the source is on S3, they look for it."""
    named, source = subject.job.code.requirements, subject.source
    on_s3 = subject.job.code.source_dir.startswith("s3://")
    if named in (None, NO_REQUIREMENTS) or source.requirements is not None or not source.exists or on_s3:
        return
    yield training_script.REQUIREMENT_MISSING.at(
        _FIELD,
        f"the requirements file {named} is not among the files of {source.folder} that are packed, so "
        "nothing could be installed",
        remedy="Correct `code.requirements`, which is relative to `code.source_dir`."
        + _nearest_file_hint(str(named), source),
    )


@finds(Stage.SPEC, training_script.REQUIREMENT_MISSING)
def requirements_can_be_read(subject: JobSubject) -> Iterator[Finding]:
    """pip refuses the whole file for one line, on hosts that were waited and paid for."""
    found = subject.source.requirements
    for line in found.unusable if found else ():
        yield _at_line(line.place, line.message, line.remedy)


@finds(Stage.SPEC, training_script.REQUIREMENT_MISSING)
def packages_are_wanted_in_one_version(subject: JobSubject) -> Iterator[Finding]:
    """Of each two lines on a package, no version may fit only one: pip then installs nothing."""
    for name, lines in _by_name(subject).items():
        for one, other in itertools.combinations(lines, 2):
            first, second = _said_by(one), _said_by(other)
            if first.specifier == second.specifier or first.marker != second.marker:
                continue
            contradict = _exclude_each_other(first, second)
            yield _at_line(
                other.place,
                f"{name} is asked for twice, as {one.text} in {one.place} and as {other.text}"
                + (": no version is both, and pip would install nothing" if contradict else ""),
                "Keep one of the two lines.",
                None if contradict else Severity.WARNING,
            )
            break


@finds(Stage.SPEC, training_script.REQUIREMENT_MISSING)
def torch_is_that_of_the_image(subject: JobSubject) -> Iterator[Finding]:
    """The boot keeps the image's torch, which the rest of the image is built for; the toolkit replaces it."""
    framework = subject.job.framework
    if framework is None or framework.name != "pytorch":
        return
    release = image_release("pytorch", framework.version)
    if release is None:
        return  # There is no such image, which is found elsewhere.
    by_boot = subject.plan.with_boot
    for name, versions in _versions_beside_torch(release.version).items():
        for wanted in _by_name(subject).get(name, ()):
            said = _said_by(wanted)
            if said.marker or any(said.specifier.contains(each, prereleases=True) for each in versions):
                continue
            shown = versions[0] if name == "torch" else versions[0].rpartition(".")[0]
            yield _at_line(
                wanted.place,
                f"{wanted.text} is not the image's {name}, {shown}"
                + (
                    ", which is kept, so that pip would install nothing"
                    if by_boot
                    else ": the image's toolkit would replace that, and what the image built for it may break"
                ),
                f"Take the line out, or set `framework.version` to the version that you want; the image's "
                f"{name} {shown} is there without it.",
                None if by_boot else Severity.WARNING,
            )


def _versions_beside_torch(torch: str) -> dict[str, tuple[str, ...]]:
    """What an image with this torch holds, which belongs together: the versions that each may have.

    Source: pytorch/vision, README (torch 2.0 has torchvision 0.15, torch 1.13 has 0.14); torchaudio has
    torch's own number, and before 2.0 its second part.
    """
    major, minor = (int(part) for part in torch.split(".")[:2])
    if (major, minor) > (2, 9):
        return {"torch": (torch,)}
    vision = f"0.{minor + (15 if major == 2 else 1)}"
    audio = f"2.{minor}" if major == 2 else f"0.{minor}"
    return {
        "torch": (torch,),
        "torchvision": tuple(f"{vision}.{patch}" for patch in range(4)),
        "torchaudio": tuple(f"{audio}.{patch}" for patch in range(4)),
    }


_NO_PACKAGES = {
    "cv2": "opencv-python-headless",
    "pil": "Pillow",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "PyYAML",
    "dateutil": "python-dateutil",
    "pytorch": "torch",
    "python": None,
    "cudatoolkit": None,
    "pytorch-cuda": None,
}
"""What is no package of pip's, or refuses to be built: names of modules, and of packages of conda."""


@finds(Stage.SPEC, training_script.REQUIREMENT_MISSING)
def requirements_are_packages(subject: JobSubject) -> Iterator[Finding]:
    """No names of modules, of conda's packages or of Python's own modules, and no versions that cannot be."""
    for name, lines in _by_name(subject).items():
        for wanted in lines:
            said = _said_by(wanted)
            if said.marker is not None:
                continue
            if name in _NO_PACKAGES:
                meant = _NO_PACKAGES[name]
                yield _at_line(
                    wanted.place,
                    f"{said.name} is no package that pip could install",
                    f"Write {meant}." if meant else "Take the line out; the image brings it.",
                    Severity.WARNING,
                )
            elif name.replace("-", "_") in sys.stdlib_module_names:
                yield _at_line(
                    wanted.place,
                    f"{said.name} is Python's own module: a package of that name is missing, needless or "
                    "hides it",
                    "Take the line out.",
                    Severity.WARNING,
                )
            elif _excludes_all(said):
                yield _at_line(
                    wanted.place,
                    f"{wanted.text} fits no version at all, and pip would install nothing",
                    "Correct the versions.",
                )


def _excludes_all(said: Requirement) -> bool:
    """Whether no version is in all of the ranges: none of their ends, and nothing just beyond one."""
    ends = [each.version.removesuffix(".*") for each in said.specifier]
    tried = [version for end in ends for version in (end, f"{end}.1")] if len(ends) > 1 else []
    return bool(tried) and not any(
        said.specifier.contains(each, prereleases=True) for each in (*tried, "0", "99999")
    )


@finds(Stage.SPEC, training_script.REQUIREMENT_MISSING)
def toolkit_knows_one_file(subject: JobSubject) -> Iterator[Finding]:
    """The toolkit of AWS's images installs the source folder's requirements.txt, always, and no other."""
    named = subject.job.code.requirements
    if subject.plan.with_boot or named is None or posixpath.normpath(named) == DEFAULT_REQUIREMENTS:
        return
    packed = any(file.name == DEFAULT_REQUIREMENTS for file in subject.source.files)
    if named == NO_REQUIREMENTS and not packed:
        return
    what = (
        f"installs {DEFAULT_REQUIREMENTS} of the source folder whatever the job file says"
        if named == NO_REQUIREMENTS
        else f"installs {DEFAULT_REQUIREMENTS} and no other file, so {named} would be passed over"
    )
    strategy = subject.job.distribution.strategy.value
    job = "a tuning job" if subject.job.tuning is not None else f"a job of the strategy {strategy}"
    yield training_script.REQUIREMENT_MISSING.at(
        _FIELD,
        f"requirements: {named} cannot be followed: {job} starts through the toolkit of the image, which "
        f"{what}",
        remedy=f"Leave {DEFAULT_REQUIREMENTS} out by .slipwayignore."
        if named == NO_REQUIREMENTS
        else f"Call the file {DEFAULT_REQUIREMENTS}, or write `-r {named}` into a file of that name.",
    )


def _at_line(place: FileLine, message: str, remedy: str, severity: Severity | None = None) -> Finding:
    """A finding at a line of the requirements file itself."""
    return training_script.REQUIREMENT_MISSING.finding(
        Stage.SPEC,
        f"{place}: {message}",
        remedy=remedy,
        severity=severity,
        location=Location(str(place.path), place.line, 1),
        subject=".".join(_FIELD),
    )


def _by_name(subject: JobSubject) -> Mapping[str, list[WantedPackage]]:
    """The lines with a name, constraints among them, by the name as pip compares them."""
    found = subject.source.requirements
    lines: dict[str, list[WantedPackage]] = {}
    for each in (*found.packages, *found.constraints) if found else ():
        if each.requirement is not None:
            from packaging.utils import canonicalize_name

            lines.setdefault(canonicalize_name(each.requirement.name), []).append(each)
    return lines


def _said_by(wanted: WantedPackage) -> Requirement:
    assert wanted.requirement is not None, "only lines with a name are gathered"
    return wanted.requirement


def _exclude_each_other(one: Requirement, other: Requirement) -> bool:
    """Whether a version that the one names exactly is none of the other's, or the other way round."""
    return any(
        not excluding.specifier.contains(pinned.version, prereleases=True)
        for pinning, excluding in ((one, other), (other, one))
        for pinned in pinning.specifier
        if pinned.operator == "==" and not pinned.version.endswith(".*")
    )


def _nearest_file_hint(named: str, source: SourceTree) -> str:
    name = posixpath.normpath(named)
    ignored = source.why_ignored(name)
    if ignored is not None and ignored.ignore_file is not None:
        return (
            f" {ignored.ignore_file.name} leaves it out: the pattern {ignored.pattern} fits {ignored.name}."
        )
    near = nearest(name, [file.name for file in source.files if file.name.endswith((".txt", ".in"))])
    return f" Did you mean {near[0]}?" if near else ""
