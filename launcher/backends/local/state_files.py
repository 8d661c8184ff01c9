"""The files in which a local job is remembered: written whole or not at all, and trusted by nobody.

They outlive the launcher that wrote them: a newer one added fields, a full disk cut them, somebody edited
them or put something else in their place. What cannot be read becomes one sentence that says which file it
is and what to delete, and concerns no other job.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launcher.backends.interface import BackendError
from launcher.documents.files import read_regular, replace_file

FORMAT = 1
"""The format of the files as they are written here; it is raised when what is there means something else.

A field that is only added does not raise it: readers leave out what they do not know.
"""

MAX_BYTES = 4 * 1024 * 1024
"""What is larger is none of these files: a request is the longest, and SageMaker's own limits (100
hyperparameters of 2,500 characters, 100 variables of 512) keep it below a tenth of this."""


class UnreadableJob(BackendError):
    """A job is there, but one of its files is not what this launcher wrote; exit code 2."""

    def __init__(self, file: Path, problem: str, remedy: str | None = None) -> None:
        # `<home>/<job>/<file>`: all the files of a job that are read lie there, or in folders below.
        self.file = file
        super().__init__(
            f"{file} cannot be read: {problem}.",
            remedy or f"Delete {file.parent} if you do not need the run; its checkpoints are in there, too.",
        )


def read_state(file: Path) -> dict[str, Any]:
    """The JSON object in a file, of this format or an older one.

    Raises FileNotFoundError where there is nothing, UnreadableJob for all that is not such an object.
    """
    try:
        text = read_regular(file, MAX_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnreadableJob(file, error.strerror or str(error)) from error
    if len(text) > MAX_BYTES:
        raise UnreadableJob(file, f"it is larger than {MAX_BYTES // 1024**2} MB")
    if not text.strip():
        raise UnreadableJob(file, "it is empty")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableJob(file, f"it is not JSON ({error})") from error
    if not isinstance(content, dict):
        raise UnreadableJob(file, "it holds something else than a JSON object")
    check_format(file, content.get("format", FORMAT))
    return content


def check_format(file: Path, written: object) -> None:
    """Raise UnreadableJob for a file of a format that this launcher does not know."""
    if isinstance(written, bool) or not isinstance(written, int):
        raise UnreadableJob(file, f"its format is {written!r}, which is no number")
    if written > FORMAT:
        raise UnreadableJob(
            file,
            f"it is of the format {written}, and this launcher knows up to {FORMAT}",
            f"Use the newer version of the launcher that wrote it, or delete {file.parent}.",
        )


def write_state(file: Path, content: Mapping[str, Any]) -> None:
    """Write such a file, for the user's eyes only: environment values may be secrets.

    On a full disk it is written over the old one, in the block that that one has: not at once, but a state
    that says what is true is worth more than an old one. Raises OSError where that fails, too.
    """
    text = json.dumps({"format": FORMAT, **content}, indent=2, ensure_ascii=False) + "\n"
    # Half a surrogate pair, as a failure reason may hold, cannot be written as UTF-8.
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    try:
        replace_file(file, text)
    except OSError:
        if file.is_symlink() or not file.is_file():
            raise
        _write_over(file, text.encode())


def _write_over(file: Path, content: bytes) -> None:
    with file.open("r+b") as stream:
        stream.write(content)
        stream.truncate()
        os.fsync(stream.fileno())
