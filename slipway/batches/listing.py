"""The files of a folder in one order, and where two such lists part. No network, no torch."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path


def files_in(folder: Path, pattern: str) -> list[tuple[str, int]]:
    """All files below a folder, through links too, whose name fits: path below it and bytes, sorted.

    A pattern with a slash is for the whole path, else for the name alone; `*` is as in a shell, and what
    begins with a dot is left out as there. The order is that of the names' bytes, on every system.

    Raises FileNotFoundError for a link that leads nowhere, and OSError for a folder that cannot be read.
    """
    found = []
    for file in _walk(folder, ()):
        path = file.relative_to(folder).as_posix()
        if fnmatchcase(path if "/" in pattern else file.name, pattern):
            try:
                found.append((path, file.stat().st_size))
            except FileNotFoundError:
                raise FileNotFoundError(
                    f"{file} is a link that leads nowhere, so training would fail at this file"
                ) from None
    return sorted(found, key=lambda entry: os.fsencode(entry[0]))


def _walk(folder: Path, above: tuple[tuple[int, int], ...]) -> Iterator[Path]:
    status = folder.stat()
    identity = (status.st_dev, status.st_ino)
    # A link to a folder that it lies in would be followed without end.
    if identity in above:
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                yield from _walk(Path(entry.path), (*above, identity))
            else:
                yield Path(entry.path)


def fingerprint(entries: Sequence[tuple[str, int]]) -> str:
    """The SHA-256 of names and sizes, in their order."""
    digest = hashlib.sha256()
    for path, size in entries:
        digest.update(os.fsencode(path) + b"\0" + str(size).encode() + b"\n")
    return digest.hexdigest()


def odd_ones(fingerprints: Sequence[str]) -> list[int]:
    """The positions that differ from what most have; of equally many, the first one's counts."""
    usual = max(fingerprints, key=lambda one: (fingerprints.count(one), -fingerprints.index(one)))
    return [position for position, one in enumerate(fingerprints) if one != usual]


def difference(usual: tuple[str, int] | None, odd: tuple[str, int] | None) -> str:
    """In words how the first entries that differ do; None is the end of a list.

    >>> difference(("a.tar", 5), ("b.tar", 7))
    'it lacks a.tar'
    """
    if usual is not None and (odd is None or os.fsencode(usual[0]) < os.fsencode(odd[0])):
        return f"it lacks {usual[0]}"
    assert odd is not None
    if usual is not None and usual[0] == odd[0]:
        return f"{odd[0]} has {odd[1]:,} bytes there and {usual[1]:,} elsewhere"
    return f"it alone has {odd[0]}"
