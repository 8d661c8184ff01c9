"""gzip and Zstandard, unpacked as they are read.

Whoever sends a file may send one that unpacks to terabytes: what comes out is bounded against what went in,
and never more than a block of it is in memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Final, cast

from launcher.diagnosis.formats.blocks import BLOCK, headed
from launcher.diagnosis.formats.unreadable import Unreadable

GZIP: Final = b"\x1f\x8b\x08"
ZSTANDARD: Final = b"\x28\xb5\x2f\xfd"
_MOST_LAYERS = 3
"""Deliveries of a subscription to S3 are packed twice where the sender and the bucket both do it."""
_MOST_TIMES = 250
_FREE = 256 << 20
"""Bytes that may come out of anything, however small. Logs shrink to a tenth or a twentieth; one line over
and over shrinks to a thousandth, and is no log for longer than this."""
_LARGEST_WINDOW = 1 << 27
"""Bytes that Zstandard may look back: what `zstd --ultra -22` asks for."""


def unpacked(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The stream as it is, or unpacked where it is gzip or Zstandard.

    One that ends too early ends where it ends, as a cut log does. Raises Unreadable, while it is read, for a
    damaged one, and for one that unpacks to far more than any log does.
    """
    for _ in range(_MOST_LAYERS):
        head, blocks = headed(blocks, len(ZSTANDARD))
        if head.startswith(GZIP):
            blocks = _gunzipped(blocks)
        elif head.startswith(ZSTANDARD):
            blocks = _of_zstandard(blocks)
        else:
            break
    return iter(blocks)


class Expansion:
    """Counts what goes into an unpacker and what comes out; raises Unreadable where that is too much."""

    def __init__(self, taken: int = 0) -> None:
        self._taken = taken
        self._given = 0

    def take(self, block: bytes) -> bytes:
        """Count what goes in, and return it."""
        self._taken += len(block)
        return block

    def give(self, block: bytes) -> bytes:
        """Count what came out, and return it. Raises Unreadable where it is too much."""
        self._given += len(block)
        if self._given > max(_FREE, self._taken * _MOST_TIMES):
            raise Unreadable(
                f"unpacks to more than {_MOST_TIMES} times its size, which no log does.",
                "Unpack it yourself if you trust it, and name what came out.",
            )
        return block


def _gunzipped(blocks: Iterable[bytes]) -> Iterator[bytes]:
    bound = Expansion()
    inflater = zlib.decompressobj(wbits=31)
    rest = b""
    for block in blocks:
        rest += bound.take(block)
        while rest:
            if inflater.eof:
                # Members follow one another; behind the last one may be padding.
                if len(rest) < len(GZIP):
                    break
                if not rest.startswith(GZIP):
                    return
                inflater = zlib.decompressobj(wbits=31)
            try:
                out = inflater.decompress(rest, BLOCK)
            except zlib.error as error:
                raise _damaged("gzip", error) from None
            rest = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
            if out:
                yield bound.give(out)


def _of_zstandard(blocks: Iterable[bytes]) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise Unreadable(
            "is packed with Zstandard, which needs the package zstandard.",
            "Install it (pip install 'slipway-launch[zstd]'), or unpack the file: zstd -d FILE.",
        ) from None
    bound = Expansion()
    reader = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW).stream_reader(
        cast(IO[bytes], _PackedFile(blocks, bound)), read_across_frames=True
    )
    try:
        while out := reader.read(BLOCK):
            yield bound.give(out)
    except zstandard.ZstdError as error:
        raise _damaged("Zstandard", error) from None


class _PackedFile:
    """Blocks as the file that the reader of Zstandard wants."""

    def __init__(self, blocks: Iterable[bytes], bound: Expansion) -> None:
        self._blocks = iter(blocks)
        self._bound = bound
        self._rest = b""

    def read(self, size: int) -> bytes:
        """The next bytes, at most so many; none at the end."""
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return b""
            self._rest = self._bound.take(block)
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece


def _damaged(kind: str, error: Exception) -> Unreadable:
    return Unreadable(
        f"is packed with {kind} and damaged ({error}).",
        "Fetch it again, or unpack what can be and name that.",
    )
