"""Any file of bytes as blocks of clean text: unpacked, UTF-8, lines ended by a line feed; else refused as
unreadable.

Whoever sends a file may send one that unpacks to terabytes, so all of it is read in blocks of bounded size.
"""

from __future__ import annotations

import codecs
import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, BinaryIO, Final, cast

from launcher.diagnosis.logs.lines import BLOCK, LONGEST_RAW_LINE, has_longer_line, split_head


class Unreadable(Exception):
    """Bytes that are no log. `problem` goes on after the file's name, `remedy` is a sentence of its own."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem} {remedy}")
        self.problem = problem
        self.remedy = remedy


# Any bytes as clean text, UTF-8 with lines ended by a line feed; what is no text is refused.
#
# Logs of PowerShell and of Windows' tools are UTF-16, files that were rotated while somebody wrote begin
# with zeros, and progress bars end their lines with a carriage return.


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
    head, blocks = split_head(blocks)
    encoding = _utf16_of(head)
    if encoding is not None:
        blocks = _recode(blocks, encoding)
    head, blocks = split_head(_without_zeros(blocks))
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


def _recode(blocks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    for block in blocks:
        yield decoder.decode(block).encode("utf-8", errors="replace")
    yield decoder.decode(b"", final=True).encode("utf-8", errors="replace")


def _without_zeros(blocks: Iterable[bytes]) -> Iterator[bytes]:
    for block in blocks:
        yield block.replace(b"\0", b"") if b"\0" in block else block


def _without_mark(blocks: Iterable[bytes]) -> Iterator[bytes]:
    head, blocks = split_head(blocks, len(codecs.BOM_UTF8))
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


def bound_lines(blocks: Iterable[bytes], longest: int = LONGEST_RAW_LINE) -> Iterator[bytes]:
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


# gzip and Zstandard, unpacked as they are read.
#
# Whoever sends a file may send one that unpacks to terabytes: what comes out is bounded against what went
# in, and never more than a block of it is in memory.


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


def unpack(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The stream as it is, or unpacked where it is gzip or Zstandard.

    One that ends too early ends where it ends, as a cut log does. Raises Unreadable, while it is read, for a
    damaged one, and for one that unpacks to far more than any log does.
    """
    for _ in range(_MOST_LAYERS):
        head, blocks = split_head(blocks, len(ZSTANDARD))
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
                raise _damaged_stream("gzip", error) from None
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
        raise _damaged_stream("Zstandard", error) from None


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


def _damaged_stream(kind: str, error: Exception) -> Unreadable:
    return Unreadable(
        f"is packed with {kind} and damaged ({error}).",
        "Fetch it again, or unpack what can be and name that.",
    )


ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
"""How an archive begins, the second one an empty one."""

_MOST_MEMBERS = 10_000
_LARGEST_DIRECTORY = 4 << 20
"""Bytes of the list of members, which the reader takes into memory: 10,000 with names of 350 characters."""
_END = 22
"""Bytes of the record at the end that says where the list is, before a comment (APPNOTE.TXT 4.3.16)."""
_LONGEST_COMMENT = 1 << 16
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Others (LZMA) may ask for gigabytes of memory."""
_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, OSError, ValueError)


class Archive:
    """The members of an archive that are files. Raises Unreadable for one that is damaged or too large.

    The names only tell members apart: nothing is ever opened by them.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._bound = Expansion(_size_of_archive(file))
        try:
            self._zip = zipfile.ZipFile(file)
        except _ERRORS as error:
            raise _damaged_archive(error) from None
        if len(self._zip.filelist) > _MOST_MEMBERS:
            raise _too_many()
        self._members = {each.filename: each for each in self._zip.infolist() if _is_file(each)}

    @property
    def names(self) -> list[str]:
        """The files in it, in their order; links and folders are none."""
        return list(self._members)

    def blocks(self, name: str) -> Iterator[bytes]:
        """What a member holds. Raises Unreadable, while it is read, where that cannot be unpacked."""
        member = self._members[name]
        if member.flag_bits & 1:
            raise Unreadable("is locked with a password.", "Unpack it, and name the folder.")
        if member.compress_type not in _METHODS:
            raise Unreadable("is packed in a way that is not read.", "Unpack it, and name the folder.")
        try:
            with self._zip.open(member) as opened:
                while block := opened.read(BLOCK):
                    yield self._bound.give(block)
        except _ERRORS as error:
            raise _damaged_archive(error) from None


def _size_of_archive(file: BinaryIO) -> int:
    """The archive's size. Raises Unreadable where its list of members alone would fill the memory."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _END - _LONGEST_COMMENT))
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    directory = int.from_bytes(tail[at + 12 : at + 16], "little") if at >= 0 else 0
    # The 64-bit form repeats the size before the record, and there it may be any.
    if directory > _LARGEST_DIRECTORY or b"PK\x06\x07" in tail:
        raise _too_many()
    file.seek(0)
    return size


def _is_file(member: zipfile.ZipInfo) -> bool:
    mode = member.external_attr >> 16
    return not member.is_dir() and (not stat.S_IFMT(mode) or stat.S_ISREG(mode))


def _too_many() -> Unreadable:
    return Unreadable(
        f"is an archive of more than {_MOST_MEMBERS} files.", "Unpack it, and name the files that matter."
    )


def _damaged_archive(error: Exception) -> Unreadable:
    return Unreadable(
        f"is a zip archive and damaged ({error}).", "Fetch it again, or unpack what can be and name that."
    )
