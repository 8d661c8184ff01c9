"""What a job misses because its launch left it out: kept on this machine, and told with the diagnosis.

The hosts know nothing of what was not packed, and the folder may have changed since. So each launch notes
what its source's patterns left out, under the job's name.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from launcher.cluster.cache_folder import cache_folder
from launcher.diagnosis.model import Diagnosis, RootCause
from launcher.documents.files import file_mode, read_regular, replace_file
from launcher.source.files import IgnoredPath
from launcher.source.left_out import why_left_out
from launcher.source.tree import SourceTree

KEPT_SECONDS = 28 * 24 * 3600
"""No training job runs longer (SageMaker API, StoppingCondition)."""

MOST_NAMES = 2_000
"""A note has so many names at most; the first ones stay."""

_MOST_BYTES = 10_000_000

_FILE = re.compile(r"No such file or directory: b?['\"]([^'\"]{1,4096})['\"]")
"""How Python ends the message of a FileNotFoundError (CPython, PyErr_SetFromErrnoWithFilenameObjects)."""

_MODULE = re.compile(r"No module named '([\w.]{1,500})'")


@dataclass(frozen=True, slots=True)
class LeftOutNote:
    """What a launch left out of the source that lies in `folder`, and by which patterns."""

    folder: Path
    ignored: tuple[IgnoredPath, ...]


def note_left_out(name: str, source: SourceTree) -> None:
    """Keep what was left out of a job's source. A machine that can keep nothing goes without."""
    with contextlib.suppress(OSError):
        folder = _folder()
        _collect(folder)
        if source.ignored:
            names = [
                [each.name, each.pattern, each.ignore_file and str(each.ignore_file)]
                for each in source.ignored[:MOST_NAMES]
            ]
            content = {"folder": str(source.folder), "left_out": names}
            replace_file(folder / f"{name}.json", json.dumps(content))


def noted_left_out(name: str) -> LeftOutNote | None:
    """What was left out of a job's source; None where this machine has no note that can be read."""
    try:
        content = json.loads(read_regular(_folder() / f"{name}.json", _MOST_BYTES))
        ignored = tuple(
            IgnoredPath(str(name), pattern and str(pattern), file and Path(file))
            for name, pattern, file in content["left_out"]
        )
        return LeftOutNote(Path(content["folder"]), ignored)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def told_what_was_left_out(diagnosis: Diagnosis, note: LeftOutNote | None) -> Diagnosis:
    """The diagnosis, with the reason where its root cause is a file or module that the launch left out."""
    root = diagnosis.root_cause
    missed = None if root is None or note is None else _missed(root, note)
    if root is None or note is None or missed is None:
        return diagnosis
    name, why = missed
    finding = replace(
        root.finding, message=f"{root.finding.message}: {_reason(name, why)}", remedy=_remedy(why, note)
    )
    return replace(
        diagnosis,
        root_cause=replace(root, finding=finding),
        findings=tuple(finding if each == root.finding else each for each in diagnosis.findings),
    )


def _missed(root: RootCause, note: LeftOutNote) -> tuple[str, IgnoredPath] | None:
    """The missing file, and why it is; only one that lies in the source folder was meant to come along."""
    for text in (root.finding.message, root.log_line, *root.evidence):
        for name in _candidates(text):
            why = why_left_out(note.ignored, name)
            if why is not None and file_mode(note.folder / name):
                return name, why
    return None


def _candidates(text: str) -> Iterator[str]:
    """The names below the source folder that a line may speak of."""
    for path in _FILE.findall(text):
        parts = PurePosixPath(path).parts
        if ".." in parts:
            continue
        if not path.startswith("/"):
            yield "/".join(parts)
        # The code's folder is /opt/ml/code, in a local run below the run's own folder.
        yield from ("/".join(parts[at + 1 :]) for at, part in enumerate(parts) if part == "code")
    for module in _MODULE.findall(text):
        place = module.replace(".", "/")
        yield from (f"{place}.py", f"{place}/__init__.py")


def _reason(name: str, why: IgnoredPath) -> str:
    if why.ignore_file is None:
        return f"{name} lies in the source folder and was not packed, as {why.name} never is"
    return (
        f"{name} lies in the source folder and was not packed: the pattern {why.pattern} of "
        f"{why.ignore_file} leaves out {why.name}"
    )


def _remedy(why: IgnoredPath, note: LeftOutNote) -> str:
    if why.ignore_file is None:
        return f"Move what the job needs out of {why.name}."
    return (
        f"Add the line !{why.name} to {note.folder / '.slipwayignore'}, or change the pattern; give large "
        "data as an input."
    )


def _folder() -> Path:
    return cache_folder() / "left-out"


def _collect(folder: Path) -> None:
    """Remove the notes on jobs that have long ended."""
    for note in folder.glob("*.json"):
        with contextlib.suppress(OSError):
            if time.time() - note.stat().st_mtime > KEPT_SECONDS:
                note.unlink()
