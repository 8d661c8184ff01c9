"""Where any of many literals occurs in a text of bytes, whatever the case of its ASCII letters.

Two finders with the same answers. With the package hyperscan (the extra `fast`) all literals are sought in
one pass at gigabytes a second; without it, or on a processor that it does not run on, by a pattern of
Python's own, at some tens of megabytes a second. It was chosen before google-re2, whose alternations tell
only one of the literals at a place and are slower.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from threading import Lock
from typing import Any, Protocol, TypeAlias

try:
    import hyperscan
except ImportError:
    hyperscan = None  # type: ignore[assignment]

Hit: TypeAlias = tuple[int, int]
"""Behind which byte a literal ends, and its number among the literals."""

_Tree: TypeAlias = dict[str, "_Tree"]


class Finder(Protocol):
    """Finds literals; its `literals` are lower-case UTF-8, each once, numbered by their places."""

    @property
    def literals(self) -> Sequence[bytes]:
        """What is sought."""
        ...

    def hits(self, text: bytes) -> list[Hit]:
        """Every occurrence of every literal, in the order in which they end."""
        ...


def finder_of(literals: Iterable[str]) -> Finder:
    """The quickest finder that works here; for the same literals the same one."""
    return _finder_of(distinct(literals), with_hyperscan=hyperscan is not None)


@lru_cache(maxsize=8)
def _finder_of(unique: tuple[bytes, ...], *, with_hyperscan: bool) -> Finder:
    if with_hyperscan:
        try:
            return AutomatonFinder(unique)
        except hyperscan.error:  # Such as a processor without the instructions that it needs.
            pass
    return PatternFinder(unique)


def distinct(literals: Iterable[str]) -> tuple[bytes, ...]:
    """The literals as bytes, each once, in their order."""
    return tuple(dict.fromkeys(literal.encode() for literal in literals))


class AutomatonFinder:
    """All literals in one pass of hyperscan's automaton. Raises `hyperscan.error` where it cannot run."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        self.literals = literals
        self._lock = Lock()  # A database scans one text at a time.
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=[b"".join(b"\\x%02x" % byte for byte in literal) for literal in literals],
            ids=list(range(len(literals))),
            elements=len(literals),
            flags=[hyperscan.HS_FLAG_CASELESS] * len(literals),
        )
        self.size: int = self._database.size()
        """Bytes of the automaton; some literals make it many times as large."""

    def hits(self, text: bytes) -> list[Hit]:
        """Every occurrence of every literal, in the order in which they end."""
        found: list[Hit] = []
        add = found.append

        def on_match(number: int, start: int, end: int, flags: int, context: Any) -> None:
            add((end, number))

        with self._lock:
            self._database.scan(text, match_event_handler=on_match)
        found.sort()
        return found


class PatternFinder:
    """One pattern of all literals, their common beginnings taken out; what else begins there by a tree."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        self.literals = literals
        self._pattern = re.compile(
            alternation(literal.decode("latin-1") for literal in literals).encode("latin-1")
        )
        self._numbers = {literal: number for number, literal in enumerate(literals)}
        self._lengths = sorted({len(literal) for literal in literals})

    def hits(self, text: bytes) -> list[Hit]:
        """Every occurrence of every literal, in the order in which they end."""
        lower = text.lower()
        found: list[Hit] = []
        match = self._pattern.search(lower)
        while match is not None:
            start = match.start()
            for length in self._lengths:
                number = self._numbers.get(lower[start : start + length])
                if number is not None and start + length <= len(lower):
                    found.append((start + length, number))
            match = self._pattern.search(lower, start + 1)
        found.sort()
        return found


def alternation(literals: Iterable[str]) -> str:
    """A pattern for any of the literals, their common beginnings taken out: so that it is fast."""
    tree: _Tree = {}
    for literal in literals:
        node = tree
        for character in literal:
            node = node.setdefault(character, {})
        node[""] = {}
    return _of_tree(tree)


def _of_tree(tree: _Tree) -> str:
    if "" in tree:
        return ""  # A literal that begins another one finds the places of both.
    branches = [re.escape(character) + _of_tree(rest) for character, rest in tree.items()]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
