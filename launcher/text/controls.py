"""Text from elsewhere without what would act on a terminal instead of being shown."""

from __future__ import annotations

import re

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def without_controls(text: str) -> str:
    """The text without colours, cursor movements and other control characters; tabs and line feeds stay."""
    return _CONTROL.sub("", _ANSI.sub("", text)) if not text.isprintable() else text
