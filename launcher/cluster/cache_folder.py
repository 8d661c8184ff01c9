"""Where the launcher keeps on this machine what it can do without."""

from __future__ import annotations

from pathlib import Path


def cache_folder() -> Path:
    """The launcher's folder in the user's cache, whether it is there or not: ~/.cache/slipway on Linux."""
    # Only here: most commands need neither the folder nor the library.
    from platformdirs import user_cache_path

    return user_cache_path("slipway", appauthor=False)
