"""Data that several ranks of a host download or unpack into one folder, and what then fails.

One reads what another has half written. Only the first sign is the same each time: that the archive, or what
was made of it, is not whole, where the stack is of a download. So it counts where more than one rank is known
to have been there. Texts: torchvision/datasets/utils.py and its datasets; CPython's zipfile, tarfile, gzip,
zlib, lzma and os.
"""

from __future__ import annotations

import re

from launcher.diagnosis.candidates import unworded
from launcher.diagnosis.raised import with_traceback
from launcher.diagnosis.record import Line
from launcher.diagnosis.scan import Candidate
from launcher.diagnosis.sighting import Sighting
from launcher.diagnosis.signatures.signature import LineRole
from launcher.diagnosis.tracebacks import Traceback
from launcher.failure_modes import data
from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import finds

LITERALS = ("downloading http", "extracting ")
"""Lower-case parts of the lines by which a rank says that it downloads or unpacks."""

_BEGUN = re.compile(r"^(?:Downloading http\S{1,1000} to |Extracting )(?P<path>\S{1,1000})")
_MOST_BEGUN = 10_000

_OF_DOWNLOADS = re.compile(
    r"download|extract|unpack|unzip|untar|/(?:torchvision|torchaudio|torchtext)/datasets/", re.I
)
"""In the names of functions and files of a stack that leads to data that is fetched."""

_TORN = re.compile(
    r"^(?:[\w.]{1,100}\.)?(?:BadZip[Ff]ile|BadGzipFile|ReadError|EOFError|LZMAError|FileExistsError)\b"
    r"|^zlib\.error: |^OSError: \[Errno 39\] Directory not empty|^OSError: CRC check failed"
    r"|^RuntimeError: (?:Dataset|File|The downloaded file)\b.{0,200} corrupted"
)
"""What is raised by an archive, a folder or a set of files that somebody else is writing."""

_MAY_BE_MISSING = "Dataset not found or corrupted"
"""What torchvision says of no data as well, so that it tells nothing unless two ranks were seen at it."""


class Downloads:
    """Who downloads or unpacks what, in one pass over the lines of all streams."""

    def __init__(self) -> None:
        self._begun: dict[tuple[str, str, str], int | None] = {}
        self._shared: set[str] = set()

    def read(self, line: Line, host: str) -> None:
        """Take a line into account; `host` is that of its stream."""
        begun = _BEGUN.match(line.text)
        if begun is None:
            return
        host = line.host or host
        key = host, begun[0].partition(" ")[0], begun["path"]
        if key not in self._begun and len(self._begun) < _MOST_BEGUN:
            self._begun[key] = line.rank
        elif key in self._begun and (line.rank is None or self._begun[key] != line.rank):
            self._shared.add(host)

    @finds(Stage.LOG, data.EVERY_RANK_DOWNLOADS)
    def sign_of_torn(
        self, traceback: Traceback, candidate: Candidate, line: Line, world_size: int
    ) -> Sighting | None:
        """That an exception is of data which another rank was writing; None where it need not be.

        `world_size` is the largest that was told so far, 0 where none was.
        """
        said = traceback.exception
        if not _TORN.match(said) or not _is_of_download(traceback):
            return None
        seen = (line.host or candidate.host) in self._shared
        several = world_size > 1 or bool(line.rank) or bool(line.local_rank)
        if not seen and (not several or _MAY_BE_MISSING in said):
            return None
        what = f"{said.rstrip('.')}: another rank was writing the same files"
        mode, role = data.EVERY_RANK_DOWNLOADS, LineRole.INITIATOR
        return with_traceback(unworded(mode, role, what, candidate, line, vague=True), traceback)


def _is_of_download(traceback: Traceback) -> bool:
    return any(
        _OF_DOWNLOADS.search(frame.function) or _OF_DOWNLOADS.search(frame.file) for frame in traceback.frames
    )
