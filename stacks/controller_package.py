"""What the controller's function is deployed as: this checkout's launcher, as a folder that Lambda unpacks.

boto3 is Lambda's own. Of what the launcher needs otherwise, the function imports only what is pure Python,
and that much is packed from the installation that runs the deployment. Nothing is downloaded or built.
"""

from __future__ import annotations

import importlib.metadata
import py_compile
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path, PurePosixPath

from aws_cdk import aws_lambda as lambda_

import launcher.cluster
from launcher.cluster.names import BYTECODE_FOLDER, digest_of

LIBRARIES = ("Jinja2", "MarkupSafe", "platformdirs")
"""The distributions whose packages go along; MarkupSafe works without its compiled part as well."""

_UNPACKED_TO = PurePosixPath("/var/task")
"""Where Lambda unpacks a function's code (Lambda developer guide, configuration-envvars:
LAMBDA_TASK_ROOT)."""

_NEWEST = (3, 14)
"""The newest Python of Lambda's, and _OLDEST the oldest that runs the launcher (Lambda developer guide,
lambda-runtimes)."""
_OLDEST = (3, 11)

_CHECKOUT = Path(launcher.cluster.__file__).parents[2]

_kept = tempfile.TemporaryDirectory(prefix="slipway-controller-")


@dataclass(frozen=True, slots=True)
class ControllerPackage:
    """A folder with the function's files.

    Attributes:
        folder: what becomes `/var/task`; it is there until the process ends.
        digest: of the sources in it (`digest_of`), by which the function knows that it is whole.
        asset_hash: by what it is uploaded: other sources, or bytecode of another Python, are another upload.
        runtime: the Python that runs it.
    """

    folder: Path
    digest: str
    asset_hash: str
    runtime: lambda_.Runtime


@cache
def controller_package() -> ControllerPackage:
    """Pack the launcher of this checkout, with bytecode where Lambda has the Python that this process runs.

    Raises importlib.metadata.PackageNotFoundError where a library is not installed, and py_compile's
    PyCompileError for a file of the launcher that is no Python.
    """
    folder = Path(_kept.name)
    for source, name in (*_of_the_launcher(), *_of_the_libraries()):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    digest = digest_of(folder)
    own = sys.version_info[:2]
    version = own if _OLDEST <= own <= _NEWEST else _NEWEST
    compiled_for = sys.implementation.cache_tag if version == own else "no Python"
    if version == own:
        _compile(folder)
    return ControllerPackage(
        folder,
        digest,
        sha256(f"{digest} {compiled_for}".encode()).hexdigest(),
        getattr(lambda_.Runtime, f"PYTHON_{version[0]}_{version[1]}"),
    )


def _of_the_launcher() -> Iterator[tuple[Path, PurePosixPath]]:
    """The files of the launcher, each with its name in the package, but for what only type checkers read."""
    for file in (_CHECKOUT / "launcher").rglob("*"):
        if file.is_file() and BYTECODE_FOLDER not in file.parts and _is_read(file.name):
            yield file, PurePosixPath(file.relative_to(_CHECKOUT).as_posix())


def _of_the_libraries() -> Iterator[tuple[Path, PurePosixPath]]:
    for name in LIBRARIES:
        for file in importlib.metadata.files(name) or ():
            if file.suffix == ".py":
                yield Path(str(file.locate())), PurePosixPath(file.as_posix())


def _is_read(name: str) -> bool:
    return not (name.startswith(".") or name.endswith((".pyi", ".pyc")) or name == "py.typed")


def _compile(folder: Path) -> None:
    """Write bytecode that Python takes without asking for the sources' times, which an upload changes."""
    for file in folder.rglob("*.py"):
        py_compile.compile(
            str(file),
            # As tracebacks are to name the file.
            dfile=str(_UNPACKED_TO / file.relative_to(folder).as_posix()),
            doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
