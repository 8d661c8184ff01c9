"""Where the local runs of a project are: in one folder, from wherever in it a command is called."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from launcher.backends.interface import BackendError

FOLDER = ".slipway"
"""What a project's runs, and what was made for them, are kept in."""

RUNS = "local"
"""The folder in it with the runs, one below the other."""

ENVIRONMENTS = "environments"
"""The folder in it with the Python environments that were made for runs."""

_IGNORED = "# Local runs of Slipway: nothing to commit.\n*\n"


def local_home(start: Path | None = None) -> Path:
    """The folder of the local runs for `start`, by default the current directory; it need not be there.

    The nearest `.slipway` counts, from there upwards, in a git repository at most to its root. Where there is
    none, one is to be made at the repository's root, or at `start` where that is in no repository.
    """
    start = (start or Path.cwd()).absolute()
    for folder in (start, *start.parents):
        if _is_ours(folder, mine=folder == start):
            return folder / FOLDER / RUNS
        if os.path.lexists(folder / ".git"):
            return folder / FOLDER / RUNS
    return start / FOLDER / RUNS


def made_home(start: Path | None = None) -> Path:
    """`local_home` with its `.slipway` there; a new one has git ignore what is in it.

    Raises BackendError where it cannot be made.
    """
    home = local_home(start)
    folder = home.parent
    try:
        folder.mkdir()
    except OSError as error:
        if folder.is_dir():
            return home
        raise BackendError(
            f"the folder of the local runs, {folder}, cannot be made: {error.strerror}.",
            "Launch from a folder that you may write to, and in which nothing else has that name.",
        ) from error
    # On a full disk the run itself says so; git shows the folder then.
    with contextlib.suppress(OSError):
        (folder / ".gitignore").write_text(_IGNORED, encoding="utf-8")
    return home


def _is_ours(folder: Path, *, mine: bool) -> bool:
    """Whether a folder has a `.slipway` that this user made.

    One further up that others can write to, such as /tmp, does not count: anybody may have put it there.
    """
    try:
        found = (folder / FOLDER).lstat()
        shared = folder.stat().st_mode & stat.S_IWOTH
    except OSError:
        return False
    if not mine and (shared or found.st_uid != os.getuid()):
        return False
    return (folder / FOLDER).is_dir()
