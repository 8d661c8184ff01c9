"""Zip archives: the logs among their members, unpacked as they are read and never onto the disk."""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final

from launcher.diagnosis.formats.blocks import BLOCK
from launcher.diagnosis.formats.compression import Expansion
from launcher.diagnosis.formats.unreadable import Unreadable

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
        self._bound = Expansion(_size_of(file))
        try:
            self._zip = zipfile.ZipFile(file)
        except _ERRORS as error:
            raise _damaged(error) from None
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
            raise _damaged(error) from None


def _size_of(file: BinaryIO) -> int:
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


def _damaged(error: Exception) -> Unreadable:
    return Unreadable(
        f"is a zip archive and damaged ({error}).", "Fetch it again, or unpack what can be and name that."
    )
