"""The fewest lines of a log that are answered as the whole of it (delta debugging)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.logs.cases import LogCase
from tools.reduce_logs.answers import answer_to, codes_with_last_words


def with_fewest_lines(case: LogCase) -> LogCase:
    """The case without the lines, and the blanks at the ends of lines, that change nothing in the answer."""
    whole, with_last_words = answer_to(case), codes_with_last_words(case)

    def is_answered_the_same(lines: Sequence[str]) -> bool:
        shorter = _of(case, lines)
        return (
            any(lines) and answer_to(shorter) == whole and codes_with_last_words(shorter) == with_last_words
        )

    lines = fewest(case.text.strip("\n").split("\n"), is_answered_the_same)
    stripped = [line.rstrip() for line in lines]
    return _of(case, stripped if is_answered_the_same(stripped) else lines)


def fewest(lines: Sequence[str], is_enough: Callable[[Sequence[str]], bool]) -> list[str]:
    """As few of the lines as are enough: of those that are left none can be spared.

    Half of them is left out where that is enough, then quarters, down to single lines, the first ones first.
    """
    kept = list(lines)
    size = max(1, len(kept) // 2)
    while True:
        at, shorter = 0, False
        while at < len(kept):
            rest = kept[:at] + kept[at + size :]
            if rest and is_enough(rest):
                kept, shorter = rest, True
            else:
                at += size
        if size == 1 and not shorter:
            return kept
        size = max(1, size // 2)


def _of(case: LogCase, lines: Sequence[str]) -> LogCase:
    return replace(case, text="\n".join(lines) + "\n")
