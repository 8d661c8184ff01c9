"""How commands print: results on stdout, as text or as JSON; everything else on stderr."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Any

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


def as_json(value: Any) -> str:
    """A value as the JSON text that commands print."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def print_json(value: Any) -> None:
    """Print one JSON document on stdout."""
    sys.stdout.write(as_json(value) + "\n")


def console(*, stderr: bool = False) -> Console:
    """The terminal. Rich is imported here, so that `--help` does not pay for it."""
    from rich.console import Console

    screen = Console(highlight=False, stderr=stderr)
    if not screen.is_terminal:
        # Logs and pipes are no 80 columns wide; a narrow guess would break paths and URIs.
        screen.width = PLAIN_WIDTH
    return screen


def message(text: str) -> None:
    """Print one line about the progress or a mistake on stderr."""
    print(text, file=sys.stderr, flush=True)
