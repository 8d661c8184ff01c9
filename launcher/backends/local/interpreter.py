"""Which Python runs a local job, and what it has: its version, and torch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from launcher.backends.interface import BackendError

OLDEST = (3, 8)
"""The oldest Python that the boot runs on (`slipway/`)."""

ACTIVE_ENVIRONMENTS = ("VIRTUAL_ENV", "CONDA_PREFIX")
"""The variables in which an activated environment names its folder, the inner one first: venv, and conda."""

INHERITED = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
    "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH",
)  # fmt: skip
"""All that a container on this machine gets from the launcher's environment: no credentials, no proxies,
nothing that would make the job behave differently on AWS."""

BOUND_SECONDS = 30.0
"""For an interpreter to say what it has; the first start of one on a network disk takes seconds."""

# Python 2 can read it, too, so that its version can be told. The working directory is no place for modules.
_QUESTION = """
import sys
sys.path[:] = [place for place in sys.path if place]
import json
found = {"slipway": 1, "version": list(sys.version_info[:3]), "torch": None, "cuda": None}
try:
    import importlib.util, os, runpy
    spec = importlib.util.find_spec("torch")
    if spec is not None and spec.origin:
        # Not imported: that takes seconds. The file holds assignments alone.
        build = runpy.run_path(os.path.join(os.path.dirname(spec.origin), "version.py"))
        found["torch"], found["cuda"] = build["__version__"], build.get("cuda") or build.get("hip")
except Exception:
    pass
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python: its path as it was given, its version, and which torch it would import.

    `torch` is None without one; `cuda` is the version of CUDA (or ROCm) that this torch was built with, None
    for a build for CPUs.
    """

    path: Path
    version: tuple[int, ...]
    torch: str | None
    cuda: str | None

    def __str__(self) -> str:
        return f"{self.path} (torch {self.torch})" if self.torch else f"{self.path} (without torch)"


def choose_interpreter(given: str | None, environment: Mapping[str, str]) -> Interpreter:
    """The Python that was given; else the active environment's where it has torch, else the launcher's own.

    Raises BackendError where what was given is no Python, or one that is too old.
    """
    if given is not None:
        return interpreter_at(_path_of(given))
    own = Path(sys.executable)
    for name in ACTIVE_ENVIRONMENTS:
        candidate = Path(environment.get(name) or os.devnull, "bin", "python")
        if candidate == own:
            break
        if not _can_run(candidate):
            continue
        try:
            found = interpreter_at(candidate)
        except BackendError:
            continue  # A broken environment that nobody asked for.
        if found.torch:
            return found
    return interpreter_at(own)


def python_environment(python: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """What processes of that Python inherit of an environment; it and its programs come first on the path."""
    inherited = {name: environment[name] for name in INHERITED if name in environment}
    inherited["PATH"] = os.pathsep.join(filter(None, [str(python.parent), inherited.get("PATH")]))
    prefix = python.parent.parent
    if (prefix / "pyvenv.cfg").is_file():
        inherited["VIRTUAL_ENV"] = str(prefix)
    return inherited


@cache
def interpreter_at(path: Path) -> Interpreter:
    """Ask a Python what it has, once. Raises BackendError where it is none, or one that is too old."""
    found = answer_of(path, _QUESTION)
    version = tuple(found["version"])
    if version < OLDEST:
        raise BackendError(
            f"{path} is Python {_dotted(version)}, and a local run needs {_dotted(OLDEST)} or later.",
            "Give a newer one with --python PATH.",
        )
    return Interpreter(path, version, found["torch"], found["cuda"])


def answer_of(path: Path, question: str) -> dict[str, Any]:
    """What a Python prints last for a program that prints a JSON object with `"slipway": 1` in it.

    Raises BackendError where it is no Python, or gives no such answer in time.
    """
    check_can_run(path)
    try:
        run = subprocess.run(
            [str(path), "-c", question],
            env=python_environment(path, os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=BOUND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _no_python(path, f"it did not answer within {BOUND_SECONDS:.0f} seconds") from None
    except OSError as error:
        raise _no_python(path, error.strerror or str(error)) from error
    # What a sitecustomize prints comes before.
    last = run.stdout.decode("utf-8", "replace").strip().rpartition("\n")[2]
    try:
        found = json.loads(last)
    except ValueError:
        found = None
    if isinstance(found, dict) and found.get("slipway") == 1:
        return found
    said = run.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
    words = f" and said: {said}" if said else ""
    raise _no_python(path, f"it ended with exit code {run.returncode}{words}")


def check_can_run(path: Path) -> None:
    """Raise BackendError where no program lies at the path of a Python."""
    if not _can_run(path):
        raise BackendError(
            f"there is no Python {path}.",
            "Give the path of one with --python, such as .venv/bin/python; instead of resuming a run, launch "
            "its job file, with --python PATH --set checkpoint.resume_from=NAME.",
        )


def _path_of(given: str) -> Path:
    """The path of what was given: a path, or a program's name. Links stay links: they lie in the venv."""
    path = Path(given if os.sep in given else shutil.which(given) or given).expanduser().absolute()
    if path.is_dir():
        inside = path / "bin" / "python"
        hint = f"--python {inside}" if _can_run(inside) else "the path of a python, such as .venv/bin/python"
        raise BackendError(f"--python {given or repr(given)} is a folder, not a Python.", f"Give {hint}.")
    return path


def _no_python(path: Path, problem: str) -> BackendError:
    return BackendError(
        f"{path} is no Python that runs here: {problem}.",
        "Give the path of one with --python, such as .venv/bin/python.",
    )


def _can_run(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
