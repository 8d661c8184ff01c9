"""What of a source is not packed, by the files whose patterns leave it out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from launcher.source.files import IgnoredPath


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The paths that the patterns of one file leave out; of folders (with a slash) all that they hold.

    `ignore_file` is None for the folders that are never packed.
    """

    ignore_file: Path | None
    names: tuple[str, ...]


def left_out_by_file(ignored: Iterable[IgnoredPath]) -> list[LeftOut]:
    """What is left out, in the order in which it was met; what is never packed comes last."""
    found: dict[Path | None, list[str]] = {}
    for each in ignored:
        found.setdefault(each.ignore_file, []).append(each.name)
    files = sorted(found, key=lambda file: file is None)
    return [LeftOut(file, tuple(found[file])) for file in files]
