"""The Python of a local run with what its job requires: the user's own, and a folder over it.

What requirements.txt asks for and the chosen Python lacks is installed into a virtual environment that sees
all of that Python's packages behind its own; nothing is installed into that Python. Environments are kept
below `.slipway/environments`, each under the digest of all that decides on its content, and used again. One
counts only when it is complete: what a killed launcher left of it is made anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import IO

from launcher.backends.interface import BackendError, OnProgress, Progress
from launcher.backends.local.processes import LOST_STATUS, wait_for_end
from launcher.backends.local.python import InstalledPackages, missing, packages_of
from launcher.source.packaging import build_boot, build_source
from launcher.source.requirements_file import MOST_REQUIREMENTS_BYTES, RequirementsFile
from launcher.source.tree import SourceTree

_FORMAT = "slipway environment 1"
"""Part of every digest: another way of making them makes other ones."""

_COMPLETE = "complete"
_GIVEN_UP_SECONDS = 20.0
_SHOWN = 16
_NOT_FOR_PIP = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "SLIPWAY_LOG")
_OF_PIP = ("PIP_", "CA_REPOSITORY_ARN")

# The copy of the source is the working directory, whose modules would come before Python's own.
_INSTALL = """\
import sys
sys.path[:] = [place for place in sys.path if place]
from slipway.requirements import main
sys.exit(main())
"""

# A first line that names the Python may be too long for the system, or hold spaces: so a shell calls it.
_COMMAND = """\
#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
import sys
from {module} import {first}
sys.exit({function}())
"""


def python_with_requirements(
    python: Path,
    source: SourceTree,
    environments: Path,
    given: Mapping[str, str],
    on_progress: OnProgress | None = None,
    *,
    withheld: Collection[str] = (),
) -> Path:
    """The Python to run a job's boots and ranks with: `python` itself where it has all that is required.

    Else that of an environment below `environments`, which is made where it is not there yet. `given` is
    the job's own environment, of which pip gets what is meant for it; of this process' environment it gets
    all but the variables `withheld`, the job's secrets: as in a container, no build sees or prints them.
    Raises BackendError where a package cannot be installed.
    """
    wanted = source.requirements
    if wanted is None:
        return python
    installed = packages_of(python)
    lacking = missing(wanted, installed)
    if not lacking and not wanted.fetched:
        return python
    settings = {name: value for name, value in given.items() if name.startswith(_OF_PIP)}
    inherited = {name: value for name, value in os.environ.items() if name not in withheld}
    folder = environments.absolute() / _digest(python, installed, wanted, source, settings)
    made = folder / "bin" / "python"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(_lock_of(folder), on_progress) as lock:
            if not (folder / _COMPLETE).is_file():
                count = len(lacking)
                _tell(on_progress, f"installing {count} package{'' if count == 1 else 's'} of {wanted.file}")
                shutil.rmtree(folder, ignore_errors=True)
                _make(folder, python, installed, inherited)
                _install(folder, wanted, source, _for_pip(inherited, settings), lock)
                _add_commands(folder, installed)
                (folder / _COMPLETE).touch()
            os.utime(folder)  # When it was used last, by which `launch clean` goes.
    except OSError as error:
        raise BackendError(
            f"an environment with {wanted.file} cannot be made in {folder}: {error.strerror or error}.",
            f"Free some of the disk, such as {environments}, or launch from a folder that you may write to.",
        ) from error
    return made


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


def _make(folder: Path, python: Path, installed: InstalledPackages, inherited: Mapping[str, str]) -> None:
    """A virtual environment behind whose packages come those of the Python that it is made of.

    Not by --system-site-packages: of a Python that is in a virtual environment itself, that would show the
    packages of the one below.
    """
    # -I: no module of the working directory, such as a types.py beside a job file, is imported.
    words = [str(python), "-I", "-m", "venv", *(["--without-pip"] if installed.has_pip else []), str(folder)]
    run = subprocess.run(words, env=_for_pip(inherited, {}), capture_output=True, text=True, check=False)
    packages = next((folder / "lib").glob("python*/site-packages"), None)
    # A process that ignores SIGCHLD, as a notebook may, has 0 for what it could not be told.
    if run.returncode != 0 or packages is None:
        said = (run.stderr or run.stdout).strip().rpartition("\n")[2]
        raise BackendError(
            f"{python} cannot make a virtual environment for what the job requires: {said[:300]}",
            "Install its packages venv and pip, install the job's requirements into it yourself, or give "
            "another Python with --python PATH.",
        )
    # Not the paths alone: files of this kind in these folders, as of editable installations, count as well.
    lines = (f"import site; site.addsitedir({path!r})\n" for path in installed.folders)
    (packages / "slipway.pth").write_text("".join(lines), encoding="utf-8")


def _install(
    folder: Path, wanted: RequirementsFile, source: SourceTree, variables: Mapping[str, str], lock: IO[str]
) -> None:
    """Run pip in the environment as the boot runs it in a container, on a copy of the files."""
    copy, boot, log = folder / "source", folder / "slipway.pyz", _log_of(folder)
    _copy(source, wanted, copy)
    build_boot(boot)
    environment = {**variables, "PYTHONPATH": str(boot)}
    reading, writing = os.pipe()
    try:
        with log.open("w", encoding="utf-8") as output:
            process = subprocess.Popen(
                [str(folder / "bin" / "python"), "-c", _INSTALL, wanted.file],
                cwd=copy,
                env={**environment, "SLIPWAY_LIFELINE": str(reading)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # It stops when this process is gone, and until it has stopped nobody makes the folder anew.
                pass_fds=(reading, lock.fileno()),
            )
            try:
                ended = wait_for_end(process)
            except BaseException:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=_GIVEN_UP_SECONDS)
                raise
    finally:
        os.close(reading)
        os.close(writing)
    if ended == LOST_STATUS:
        raise BackendError(
            f"whether pip installed {wanted.file} is not known, so that nothing was started: this process "
            "ignores SIGCHLD, or something else in it waits for all children.",
            "Undo that before the launch: signal.signal(signal.SIGCHLD, signal.SIG_DFL).",
        )
    if ended != 0:
        said = log.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
        code, _, reason = said.partition(" ")
        raise BackendError(
            f"{reason if code in ('CODE005', 'DISK001') else said or 'pip was ended'}.",
            f"Correct {wanted.file}, or install what it asks for into the Python of the run yourself: what "
            "is there is not installed again, so that no network is needed. Another Python is given with "
            "--python PATH; `--set code.requirements=none` runs with what is there. What pip said is in "
            f"{log}.",
        )


def _copy(source: SourceTree, wanted: RequirementsFile, folder: Path) -> None:
    """The files themselves, and where they lead to more of the source, all of it."""
    folder.mkdir()
    if not wanted.needs_source:
        for file in wanted.files:
            target = folder / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read(file.name, MOST_REQUIREMENTS_BYTES))
        return
    archive = folder.with_suffix(".tar.gz")
    build_source(source, archive)
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")


def _add_commands(folder: Path, installed: InstalledPackages) -> None:
    """The commands of the Python below, such as torchrun, as commands of this environment's Python.

    Those that lie beside that Python would start it, without what is installed here.
    """
    for name, value in installed.commands.items():
        module, _, rest = value.partition(":")
        function = rest.partition("[")[0].strip()
        target = folder / "bin" / name
        words = [*module.strip().split("."), *function.split(".")]
        if target.exists() or Path(name).name != name or not all(map(str.isidentifier, words)):
            continue
        content = _COMMAND.format(
            python=folder / "bin" / "python",
            module=module.strip(),
            first=function.partition(".")[0],
            function=function,
        )
        target.write_text(content, encoding="utf-8")
        target.chmod(0o755)


def _for_pip(environment: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """pip installs as the user's pip does, with proxies and indexes: it is no part of the job."""
    kept = {name: value for name, value in environment.items() if name not in _NOT_FOR_PIP}
    return {**kept, **settings}


@contextlib.contextmanager
def _locked(path: Path, on_progress: OnProgress | None) -> Iterator[IO[str]]:
    """Keep other launchers away from an environment; however this process ends, the lock ends with it."""
    while True:
        with path.open("a", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _tell(on_progress, "waiting for another launcher that installs the same packages")
                fcntl.flock(lock, fcntl.LOCK_EX)
            # One that was deleted meanwhile, with its environment, keeps nobody away.
            if os.fstat(lock.fileno()).st_nlink:
                yield lock
                return


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


def _tell(on_progress: OnProgress | None, step: str) -> None:
    if on_progress is not None:
        on_progress(Progress(step))
