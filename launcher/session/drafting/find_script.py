"""Which script of a folder trains, and which folder is its code: where its imports are found."""

from __future__ import annotations

import ast
import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from launcher.failure_modes.model import Refusal
from launcher.frozen import frozen
from launcher.program.index import FileIndex, Unread, is_main_guard
from launcher.program.program import FileCache
from launcher.text.values import nearest

SCRIPT_ENDINGS = (".py", ".sh")
"""The files that a job can start."""

_FIRST_NAMES = ("train", "main", "run", "finetune", "pretrain")
"""By which of these names a script is called that trains, where several could."""

_CODE_FOLDERS = ("src", "code", "scripts")

_OF_TOOLS = frozenset({"setup.py", "conftest.py", "hubconf.py"})
"""What pip, pytest and torch.hub start."""

_MOST_SCRIPTS = 200
"""Of a folder that are looked at; no folder of training scripts has more."""

_ROOT_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")
"""What stands in the topmost folder of a project."""

_HIGHEST = 6
"""So many folders above a script its project begins at most."""

_BROUGHT_BY_BOOT = "slipway"
"""The library that every job has without asking for it."""

_COMPILED = frozenset(
    {"apex", "deepspeed", "horovod", "mpi4py", "ray", "smdistributed", "tensorflow"}
    | {"torch", "torch_xla", "torchaudio", "torchvision"}
)
"""Libraries that their sources are not: an example in their own repository imports what is installed."""

_TRAINS = re.compile(
    r"\.backward\(|\.fit\(|\.train\(|optimizer|Trainer\(|torchrun|accelerate launch|deepspeed "
)


@frozen
class ScriptPlace:
    """A script, and how a job starts it: `folder` is its code, `entry_point` its path below, or `module` what
    `python -m` runs there; one of both is empty."""

    path: Path
    folder: Path
    entry_point: str = ""
    module: str = ""


def find_script(given: Path, cache: FileCache) -> ScriptPlace:
    """The script that is given, or the one of a folder that trains; what is parsed stays in the cache.

    Raises Refusal for what is no script, and for a folder in which no script or several could be meant.
    """
    if given.is_dir():
        given = _script_of(given, cache)
    elif not given.exists():
        near = nearest(given.name, [each.name for each in _files(given.parent)])
        raise Refusal(
            f"there is no {given}, so that nothing can be read from it.",
            f"Did you mean {given.parent / near[0]}?" if near else "Give a training script, or its folder.",
        )
    elif given.suffix not in SCRIPT_ENDINGS:
        raise Refusal(
            f"{given} is neither a Python script nor a shell script, and a job could not start it.",
            "Give the script that trains (.py or .sh), or its folder.",
        )
    if given.suffix == ".sh":
        return ScriptPlace(given, given.parent, given.name)
    return _place_of(given, cache)


def _files(folder: Path) -> list[Path]:
    try:
        found = sorted(each for each in folder.iterdir() if each.suffix in SCRIPT_ENDINGS and each.is_file())
    except OSError:
        return []
    return found[:_MOST_SCRIPTS]


def _script_of(folder: Path, cache: FileCache) -> Path:
    """The one script of a folder that trains, and that no other one starts or imports."""
    texts = {each: _text(each, cache) for each in _files(folder) if each.name not in _OF_TOOLS}
    scripts = [each for each in texts if each.suffix == ".sh" or _is_started(each, cache)]
    used = {
        each
        for each in scripts
        for other, text in texts.items()
        if other is not each and re.search(_use_of(each, other), text, re.MULTILINE)
    }
    left = [each for each in scripts if each not in used] or scripts
    training = [each for each in left if _TRAINS.search(texts[each]) or each.suffix == ".sh"] or left
    named = [each for name in _FIRST_NAMES for each in training if each.stem == name]
    if len(training) == 1:
        return training[0]
    if named:
        return named[0]
    if training:
        raise Refusal(
            f"{folder} has {len(training)} scripts that could be the job's: "
            f"{', '.join(each.name for each in training[:8])}; which one is started cannot be told.",
            f"Name it: launch init {training[0]}",
        )
    below = []
    for inner in sorted(folder.iterdir()):
        if inner.is_dir() and _may_hold_scripts(inner):
            with contextlib.suppress(Refusal):
                below.append(_script_of(inner, cache))
    below = [each for each in below if each.suffix == ".py"] or below
    if len(below) == 1:
        return below[0]
    such_as = f", such as launch init {below[0]}" if below else ""
    raise Refusal(
        f"{folder} has no script that starts something: no .sh, and no .py with code beside its functions.",
        f"Give the training script itself{such_as}.",
    )


def _may_hold_scripts(folder: Path) -> bool:
    """Whether a folder's folder is one of code: by its name, or as a package."""
    return bool(_files(folder)) and (folder.name in _CODE_FOLDERS or (folder / "__init__.py").is_file())


def _use_of(script: Path, by: Path) -> str:
    """How a shell script starts a script, and a Python file imports it."""
    if by.suffix == ".sh" or script.suffix == ".sh":
        return rf"(?<![\w.]){re.escape(script.name)}\b"
    return rf"^\s*(from|import)\s+\.?{re.escape(script.stem)}\b"


def _text(file: Path, cache: FileCache) -> str:
    """The text of a script; empty where it cannot be read."""
    if file.suffix == ".py":
        read = cache.read(file)
        return read.text if isinstance(read, FileIndex) else ""
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""


def _is_started(file: Path, cache: FileCache) -> bool:
    """Whether a Python file does something when it is started: a guard of main, or calls at its top."""
    read = cache.read(file)
    if isinstance(read, Unread):
        return False
    body = read.tree.body
    guarded = any(isinstance(each, ast.If) and is_main_guard(each.test) for each in body)
    calls = any(isinstance(each, ast.Expr) and isinstance(each.value, ast.Call) for each in body)
    return guarded or calls or any(isinstance(each, ast.For | ast.While | ast.With) for each in body)


def _place_of(script: Path, cache: FileCache) -> ScriptPlace:
    """The folder from which a script's own imports are found, and whether it is a module of a package."""
    read = cache.read(script)
    if isinstance(read, Unread):
        raise Refusal(
            f"{script} cannot be read: {read.reason}.", "Give a script that Python itself can read."
        )
    top = script.absolute().parent
    package = [script.stem]
    while (top / "__init__.py").is_file() and top.name and not _is_project(top):
        package.insert(0, top.name)
        top = top.parent
    imported = list(_imports_at_once(read))
    is_relative = any(level for _, level in imported)
    names = {name for name, level in imported if not level}
    folder = script.absolute().parent
    of_package = [each for each in names if each.partition(".")[0] == package[0]]
    # `from net import Net` beside a net.py in a package of that name means the file.
    means_file = (folder / f"{package[0]}.py").is_file() and not any(
        _is_submodule(each, top) for each in of_package
    )
    if len(package) > 1 and (is_relative or (of_package and not means_file)):
        return ScriptPlace(script, top, module=".".join(package))
    brought = {*sys.stdlib_module_names, *_COMPILED, _BROUGHT_BY_BOOT}
    wanted = {each for each in names if each.partition(".")[0] not in brought}
    missing = {each for each in wanted if not _is_in(each, folder)}
    for above in project_folders(folder):
        if any(_is_in(each, above) for each in missing):
            folder = above
            break
    return ScriptPlace(script, folder, script.absolute().relative_to(folder).as_posix())


def _imports_at_once(file: FileIndex) -> Iterator[tuple[str, int]]:
    """The whole names of what a file imports, and how many levels up that is."""
    for each in file.imports:
        module = each.module or ""
        level = len(module) - len(module.lstrip("."))
        yield module.lstrip("."), level


def _is_in(module: str, folder: Path) -> bool:
    """Whether Python would find a module in a folder, and not a folder of the same name."""
    first = module.partition(".")[0]
    inner = folder / first
    if (folder / f"{first}.py").is_file() or (inner / "__init__.py").is_file():
        return True
    return _is_submodule(module, folder)


def _is_submodule(module: str, folder: Path) -> bool:
    """Whether a folder has the first part of a module's name as a folder, and the second in it."""
    first, _, rest = module.partition(".")
    second, inner = rest.partition(".")[0], folder / first
    return bool(second) and ((inner / f"{second}.py").is_file() or (inner / second).is_dir())


def project_folders(folder: Path) -> Iterator[Path]:
    """The folders above, up to the topmost of the project; none where there is no sign of one."""
    above = list(folder.parents)[:_HIGHEST]
    if _is_project(folder):
        return
    home = Path.home()
    for number, each in enumerate(above):
        if _is_project(each):
            yield from (one for one in above[: number + 1] if one != home)
            return


def _is_project(folder: Path) -> bool:
    return any((folder / mark).exists() for mark in _ROOT_MARKS)
