"""Which numbers of a text are figures: something that somebody measured, limited or chose, and may change.

Not figures, by these rules alone: what stands in backticks or in quotation marks (code, and what a program
prints); what is grown together with letters or signs (p4d, /24, X=3: names and code); 0 and 1; what counts by
name (rank 0, version 2, code 137, and what follows them with "or", "and" or a comma); numbers alone in
brackets, which are codes of their own (403); and examples, after "such as" or an option (--lr 0.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_VERBATIM = re.compile(r"`[^`]*`|(?<!\w)'[^'\n]*'(?!\w)|\([\d, ]+\)")
_NUMBER = re.compile(r"\d[\d.,]*(-\d+)?%?")
_COUNTS_BY_NAME = ("rank", "version", "code", "error", "exit", "rc:")
_GOES_ON = ("or", "and")
_PUNCTUATION = ".,;:()!?"


def figures_in(text: str) -> Iterator[str]:
    """The figures of a text, as they are written there."""
    named, before = False, ""
    for word in _VERBATIM.sub(" x ", text).split():
        bare = word.strip(_PUNCTUATION)
        if _NUMBER.fullmatch(bare.removeprefix("-")):
            if not named and bare not in ("0", "1"):
                yield bare
        elif bare not in _GOES_ON:
            example = word.startswith("--") or (bare.lower() == "as" and before.lower() == "such")
            named = example or word.lstrip("(").lower() in _COUNTS_BY_NAME
        before = bare
