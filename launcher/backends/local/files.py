"""The files by which a local job is known: its hosts, its state, and the wish that it stop.

They are written whole or not at all, outlive the launcher that wrote them, and are trusted by nobody.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launcher.backends.interface import BackendError
from launcher.cluster.names import host_name
from launcher.frozen import frozen
from launcher.text.regular_files import read_regular, replace_file
from launcher.text.values import without_controls

ROOT_VARIABLE = "SLIPWAY_ROOT"
"""The environment variable with a host's `root`, which the boot reads and all of its processes inherit."""


@frozen
class Host:
    """One host of a local job: its folder, in it what stands for /opt/ml, and its log."""

    name: str
    folder: Path

    @property
    def job_folder(self) -> Path:
        """The folder of the job that the host belongs to."""
        return self.folder.parent.parent

    @property
    def root(self) -> Path:
        """The folder that stands for the container's /opt/ml."""
        return self.folder / "ml"

    @property
    def log(self) -> Path:
        """The file with what the host printed, both of its streams."""
        return self.folder / "log"

    @property
    def log_times(self) -> Path:
        """The file that says when the log had which size, for the times of its lines."""
        return self.folder / "log.times"

    @property
    def failure(self) -> Path:
        """The file with the boot's report of a failure; not there without one."""
        return self.root / "output" / "failure"


def hosts_of(folder: Path, count: int) -> list[Host]:
    """The hosts of the job in `folder`, named as SageMaker names them."""
    names = map(host_name, range(1, count + 1))
    return [Host(name, folder / "hosts" / name) for name in names]


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


STOP_FILE = "stop"
"""Its presence asks; its text says who asks."""

_LONGEST = 200


def ask_to_stop(folder: Path, who: str | None) -> None:
    """Ask whoever runs the job in `folder` to stop it. Raises OSError where the file cannot be written."""
    replace_file(folder / STOP_FILE, f"{who or ''}\n")


def is_asked_to_stop(folder: Path) -> bool:
    """Whether somebody asked for it."""
    return (folder / STOP_FILE).exists()


def who_asked(folder: Path) -> str | None:
    """Who did, in one line without controls; None where the file does not say."""
    try:
        text = read_regular(folder / STOP_FILE, _LONGEST).decode("utf-8", "replace")
    except OSError:
        return None
    return without_controls(text.partition("\n")[0]).strip() or None
