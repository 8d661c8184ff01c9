"""Which Python runs a local job, what it has installed, and what this machine has for the run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.backends.interface import BackendError
from launcher.frozen import frozen
from launcher.source.requirements_file import RequirementsFile, WantedPackage

if TYPE_CHECKING:
    from packaging.requirements import Requirement

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
_ASK_WHAT_PYTHON_IS = """
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


@frozen
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
    found = answer_of(path, _ASK_WHAT_PYTHON_IS)
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
    said = (run.stdout.decode("utf-8", "replace"), run.stderr.decode("utf-8", "replace"))
    return answer_in(path, run.returncode, *said)


def answer_in(path: Path, code: int, out: str, errors: str) -> dict[str, Any]:
    """The answer in what that Python printed, which ended with that exit code. Raises as `answer_of`."""
    # What a sitecustomize prints comes before.
    last = out.strip().rpartition("\n")[2]
    try:
        found = json.loads(last)
    except ValueError:
        found = None
    if isinstance(found, dict) and found.get("slipway") == 1:
        return found
    said = errors.strip().rpartition("\n")[2][:200]
    words = f" and said: {said}" if said else ""
    raise _no_python(path, f"it ended with exit code {code}{words}")


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


# For Python 3.8 and later, with its standard library alone. The markers are those of PEP 508.
_ASK_WHAT_IS_INSTALLED = """
import sys
sys.path[:] = [place for place in sys.path if place]
import importlib.util, json, os, platform, re, site
from importlib import metadata
implementation = sys.implementation
full = "{0.major}.{0.minor}.{0.micro}".format(implementation.version)
packages, commands = {}, {}
for each in metadata.distributions():
    name = re.sub("[-_.]+", "-", each.metadata["Name"] or "").lower()
    if name and each.version and name not in packages:
        packages[name] = [each.version, list(each.requires or ())]
        for entry in each.entry_points:
            if entry.group == "console_scripts":
                commands.setdefault(entry.name, entry.value)
folders = site.getsitepackages() + ([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])
print(json.dumps({
    "slipway": 1,
    "packages": packages,
    "commands": commands,
    "folders": [folder for folder in folders if os.path.isdir(folder)],
    "pip": importlib.util.find_spec("pip") is not None,
    "markers": {
        "implementation_name": implementation.name,
        "implementation_version": full,
        "os_name": os.name,
        "platform_machine": platform.machine(),
        "platform_python_implementation": platform.python_implementation(),
        "platform_release": platform.release(),
        "platform_system": platform.system(),
        "platform_version": platform.version(),
        "python_full_version": platform.python_version(),
        "python_version": ".".join(platform.python_version_tuple()[:2]),
        "sys_platform": sys.platform,
    },
}))
"""


@frozen
class InstalledPackages:
    """What a Python finds: by its comparable name each package's version, and what it requires.

    `folders` are where it looks for packages, `commands` what they install to be called, each with
    `module:function`; `has_pip` says whether pip is among them, `markers` are PEP 508's.
    """

    packages: Mapping[str, tuple[str, tuple[str, ...]]]
    commands: Mapping[str, str]
    folders: tuple[str, ...]
    has_pip: bool
    markers: Mapping[str, str]


def packages_of(python: Path, ask: Callable[[Path, str], Mapping[str, Any]] = answer_of) -> InstalledPackages:
    """Ask a Python what it has installed. Raises BackendError where it does not say."""
    found = ask(python, _ASK_WHAT_IS_INSTALLED)
    return InstalledPackages(
        packages={name: (version, tuple(needs)) for name, (version, needs) in found["packages"].items()},
        commands=found["commands"],
        folders=tuple(found["folders"]),
        has_pip=found["pip"],
        markers=found["markers"],
    )


def missing(wanted: RequirementsFile, installed: InstalledPackages) -> list[WantedPackage]:
    """The packages of a file that are not there in a version that fits it.

    What only pip can tell, such as the content of an address, counts as missing.
    """
    from packaging.utils import canonicalize_name

    limits = {
        canonicalize_name(each.requirement.name): each.requirement.specifier
        for each in wanted.constraints
        if each.requirement is not None
    }

    def is_there(each: WantedPackage) -> bool:
        if each.requirement is None:
            return False
        name = canonicalize_name(each.requirement.name)
        version = installed.packages.get(name, ("", ()))[0]
        within = name not in limits or not version or limits[name].contains(version, prereleases=True)
        return within and _fits(each.requirement, installed, frozenset())

    return [each for each in wanted.packages if not is_there(each)]


def _fits(wanted: Requirement, installed: InstalledPackages, above: frozenset[str]) -> bool:
    """Whether a requirement is met, and those of its extras; `above` are the requirements that led here."""
    from packaging.utils import canonicalize_name
    from packaging.version import InvalidVersion

    if wanted.marker is not None and not wanted.marker.evaluate(dict(installed.markers)):
        return True
    name = canonicalize_name(wanted.name)
    if wanted.url is not None or name not in installed.packages:
        return False
    try:
        if not wanted.specifier.contains(installed.packages[name][0], prereleases=True):
            return False
    except InvalidVersion:
        return False
    if str(wanted) in above:
        return True
    return all(_fits(each, installed, above | {str(wanted)}) for each in _of_extras(wanted, installed))


def _of_extras(wanted: Requirement, installed: InstalledPackages) -> Iterator[Requirement]:
    """What the extras of an installed package require; what it requires anyway was installed with it."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    for text in installed.packages[canonicalize_name(wanted.name)][1] if wanted.extras else ():
        try:
            needed = Requirement(text)
        except InvalidRequirement:
            continue  # An old package's own affair.
        marker, needed.marker = needed.marker, None
        if marker is not None and any(
            marker.evaluate({**installed.markers, "extra": extra}) for extra in wanted.extras
        ):
            yield needed


LISTING_SECONDS = 30.0
"""For nvidia-smi to list the GPUs; on a machine with a broken driver it may never answer."""


@frozen
class Machine:
    """This machine as a place for a job; `gpus` are their numbers as CUDA_VISIBLE_DEVICES has them."""

    python: Interpreter
    gpus: tuple[str, ...]
    cores: int


def this_machine(python: str | None, environment: Mapping[str, str]) -> Machine:
    """Look at this machine, with the Python that was given or the one that is chosen without.

    Raises BackendError where what was given is no Python.
    """
    interpreter = choose_interpreter(python, environment)
    return Machine(interpreter, tuple(visible_devices(environment)), os.cpu_count() or 1)


def visible_devices(environment: Mapping[str, str]) -> list[str]:
    """This machine's GPUs, as CUDA_VISIBLE_DEVICES names them, without loading torch."""
    limited = environment.get("CUDA_VISIBLE_DEVICES")
    if limited is not None:
        return [device.strip() for device in limited.split(",") if device.strip()]
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    try:
        listing = subprocess.run(
            [tool, "--list-gpus"], capture_output=True, text=True, check=False, timeout=LISTING_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    gpus = [line for line in listing.stdout.splitlines() if line.startswith("GPU ")]
    return [str(index) for index in range(len(gpus))]
