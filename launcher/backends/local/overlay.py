"""The Python of a local run with what its job requires: the user's own, and a folder over it.

What requirements.txt asks for and the chosen Python lacks is installed into a virtual environment that sees
all of that Python's packages behind its own; nothing is installed into that Python. Environments are kept
below `.slipway/environments`, each under the digest of all that decides on its content, and used again. One
counts only when it is complete: what a killed launcher left of it is made anew.

The program that makes one (`slipway/environment.py`) runs where it is to lie: on this machine, or on a login
node.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import subprocess
import tarfile
from collections.abc import Collection, Generator, Mapping
from pathlib import Path
from typing import Any, Protocol

from launcher.backends.interface import BackendError, OnProgress, Progress
from launcher.backends.local.python import InstalledPackages, answer_of, missing, packages_of
from launcher.source.packaging import build_boot, build_source, scratch_folder
from launcher.source.requirements_file import MOST_REQUIREMENTS_BYTES, RequirementsFile
from launcher.source.tree import SourceTree

_FORMAT = "slipway environment 1"
"""Part of every digest: another way of making them makes other ones."""

_COMPLETE = "complete"
_GIVEN_UP_SECONDS = 20.0
_SHOWN = 16
_OF_PIP = ("PIP_", "CA_REPOSITORY_ARN")

ORDER_NAME, ARCHIVE_NAME = "order.json", "slipway.pyz"
"""In what a workshop is given: what is to be made (`EnvironmentOrder` of the program), and the program."""

_SOURCE_NAME = "source"

# No module of the working directory is imported.
PROGRAM = """\
import sys
sys.path[:] = [place for place in sys.path if place]
from slipway.environment import main
sys.exit(main())
"""


class Workshop(Protocol):
    """Where environments lie, and the Pythons below them: this machine, or another one."""

    another_python: str
    """How a job is given another Python, in words."""

    passing: bool
    """Whether what it is given is copied to where the environments lie, and has to go from there."""

    def ask(self, python: Path, question: str) -> Mapping[str, Any]:
        """As `answer_of`."""
        ...

    def use(self, folder: Path) -> bool:
        """Whether the environment in a folder is complete; it is marked as used now."""
        ...

    def work(self, python: Path, given: Path, withheld: Collection[str]) -> Generator[str, None, None]:
        """Have that Python run PROGRAM on the order in a folder; the lines that it prints, as they come.

        Nothing goes on there when nobody takes the lines any more. Raises OSError or Refusal where it cannot
        be run.
        """
        ...

    def address(self, file: Path) -> str:
        """Where a file lies there, for people."""
        ...


class ThisMachine:
    """This machine as a workshop."""

    another_python = "--python PATH"
    passing = False

    def ask(self, python: Path, question: str) -> Mapping[str, Any]:
        """As any other."""
        return answer_of(python, question)

    def use(self, folder: Path) -> bool:
        """As any other."""
        if not (folder / _COMPLETE).is_file():
            return False
        with contextlib.suppress(OSError):
            os.utime(folder)  # By which `launch clean` goes.
        return True

    def work(self, python: Path, given: Path, withheld: Collection[str]) -> Generator[str, None, None]:
        """As any other."""
        reading, writing = os.pipe()
        inherited = {name: value for name, value in os.environ.items() if name not in withheld}
        for name in ("PYTHONHOME", "VIRTUAL_ENV"):
            inherited.pop(name, None)
        try:
            process = subprocess.Popen(
                [str(python), "-c", PROGRAM, str(given / ORDER_NAME)],
                env={**inherited, "PYTHONPATH": str(given / ARCHIVE_NAME), "SLIPWAY_LIFELINE": str(reading)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                pass_fds=(reading,),
                # Ctrl-C in a terminal reaches the launcher alone, which lets go of the pipe.
                start_new_session=True,
            )
        except BaseException:
            os.close(writing)
            raise
        finally:
            os.close(reading)
        try:
            if process.stdout is not None:
                yield from process.stdout
        finally:
            os.close(writing)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=_GIVEN_UP_SECONDS)

    def address(self, file: Path) -> str:
        """As any other."""
        return str(file)


def python_with_requirements(
    python: Path,
    source: SourceTree,
    environments: Path,
    given: Mapping[str, str],
    on_progress: OnProgress | None = None,
    *,
    withheld: Collection[str] = (),
    workshop: Workshop | None = None,
) -> Path:
    """The Python to run a job's boots and ranks with: `python` itself where it has all that is required.

    Else that of an environment below `environments`, which is made where it is not there yet. `given` is
    the job's own environment, of which pip gets what is meant for it; of the environment of whoever runs it
    it gets all but the variables `withheld`, the job's secrets: as in a container, no build sees or prints
    them. `workshop` is where all of this lies, by default this machine. Raises BackendError where a package
    cannot be installed.
    """
    place: Workshop = workshop or ThisMachine()
    wanted = source.requirements
    if wanted is None:
        return python
    installed = packages_of(python, place.ask)
    lacking = missing(wanted, installed)
    if not lacking and not wanted.fetched:
        return python
    settings = {name: value for name, value in given.items() if name.startswith(_OF_PIP)}
    folder = environments.absolute() / _digest(python, installed, wanted, source, settings)
    try:
        if not place.use(folder):
            count = len(lacking)
            order = {
                "python": str(python),
                "folder": str(folder),
                "lock": str(_lock_of(folder)),
                "log": str(_log_of(folder)),
                "requirements": wanted.file,
                "step": f"installing {count} package{'' if count == 1 else 's'} of {wanted.file}",
                "packages": installed.folders,
                "commands": dict(installed.commands),
                "has_pip": installed.has_pip,
                "settings": settings,
                "withheld": list(withheld),
                "passing": place.passing,
            }
            with scratch_folder("requirements-") as packed:
                _pack(source, wanted, order, packed)
                ended = _follow(place.work(python, packed, withheld), on_progress)
            _check_made(ended, python, wanted, folder, place)
    except OSError as error:
        raise _no_room(wanted, folder, error.strerror or str(error)) from error
    return folder / "bin" / "python"


def _digest(
    python: Path,
    installed: InstalledPackages,
    wanted: RequirementsFile,
    source: SourceTree,
    settings: Mapping[str, str],
) -> str:
    """What decides on the content: the Python and its packages, the files, and the source they install."""
    parts = [
        _FORMAT,
        str(python),
        json.dumps([installed.markers, installed.folders, installed.packages], sort_keys=True),
        json.dumps(settings, sort_keys=True),
        str(source.digest) if wanted.needs_source else "",
        *(f"{file.name}\0{_hash(source.read(file.name, MOST_REQUIREMENTS_BYTES))}" for file in wanted.files),
    ]
    return _hash("\n".join(parts).encode())[:_SHOWN]


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _pack(source: SourceTree, wanted: RequirementsFile, order: Mapping[str, Any], folder: Path) -> None:
    """What a workshop is given: the order, the program's package, and what is installed.

    That is the files themselves, and where they lead to more of the source, all of it.
    """
    build_boot(folder / ARCHIVE_NAME)
    descriptor = os.open(folder / ORDER_NAME, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        json.dump(order, stream)
    copy = folder / _SOURCE_NAME
    copy.mkdir()
    if not wanted.needs_source:
        for file in wanted.files:
            target = copy / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read(file.name, MOST_REQUIREMENTS_BYTES))
        return
    archive = folder / "source.tar.gz"
    build_source(source, archive)
    with tarfile.open(archive) as packed:
        packed.extractall(copy, filter="data")
    archive.unlink()


def _follow(lines: Generator[str, None, None], on_progress: OnProgress | None) -> tuple[str, str]:
    """What the program said last: its state and why; an empty state where it ended without a word."""
    state, said = "", ""
    with contextlib.closing(lines):
        for line in lines:
            try:
                told = json.loads(line)
            except ValueError:
                told = None
            if not isinstance(told, dict) or told.get("slipway") != 1:
                # What a sitecustomize prints, or why that Python cannot run it.
                said = line.strip() or said
            elif told.get("state") != "progress":
                state, said = str(told.get("state")), str(told.get("text"))
            elif on_progress is not None:
                on_progress(Progress(str(told.get("text"))))
    return state, said


def _check_made(
    ended: tuple[str, str], python: Path, wanted: RequirementsFile, folder: Path, place: Workshop
) -> None:
    """Raise BackendError unless the environment was made."""
    state, said = ended
    if state == "made":
        return
    if state == "no-room":
        raise _no_room(wanted, folder, said)
    if state == "no-environment":
        raise BackendError(
            f"{python} cannot make a virtual environment for what the job requires: {said}",
            "Install its packages venv and pip, install the job's requirements into it yourself, or give "
            f"another Python with {place.another_python}.",
        )
    if state != "not-installed":
        raise BackendError(
            f"whether {wanted.file} was installed by {python} is not known: it ended without a word"
            + (f", and last said: {said[:300]}." if said else "."),
            "Launch again: what is not complete is made anew.",
        )
    code, _, reason = said.partition(" ")
    raise BackendError(
        f"{reason if code in ('CODE005', 'DISK001') else said or 'pip was ended'}.",
        f"Correct {wanted.file}, or install what it asks for into the Python of the run yourself: what "
        "is there is not installed again, so that no network is needed. Another Python is given with "
        f"{place.another_python}; `--set code.requirements=none` runs with what is there. What pip said is "
        f"in {place.address(_log_of(folder))}.",
    )


def _no_room(wanted: RequirementsFile, folder: Path, why: str) -> BackendError:
    return BackendError(
        f"an environment with {wanted.file} cannot be made in {folder}: {why}.",
        f"Free some of the disk, such as {folder.parent}, or launch from a folder that you may write to.",
    )


def is_in_the_making(folder: Path) -> bool:
    """Whether a launcher makes the environment at this moment."""
    try:
        with _lock_of(folder).open(encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # Nobody ever locked it.
    return False


def files_beside(folder: Path) -> tuple[Path, Path]:
    """What belongs to an environment and lies beside it: its lock, and what pip said."""
    return _lock_of(folder), _log_of(folder)


def _lock_of(folder: Path) -> Path:
    return folder.with_suffix(".lock")


def _log_of(folder: Path) -> Path:
    return folder.with_suffix(".log")
