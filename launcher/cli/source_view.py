"""The code of a job as people see it: what is packed and what is not, and how far the reading of it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.cli.output import message, passing
from launcher.text.sizes import size_in_words

if TYPE_CHECKING:
    from launcher.jobs.load import LoadedJob
    from launcher.source.left_out import LeftOut
    from launcher.source.tree import SourceTree

_SHOWN = 5
"""So many names of what a file leaves out; the JSON has twenty."""

_LISTED = 20
_QUIET_SECONDS = 2.0
"""So long nobody wonders whether anything happens."""


class ReadingView:
    """Tells how far the reading of a source is, once it takes long; a log gets one line."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = clock()
        self._shown = -1

    def __call__(self, read: int, total: int) -> None:
        """So many bytes of all have been read."""
        if self._shown < 0 and self._clock() - self._begun < _QUIET_SECONDS:
            return
        percent = 100 * read // total if total else 100
        text = f"reading {size_in_words(total)} of code"
        if not sys.stderr.isatty():
            if self._shown < 0:
                message(text)
        elif percent != self._shown:
            passing(f"{text}: {percent}%", last=read >= total)
        self._shown = percent


def read_code(loaded: LoadedJob) -> SourceTree | None:
    """The code of a job as it lies there; None where the job file does not say which."""
    from launcher.session.preparation import code_of

    return code_of(loaded, ReadingView())


def source_rows(source: SourceTree) -> dict[str, str]:
    """The lines of a summary: how much is packed and of what most, and what is left out by which file."""
    from launcher.source.files import largest, sizes_in_words
    from launcher.source.left_out import left_out_by_file

    if source.is_unread:
        return {"code": f"{source.place}, not looked at"}
    count = len(source.files)
    packed = f"{count:,} {'file' if count == 1 else 'files'}, {size_in_words(source.size_bytes)}"
    most = f", most in {sizes_in_words(largest(source.files))}" if count > 1 else ""
    left_out = [_left_out(source.folder, each) for each in left_out_by_file(source.ignored)]
    return {
        "code": f"{packed} of {source.place}{most}",
        **({"left out": "\n".join(left_out)} if left_out else {}),
    }


def source_json(source: SourceTree, shown: Callable[[str], str]) -> dict[str, Any]:
    """The same as data, paths as they are `shown`; of what a file leaves out the first twenty names."""
    from launcher.source.files import largest
    from launcher.source.left_out import left_out_by_file

    return {
        "place": shown(source.place),
        "files": None if source.is_unread else len(source.files),
        "size_bytes": None if source.is_unread else source.size_bytes,
        "largest": [{"name": name, "size_bytes": size} for name, size in largest(source.files)],
        "left_out": [
            {
                "by": None if each.ignore_file is None else shown(str(each.ignore_file)),
                "count": len(each.names),
                "first": list(each.names[:_LISTED]),
            }
            for each in left_out_by_file(source.ignored)
        ],
        "sha256": source.digest,
    }


def _left_out(folder: Path, each: LeftOut) -> str:
    names = ", ".join(each.names[:_SHOWN])
    more = f" and {len(each.names) - _SHOWN:,} more" if len(each.names) > _SHOWN else ""
    if each.ignore_file is None:
        return f"always: {names}{more}"
    file = each.ignore_file
    by = file.relative_to(folder) if file.is_relative_to(folder) else file
    return f"by {by}: {names}{more}"
