"""The values of secrets, hidden in all that the boot passes on, keeps and reports.

What is found is the value as it is and as Python, JSON and URLs write it, line by line where it has several,
and the texts in it where it is JSON. Whoever encodes it otherwise, or prints it in parts on several lines, is
beyond this.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus

MASK = b"***"
"""What stands in the place of a value."""

SHORTEST_ANYWHERE = 8
"""Characters. A shorter value stands in other words by chance, and is masked as a word of its own only."""

SHORTEST = 4
"""Characters. What is shorter still is not masked: it would hide most of what is printed."""

_WORD = rb"[0-9A-Za-z_]"
_WORDS = re.compile(_WORD)


class Masking:
    """What is hidden: the values of the job's secrets."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        texts = sorted({text for value in values for text in _forms(value)}, key=len, reverse=True)
        self._texts = [text.encode("utf-8", "surrogateescape") for text in texts]
        self._any = re.compile(b"|".join(map(_pattern, self._texts))) if texts else None

    def __bool__(self) -> bool:
        return self._any is not None

    def text(self, text: str) -> str:
        """A text without the values."""
        if self._any is None:
            return text
        return self._any.sub(MASK, text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def stream(self) -> MaskedStream:
        """For a stream that comes in pieces."""
        return MaskedStream(self._any, self._texts)


NOTHING_MASKED = Masking()
"""Of a job without secrets."""


class MaskedStream:
    """Hides values in a stream; what may be the beginning of one waits for what follows, however long.

    So at most the longest value is held back.
    """

    def __init__(self, any_text: re.Pattern[bytes] | None, texts: list[bytes]) -> None:
        self._any = any_text
        self._texts = texts
        self._before = b""
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """The next piece of the stream: what of it can be passed on, and of what waited."""
        if self._any is None:
            return piece
        self._held += piece
        return self._passed(min(_begun(self._held, text) for text in self._texts))

    def end(self) -> bytes:
        """What waited, when nothing follows; a long beginning of a value is hidden as well."""
        if len(self._held) >= SHORTEST_ANYWHERE and any(text.startswith(self._held) for text in self._texts):
            self._held = b""
            return MASK
        return self._passed(len(self._held)) if self._held else b""

    def _passed(self, until: int) -> bytes:
        """What waited, up to a place, the values hidden; one that reaches beyond the place is not cut."""
        assert self._any is not None
        # The byte before decides whether a word begins here.
        begun = reached = len(self._before)
        data, until = self._before + self._held, begun + until
        out = []
        for match in self._any.finditer(data, begun):
            if match.start() >= until:
                break
            out += [data[reached : match.start()], MASK]
            reached = match.end()
        until = max(until, reached)
        out.append(data[reached:until])
        self._before, self._held = data[max(0, until - 1) : until], data[until:]
        return b"".join(out)


def _begun(data: bytes, text: bytes) -> int:
    """Where the longest end of `data` begins with which `text` begins; its length where there is none.

    A short value that is there already waits for the character after it, which decides whether it is a word.
    """
    whole = len(text) < SHORTEST_ANYWHERE
    at = max(0, len(data) - len(text) + (not whole))
    while True:
        at = data.find(text[:1], at)
        if at < 0:
            return len(data)
        if text.startswith(data[at:]):
            return at
        at += 1


def _pattern(text: bytes) -> bytes:
    literal = re.escape(text)
    if len(text) >= SHORTEST_ANYWHERE:
        return literal
    before = b"(?<!%b)" % _WORD if _WORDS.match(text) else b""
    after = b"(?!%b)" % _WORD if _WORDS.match(text[-1:]) else b""
    return before + literal + after


def _forms(value: str) -> Iterator[str]:
    """Everything to be looked for because of one value."""
    for part in _parts(value):
        if len(part) < SHORTEST:
            continue
        yield part
        for written in (repr(part), json.dumps(part), json.dumps(part, ensure_ascii=False)):
            yield written[1:-1]
        for safe in ("/", ""):
            yield quote(part, safe=safe, errors="surrogateescape")
        yield quote_plus(part, errors="surrogateescape")


def _parts(value: str) -> Iterator[str]:
    """The value, its lines, and where it is JSON the texts in it that are long enough to be secrets."""
    yield value.strip()
    lines = [line.strip() for line in value.splitlines()]
    if lines[1:]:
        yield from (line for line in lines if len(line) >= SHORTEST_ANYWHERE)
    if value.lstrip()[:1] in ("{", "["):
        try:
            document = json.loads(value)
        except (ValueError, RecursionError):
            return
        yield from (text for text in _leaves(document) if len(text) >= SHORTEST_ANYWHERE)


def _leaves(document: Any) -> Iterator[str]:
    waiting = [document]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
        elif isinstance(each, str):
            yield from [each.strip(), *(line.strip() for line in each.splitlines())]
