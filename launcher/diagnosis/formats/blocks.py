"""Streams of bytes as iterators of blocks: cut anywhere, read once."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

BLOCK: Final = 1 << 18
"""Bytes that are read, or unpacked, at once."""

HEAD: Final = 1 << 16
"""Bytes at the beginning by which a stream is judged."""

LONGEST_RAW_LINE: Final = 1 << 16
"""Bytes of a line that are kept: sixteen times what patterns see (LONGEST_LINE), for prefixes, colours and
what JSON stands around a message."""


def headed(blocks: Iterable[bytes], length: int = HEAD) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes of a stream, fewer than `length` only where it ends, and the whole stream again."""
    rest = iter(blocks)
    taken: list[bytes] = []
    size = 0
    while size < length and (block := next(rest, None)) is not None:
        taken.append(block)
        size += len(block)
    return b"".join(taken)[:length], chain(taken, rest)


def has_longer_line(text: bytes, longest: int) -> bool:
    """Whether a line of a text is longer than so many bytes, without its line feed."""
    start = 0
    while start + longest < len(text):
        end = text.rfind(b"\n", start, start + longest + 1)
        if end < 0:
            return True
        start = end + 1
    return False


def lines_of(blocks: Iterable[bytes]) -> Iterator[str]:
    """The lines of clean text (see `text.cleaned`), without their breaks."""
    rest = b""
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", errors="replace")
    if rest:
        yield rest.decode("utf-8", errors="replace")


def characters_of(blocks: Iterable[bytes]) -> Iterator[str]:
    """The text in pieces of any size; characters that two blocks share are put together."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for block in blocks:
        yield decoder.decode(block)
    yield decoder.decode(b"", final=True)
