"""What somebody may have meant who wrote something else."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST_WORD = 200
"""Longer ones are no slip of anybody's, and comparing them takes time in proportion to their square: no name
that is looked for has more."""


def nearest(word: str, known: Iterable[str], *, most: int = 1, likeness: float = 0.6) -> list[str]:
    """The known words that are most like the given one, the likest first; none for one that is too long.

    `likeness` from 0 to 1 is what they must have at least (difflib.SequenceMatcher.ratio).
    """
    import difflib  # here: most commands that might need it never do

    if len(word) > LONGEST_WORD:
        return []
    return difflib.get_close_matches(word, list(known), n=most, cutoff=likeness)
