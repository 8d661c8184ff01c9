"""How commands print: results on stdout, as text or as JSON; everything else on stderr.

Everything that is printed comes through here, and leaves without control characters that would act on a
terminal (see `without_controls`).
"""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from launcher.text.controls import without_controls

if TYPE_CHECKING:
    from rich.console import Console


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
