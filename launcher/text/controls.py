"""Text from elsewhere without what would act on a terminal instead of being shown."""

from __future__ import annotations

import re

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f]")
_SHOWN = re.compile(r"[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Delete, the 8-bit controls of ISO 6429 (U+009B begins a sequence as ESC and a bracket do, U+009D one that
may write the clipboard), separators of lines, and the marks that reorder what follows: the nine of
"Trojan Source" (Boucher and Anderson, 2021)."""


def without_controls(text: str) -> str:
    """The text as it may be printed on a terminal; tabs and line feeds stay.

    Colours, cursor movements and the controls below the space go, as coloured logs are full of them.
    The rare ones above (see `_SHOWN`) are written as JSON writes them, `\\u009b`: nobody puts them into a
    line without a purpose, and JSON text is the same value afterwards.
    """
    if text.isprintable():
        return text
    return _SHOWN.sub(_escape, _CONTROL.sub("", _ANSI.sub("", text)))


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
