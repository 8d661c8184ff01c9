"""How commands print: results on stdout, as text or as JSON; everything else on stderr.

Everything that is printed comes through here, and leaves without control characters that would act on a
terminal (see `without_controls`). How the code of a job is read and told is the same for all commands.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.text.values import size_in_words, without_controls

if TYPE_CHECKING:
    from rich.console import Console

    from launcher.jobs.load_job import LoadedJob
    from launcher.source.tree import LeftOut, SourceTree

EXIT_USAGE = 2
"""The exit code of a command that was called wrongly."""

EXIT_INTERRUPTED = 130
"""The exit code of a command that was interrupted by the user, as shells give it: 128 and SIGINT's number."""

PLAIN_WIDTH = 140
"""Columns where there is no terminal to ask how many it has."""


class OutputFormat(StrEnum):
    """What a command prints on stdout: text for a person, JSON for a program."""

    TEXT = "text"
    JSON = "json"


def as_json(value: Any, indent: int | None = 2) -> str:
    """A value as the JSON text that commands print; on one line with `indent` None.

    Characters that stdout cannot encode are escaped as JSON demands: the stream's own escapes are not JSON.
    """
    text = without_controls(json.dumps(value, indent=indent, ensure_ascii=False))
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return text


def print_json(value: Any, indent: int | None = 2) -> None:
    """Print one JSON document on stdout, on one line with `indent` None."""
    sys.stdout.write(as_json(value, indent) + "\n")


def console(*, stderr: bool = False) -> Console:
    """The terminal. Rich is imported here, so that `--help` does not pay for it."""
    from launcher.cli.terminal import Terminal

    screen = Terminal(highlight=False, stderr=stderr)
    if not screen.is_terminal:
        # Logs and pipes are no 80 columns wide; a narrow guess would break paths and URIs.
        screen.width = PLAIN_WIDTH
    return screen


class _Stderr:
    """What is known of stderr: whether its last line is one that the next `passing` replaces."""

    open_line = False


def message(text: str) -> None:
    """Print one line about the progress or a mistake on stderr, below whatever `passing` left there."""
    if _Stderr.open_line:
        _Stderr.open_line = False
        print(file=sys.stderr)
    print(without_controls(text), file=sys.stderr, flush=True)


def passing(text: str, *, last: bool = False) -> None:
    """Show on a terminal's stderr how far something is, in place of the text before; `last` ends the line."""
    _Stderr.open_line = not last
    print(f"\r{without_controls(text)}", end="\n" if last else "", file=sys.stderr, flush=True)


# The code of a job as people see it: what is packed and what is not, and how far the reading of it is.


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
    from launcher.session.prepare_plan import code_of

    return code_of(loaded, ReadingView())


def source_rows(source: SourceTree) -> dict[str, str]:
    """The lines of a summary: how much is packed and of what most, and what is left out by which file."""
    from launcher.source.folder_walk import largest_entries, sizes_in_words
    from launcher.source.tree import group_left_out

    if source.is_unread:
        return {"code": f"{source.place}, not looked at"}
    count = len(source.files)
    packed = f"{count:,} {'file' if count == 1 else 'files'}, {size_in_words(source.size_bytes)}"
    most = f", most in {sizes_in_words(largest_entries(source.files))}" if count > 1 else ""
    left_out = [_left_out(source.folder, each) for each in group_left_out(source.ignored)]
    return {
        "code": f"{packed} of {source.place}{most}",
        **({"left out": "\n".join(left_out)} if left_out else {}),
    }


def source_json(source: SourceTree, shown: Callable[[str], str]) -> dict[str, Any]:
    """The same as data, paths as they are `shown`; of what a file leaves out the first twenty names."""
    from launcher.source.folder_walk import largest_entries
    from launcher.source.tree import group_left_out

    return {
        "place": shown(source.place),
        "files": None if source.is_unread else len(source.files),
        "size_bytes": None if source.is_unread else source.size_bytes,
        "largest": [{"name": name, "size_bytes": size} for name, size in largest_entries(source.files)],
        "left_out": [
            {
                "by": None if each.ignore_file is None else shown(str(each.ignore_file)),
                "count": len(each.names),
                "first": list(each.names[:_LISTED]),
            }
            for each in group_left_out(source.ignored)
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
