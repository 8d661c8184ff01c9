"""Where the launcher keeps on this machine what it can do without."""

from __future__ import annotations

import errno
from pathlib import Path


def cache_folder() -> Path:
    """The launcher's folder in the user's cache, whether it is there or not: ~/.cache/slipway on Linux.

    Raises FileNotFoundError for a user without a home, as in a container that runs under a foreign id.
    """
    # Only here: most commands need neither the folder nor the library.
    from platformdirs import user_cache_path

    try:
        folder = user_cache_path("slipway", appauthor=False)
    except RuntimeError:
        folder = Path("~")
    # Without a home, `~` is left as it is.
    if not folder.is_absolute():
        raise FileNotFoundError(errno.ENOENT, "this user has no home folder")
    return folder
