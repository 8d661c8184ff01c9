"""Which names the Python files of a job's source use, for the rules that judge by them."""

from __future__ import annotations

import io
import os
import tokenize
from collections.abc import Collection, Iterator
from pathlib import Path

_MOST_FILES = 200
_MOST_BYTES = 1_000_000
_NOT_SOURCE = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})


def names_in_source(folder: Path, wanted: Collection[str]) -> frozenset[str]:
    """Those of the wanted names that the code below the folder uses; comments and strings do not count.

    Bounded: the first 200 Python files of at most 1 MB each, outside of hidden folders and installed
    packages. Files that cannot be read or are no Python are passed over; the script lint names them.
    """
    found: set[str] = set()
    for file in _files(folder):
        if found.issuperset(wanted):
            break
        found |= _names(file, [name for name in wanted if name not in found])
    return frozenset(found)


def _files(folder: Path) -> Iterator[Path]:
    count = 0
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] != "." and name not in _NOT_SOURCE)
        for name in sorted(files):
            if name.endswith(".py"):
                count += 1
                if count > _MOST_FILES:
                    return
                yield Path(place, name)


def _names(file: Path, wanted: Collection[str]) -> set[str]:
    try:
        if file.stat().st_size > _MOST_BYTES:
            return set()
        text = file.read_text("utf-8", errors="replace")
    except OSError:
        return set()
    # Reading tokens is slow, and most files hold none of the words.
    possible = {name for name in wanted if name in text}
    found: set[str] = set()
    if possible:
        try:
            for token in tokenize.generate_tokens(io.StringIO(text).readline):
                if token.type == tokenize.NAME and token.string in possible:
                    found.add(token.string)
                    if found == possible:
                        break
        except (tokenize.TokenError, SyntaxError):
            return found
    return found
