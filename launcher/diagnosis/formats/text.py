"""Any bytes as clean text, UTF-8 with lines ended by a line feed; what is no text is refused.

Logs of PowerShell and of Windows' tools are UTF-16, files that were rotated while somebody wrote begin with
zeros, and progress bars end their lines with a carriage return.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

from launcher.diagnosis.formats.blocks import LONGEST_RAW_LINE, has_longer_line, headed
from launcher.diagnosis.formats.unreadable import Unreadable

_KINDS = (
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\x89PNG", "a picture"),
    (b"%PDF", "a PDF"),
    (b"PAR1", "a Parquet table"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"BZh", "packed with bzip2"),
    (b"\xfd7zXZ", "packed with xz"),
    (b"PK\x03\x04", "a zip archive in another stream"),
    *((bytes((0x80, protocol)), "a Python pickle") for protocol in range(2, 6)),
)
_TAR = (257, b"ustar")
_CONTROLS = bytes({*range(1, 8), *range(14, 27), *range(28, 32), 127})
"""Controls that logs do not hold: all but those for breaks, tabs, erasing and colours."""
_MOST_CONTROLS = 0.05
_MOST_UNDECODABLE = 0.3
"""Of random bytes a tenth are such controls, and nearly all above 127 are no UTF-8; of a log in another
encoding of one byte or two, what is no UTF-8 are single words between Python's own."""
_UTF16_SHARE = 0.3


def as_text(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The stream as clean UTF-8 in blocks. Raises Unreadable, at its beginning, for what is no text."""
    head, blocks = headed(blocks)
    encoding = _utf16_of(head)
    if encoding is not None:
        blocks = _recoded(blocks, encoding)
    head, blocks = headed(_without_zeros(blocks))
    refuse_binary(head)
    return _with_line_feeds(_without_mark(blocks))


def refuse_binary(head: bytes) -> None:
    """Raise Unreadable where bytes, of which zeros were taken out, are the beginning of no text."""
    for magic, kind in _KINDS:
        if head.startswith(magic.replace(b"\0", b"")):
            raise _binary(kind)
    at, magic = _TAR
    # The zeros that fill a tar header's fields are gone, so that the mark stands somewhat earlier.
    if magic in head[: at + len(magic)] and not head[:at].count(b"\n"):
        raise _binary("a tar archive")
    if head and len(head) - len(head.translate(None, _CONTROLS)) > _MOST_CONTROLS * len(head):
        raise _binary("a binary file")
    if head and _undecodable(head) > _MOST_UNDECODABLE * len(head):
        raise _binary("a binary file")


def _utf16_of(head: bytes) -> str | None:
    """UTF-16 in either order, with its mark or without; every second byte of such a log is zero."""
    pairs = max(1, len(head) // 2)
    first, second = head[0::2].count(0), head[1::2].count(0)
    if second > _UTF16_SHARE * pairs and first < second / 8:
        return "utf-16-le"
    if first > _UTF16_SHARE * pairs and second < first / 8:
        return "utf-16-be"
    return None


def _recoded(blocks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    for block in blocks:
        yield decoder.decode(block).encode("utf-8", errors="replace")
    yield decoder.decode(b"", final=True).encode("utf-8", errors="replace")


def _without_zeros(blocks: Iterable[bytes]) -> Iterator[bytes]:
    for block in blocks:
        yield block.replace(b"\0", b"") if b"\0" in block else block


def _without_mark(blocks: Iterable[bytes]) -> Iterator[bytes]:
    head, blocks = headed(blocks, len(codecs.BOM_UTF8))
    if head != codecs.BOM_UTF8:
        yield from blocks
        return
    left = len(codecs.BOM_UTF8)
    for block in blocks:
        yield block[left:]
        left -= min(left, len(block))


def _with_line_feeds(blocks: Iterable[bytes]) -> Iterator[bytes]:
    carried = b""
    for block in blocks:
        if not carried and b"\r" not in block:
            yield block
            continue
        block = carried + block
        carried = b"\r" if block.endswith(b"\r") else b""
        yield block[: len(block) - len(carried)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if carried:
        yield b"\n"


def bounded(blocks: Iterable[bytes], longest: int = LONGEST_RAW_LINE) -> Iterator[bytes]:
    """Text with line feeds, of whose lines no more than the first `longest` bytes are left."""
    length = 0  # of the line under way
    for block in blocks:
        first = block.find(b"\n")
        begun = length + (len(block) if first < 0 else first)
        if begun <= longest and not has_longer_line(block, longest):
            length = begun if first < 0 else len(block) - block.rfind(b"\n") - 1
            yield block
            continue
        first_line, *others = block.split(b"\n")
        kept = [first_line[: longest - length], *(line[:longest] for line in others)]
        length = len(kept[-1]) if others else length + len(kept[0])
        yield b"\n".join(kept)


def _undecodable(head: bytes) -> int:
    """How many bytes are no UTF-8; a character that the head's end cuts counts little."""
    if head.isascii():
        return 0
    return len(head.decode("utf-8", errors="surrogateescape")) - len(head.decode("utf-8", errors="ignore"))


def _binary(kind: str) -> Unreadable:
    return Unreadable(
        f"is {kind}, in which no log can be read.",
        "Name the log itself (text, or text in gzip, Zstandard or zip); unpack what is packed otherwise.",
    )
