"""From a training script to the draft of its job file, and to the file, which is never written over."""

from __future__ import annotations

import os
import re
from pathlib import Path

from launcher.drafts.hydra_config import HydraConfig, compose_config, find_hydra_config
from launcher.drafts.script_draft import ScriptSource
from launcher.failure_modes.model import Refusal
from launcher.jobs.job_sections import DEFAULT_REQUIREMENTS
from launcher.program.index import Unread
from launcher.program.program import FileCache, Program, collection_paused, read_program
from launcher.rules.job.subject import SEARCHED_NAMES
from launcher.session.drafting.find_script import ScriptPlace, find_script, project_folders
from launcher.source.requirements_file import RequirementsFile
from launcher.source.tree import SourceTree, module_files, read_source
from launcher.text.regular_files import read_regular

JOB_FILE = "job.yaml"
"""Where a job file is written unless another place is given."""

_MOST_BYTES = 1_000_000
"""Of a configuration or a shell script that is read; theirs are a few kilobytes."""

_OF_PROJECTS = ("pyproject.toml", "setup.py", "setup.cfg")
_NAMES_PACKAGES = re.compile(r"^[ \t]*(install_requires|dependencies)[ \t]*=", re.MULTILINE)
"""How the files of projects begin the packages that these need (pyproject.toml: PyPA's specification;
setup.py and setup.cfg: setuptools' keywords)."""

_GENERIC_NAMES = frozenset({"src", "code", "scripts", "tools", "examples", "train", "main", "run", ""})
_MOST_NAME = 40
"""Characters of a job's name; what makes it unique is added to it (63 are SageMaker's most)."""


def read_script(given: Path, job_file: Path, cache: FileCache) -> tuple[ScriptSource, SourceTree]:
    """A script, or the one of a folder, with its code; `job_file` is where its job is to be written.

    What is parsed stays in the cache, for who judges the job afterwards.

    Raises Refusal where no script is to be found, or it cannot be read.
    """
    place = find_script(given, cache)
    program = None if place.path.suffix == ".sh" else _read_program(place, cache)
    if program is not None and (wider := _folder_with_configuration(place, program)) is not None:
        entry = place.path.absolute().relative_to(wider).as_posix()
        place = ScriptPlace(place.path, wider, entry)
        program = _read_program(place, cache)
    source = read_source(
        place.folder.absolute(),
        place.entry_point or module_files(place.module)[0],
        SEARCHED_NAMES,
        DEFAULT_REQUIREMENTS,
    )
    return _described(place, program, given, job_file, source.requirements), source


def _described(
    place: ScriptPlace,
    program: Program | None,
    given: Path,
    job_file: Path,
    installed: RequirementsFile | None,
) -> ScriptSource:
    code = {"source_dir": _relative(place.folder, job_file.absolute().parent)}
    code |= {"entry_point": place.entry_point} if place.entry_point else {"module": place.module}
    text = "" if program is not None else _read_text(place.path)
    config = None if program is None else _hydra_config(program)
    left_out = installed is None and (place.folder / DEFAULT_REQUIREMENTS).is_file()
    is_named_elsewhere = installed is None and not left_out
    named_in = _packages_named_in(place.folder, job_file.absolute().parent) if is_named_elsewhere else None
    return ScriptSource(str(given), _name(place), code, program, text, config, installed, named_in, left_out)


@collection_paused()
def _read_program(place: ScriptPlace, cache: FileCache) -> Program:
    program = read_program(Path(os.path.relpath(place.path)), Path(os.path.relpath(place.folder)), cache)
    if isinstance(program, Unread):
        raise Refusal(
            f"{place.path} cannot be read: {program.reason}.", "Give a script that Python itself can read."
        )
    return program


def _folder_with_configuration(place: ScriptPlace, program: Program) -> Path | None:
    """The folder of the project that holds the code and what Hydra reads; None where the code's does."""
    found = find_hydra_config(program)
    if found is None:
        return None
    config, code = Path(os.path.normpath(found[0].absolute())), place.folder.absolute()
    if not config.is_dir() or config.is_relative_to(code):
        return None
    return next((each for each in project_folders(code) if config.is_relative_to(each)), None)


def _packages_named_in(folder: Path, job_folder: Path) -> str | None:
    """The file that names packages where the code has no requirements: that of the code's own project, or the
    requirements of a folder above; as seen from the job file, None without."""
    own = (folder / name for name in _OF_PROJECTS)
    above = (each / DEFAULT_REQUIREMENTS for each in project_folders(folder.absolute()))
    named = [each for each in own if each.is_file() and _NAMES_PACKAGES.search(_read_text(each))]
    named += [each for each in above if each.is_file()]
    return _relative(named[0], job_folder) if named else None


def _read_text(file: Path) -> str:
    return read_regular(file, _MOST_BYTES).decode("utf-8", "replace")


def _hydra_config(program: Program) -> HydraConfig | None:
    """The configuration that Hydra reads."""
    found = find_hydra_config(program)
    if found is None:
        return None
    folder, name = found

    def read(inner: str) -> str | None:
        file = folder / f"{inner}.yaml"
        return _read_text(file) if file.is_file() else None

    return compose_config(name, read)


def _relative(folder: Path, to: Path) -> str:
    return Path(os.path.relpath(folder, to)).as_posix()


def _name(place: ScriptPlace) -> str:
    """A name for the job: the script's, or that of the first folder above that says something."""
    path = place.path.absolute()
    names = [path.stem, *(each.name for each in path.parents)]
    said = next((each for each in names if each.lower() not in _GENERIC_NAMES), "training")
    return re.sub(r"[^A-Za-z0-9]+", "-", said).strip("-")[:_MOST_NAME].rstrip("-") or "training"
