"""What processes print: passed on as it comes, masked, its end remembered, and kept on a disk within bounds.

Of what is kept all that is usual is there, and of a flood the beginning and the end.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from string import Template
from typing import IO, NamedTuple

from slipway.errors import say
from slipway.job_secrets import NOTHING_MASKED, Masking
from slipway.ranks.printing import STREAMS, pipe_of

_TAIL_BYTES = 256 * 1024


class Relay(threading.Thread):
    """Copies a pipe to a stream and a file, and keeps its end; all three without the values of secrets.

    Lines are passed on whole, so that two pipes into one log do not cut each other's; what has no end
    of line yet waits for a quarter of a second, and for a megabyte at most. Each line that is passed on
    begins with `mark`. Whatever happens to the copy, as on a full disk, the pipe is read on: the process
    would stand still otherwise.
    """

    _PATIENCE_SECONDS = 0.25
    _LONGEST_WAITING = 1024 * 1024

    def __init__(
        self,
        pipe: IO[bytes] | None,
        stream: IO[str],
        copy: KeptLog | None,
        masking: Masking = NOTHING_MASKED,
        *,
        mark: bytes = b"",
        read: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        """`read` gets the text that is passed on, before its lines are marked."""
        super().__init__(daemon=True)
        assert pipe is not None
        self._pipe = pipe
        self._stream = stream
        self._copy = copy
        self._mark, self._within_a_line = mark, False
        self._read_along = read
        self.last = time.time()
        """When something came last, in seconds since the epoch; when this began where nothing has come."""
        self._masked = masking.stream()
        self._kept = bytearray()
        self.start()

    @property
    def tail(self) -> str:
        """The end of what came, 256 KB of it at most."""
        return self._kept.decode("utf-8", "replace")

    def run(self) -> None:
        """Read the pipe to its end."""
        with contextlib.closing(self._copy) if self._copy is not None else contextlib.nullcontext():
            self._read()

    def _read(self) -> None:
        waiting = bytearray()
        while True:
            if waiting and not select.select([self._pipe], [], [], self._PATIENCE_SECONDS)[0]:
                self._pass_on(bytes(waiting))
                waiting.clear()
            chunk = os.read(self._pipe.fileno(), 65536)
            shown = self._masked.feed(chunk) if chunk else self._masked.end()
            if chunk:
                self.last = time.time()
            self._kept += shown
            del self._kept[:-_TAIL_BYTES]
            if self._copy is not None and shown:
                self._copy.write(shown)
            # In what is new alone: what waits has no end of line, and may be long.
            whole = max(shown.rfind(b"\n"), shown.rfind(b"\r")) + 1
            if not chunk or len(waiting) + len(shown) > self._LONGEST_WAITING:
                whole = len(shown)
            if whole or not chunk:
                self._pass_on(bytes(waiting) + shown[:whole])
                waiting.clear()
            waiting += shown[whole:]
            if not chunk:
                return

    def _pass_on(self, text: bytes) -> None:
        self._read_along(text)
        if self._mark and text:
            text = self._marked(text)
        # Nobody may be left to read; the process must not block on a full pipe for that.
        with contextlib.suppress(OSError, ValueError):
            self._stream.buffer.write(text)  # type: ignore[attr-defined]
            self._stream.flush()

    def _marked(self, text: bytes) -> bytes:
        marked = []
        for line in text.splitlines(keepends=True):
            marked += [line] if self._within_a_line else [self._mark, line]
            self._within_a_line = not line.endswith((b"\n", b"\r"))
        return b"".join(marked)


# What torchrun's ranks print: through pipes of their own, masked, marked, passed on and kept by the boot.
#
# torchrun's own ways do not do. Without options the ranks share its streams, and their lines mix. With
# `--tee` and `--redirects` each rank writes into files: on a full disk that raises in the rank, so that it
# ends of what it prints; nobody can mask what lies there; and the files have no bound.


RANK_FIRST_BYTES = RANK_LAST_BYTES = 8 * 1024 * 1024
"""Kept of each of a rank's streams. Less than of a host's (FIRST_BYTES): there are many ranks."""

_RANK_JOIN_SECONDS = 3.0
_PIPE_BYTES = 1024 * 1024
_SET_PIPE_SIZE = 1031
"""F_SETPIPE_SZ (fcntl(2)), for which Python has a name since 3.10."""


class RankTail(NamedTuple):
    """The end of what a rank printed on stderr, and when that came, in seconds since the epoch; the end of
    its stdout."""

    stderr: str
    time: float
    stdout: str = ""


class RankOutput:
    """The pipes of a host's ranks, read from before the first rank until `end`."""

    def __init__(
        self,
        pipes: Path,
        ranks: range,
        logs: Path,
        masking: Masking,
        template: str,
        losses: PrintedLosses | None = None,
    ) -> None:
        """Make the pipes in the folder `pipes`; `ranks` are the global ranks by their local ones.

        What they print is kept below `logs`, as `rank-3/stdout.log`. `template` is the mark of their lines,
        in torchrun's notation; `losses` reads along. Raises OSError where no pipe can be made.
        """
        self._writing: list[int] = []
        self._relays: dict[int, dict[str, Relay]] = {}
        for local_rank, rank in enumerate(ranks):
            values = {"role_name": "default", "rank": rank, "local_rank": local_rank}
            mark = Template(template).safe_substitute(values).encode("utf-8", "surrogateescape")
            self._relays[local_rank] = {}
            for name in STREAMS:
                reading, writing = _open_pipe(pipe_of(pipes, local_rank, name))
                self._writing.append(writing)
                self._relays[local_rank][name] = Relay(
                    os.fdopen(reading, "rb", buffering=0),
                    sys.stdout if name == "stdout" else sys.stderr,
                    KeptLog(
                        logs / f"rank-{rank}" / f"{name}.log",
                        first=RANK_FIRST_BYTES,
                        last=RANK_LAST_BYTES,
                        tell=say,
                    ),
                    masking,
                    mark=mark,
                    read=partial(losses.read, rank) if losses is not None else lambda _: None,
                )

    def end(self) -> Mapping[int, RankTail]:
        """Pass on the rest, when no rank runs any more: what each of them printed, by its local rank."""
        for writing in self._writing:
            os.close(writing)
        for relays in self._relays.values():
            for relay in relays.values():
                relay.join(_RANK_JOIN_SECONDS)
        return {
            local_rank: RankTail(relays["stderr"].tail, relays["stderr"].last, relays["stdout"].tail)
            for local_rank, relays in self._relays.items()
        }


def _open_pipe(file: Path) -> tuple[int, int]:
    """Both ends of a new pipe. As long as this process holds the end to write to, it is not at its end."""
    os.mkfifo(str(file), 0o600)
    reading = os.open(str(file), os.O_RDONLY | os.O_NONBLOCK)
    writing = os.open(str(file), os.O_WRONLY)
    os.set_blocking(reading, True)
    with contextlib.suppress(OSError):
        # A rank should not have to wait for whoever reads the container's own output.
        fcntl.fcntl(reading, _SET_PIPE_SIZE, _PIPE_BYTES)
    return reading, writing


# The losses in what ranks print: whether they are finite, while the job runs and when it fails.


NOT_FINITE = "NUM001"

_LOSS = re.compile(
    rb"loss(?:es)?\b['\"]?[^\w\n]{0,12}(?:(?:is|value|tensor|array|np\.float\d\d)[ (]{1,3})?"
    rb"(?P<value>[-+]?(?:nan|inf(?:inity)?|\d[\d_,]*(?:\.\d*)?(?:e[-+]?\d+)?))(?![\w/])",
    re.IGNORECASE,
)
_SMALLEST_SO_FAR = re.compile(rb"best|min|lowest|prev|initial|patience|early|improv", re.IGNORECASE)
"""Of losses that begin as infinite: what a smallest one is looked for with."""

_NAME = re.compile(rb"[A-Za-z_/.]*[ _]?$")
_NAME_BYTES, _LINE_BYTES, _MOST_NAMES = 24, 200, 64


class PrintedLosses:
    """Reads the losses that ranks print, each by its name; says once where one is not finite twice in a row.

    One that is not finite may be of an empty evaluation, or a batch that was skipped; from the second on the
    weights are lost as a rule.
    """

    def __init__(self, host: str, tell: Callable[[str], None] = say) -> None:
        self._host, self._tell = host, tell
        self._lines: dict[tuple[int, bytes], list[str]] = {}
        self._told = False

    def read(self, rank: int, text: bytes) -> None:
        """Take a piece of a rank's output into account, which holds whole lines."""
        if b"loss" not in text and b"Loss" not in text and b"LOSS" not in text:
            return
        for match in _LOSS.finditer(text):
            begins = max(text.rfind(b"\n", 0, match.start()), text.rfind(b"\r", 0, match.start())) + 1
            before = text[max(begins, match.start() - _NAME_BYTES) : match.start()]
            name = _NAME.findall(before)[0]
            # A number may end with what stands behind it: `loss=1, step=2`.
            finite = match["value"].lstrip(b"+-")[:1].isdigit()
            infinite = not finite and b"nan" not in match["value"].lower()
            if infinite and _SMALLEST_SO_FAR.search(text, begins, match.start()):
                continue
            if finite:
                self._lines.pop((rank, name), None)
            elif len(self._lines) < _MOST_NAMES:
                line = re.split(rb"[\r\n]", text[begins : begins + _LINE_BYTES])[0]
                lines = self._lines.setdefault((rank, name), [])
                lines[1:] = [line.decode("utf-8", "replace").strip()]
                if len(lines) > 1:
                    self._tell_of(rank, lines[1])

    def lost(self) -> dict[int, str]:
        """The ranks whose last loss was not finite, with the line that they printed."""
        return {rank: lines[-1] for (rank, _), lines in reversed(list(self._lines.items()))}

    def _tell_of(self, rank: int, line: str) -> None:
        if not self._told:
            self._told = True
            self._tell(
                f"warning: {NOT_FINITE} rank {rank} on {self._host} prints a loss that is not finite, twice "
                f"in a row: {line}"
            )


# Output that is kept on a disk.
#
# The stream begins in a file and goes on in parts beside it, each named for the offset at which it begins,
# such as `log-000000067108864`. Of the parts the oldest are deleted. What was kept stays readable whenever
# the process ends, by any program, and no offset ever changes, so that others can read along.


FIRST_BYTES = 64 * 1024 * 1024
"""The beginning: half a million lines, in which a job says how it was set up and what went wrong first."""

LAST_BYTES = 64 * 1024 * 1024
"""The end, at least: as many lines, in which it says what it died of."""

PARTS = 8
"""So many parts make up the end; up to one more is there until the oldest is deleted."""

_JOIN_SECONDS = 3.0


class KeptLog:
    """The writer of such a file; what is there already stays, and counts as its beginning.

    Whatever happens to the file, as on a full disk, `write` does not fail: what could not be written is
    counted, and said in the file as soon as there is room. `tell` hears once when something is lost or left
    out.
    """

    def __init__(
        self,
        file: Path,
        *,
        first: int = FIRST_BYTES,
        last: int = LAST_BYTES,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._file = file
        self._first, self._last = first, last
        self._tell = tell
        self._told = False
        self._parts: list[tuple[Path, int]] = []
        self._opened: IO[bytes] | None = None
        self._offset = self._start = 0
        self._full = False
        self._lost = 0

    def write(self, chunk: bytes) -> None:
        """Write a piece of the stream."""
        try:
            self._open()
            if self._lost and chunk:
                self._put(f"\nslipway: {self._lost} bytes of the output are missing here\n".encode())
                self._lost = 0
            while chunk:
                chunk = chunk[self._put(chunk) :]
        except OSError as error:
            self._lost += len(chunk)
            self._say(f"of the output not all can be kept in {self._file}: {error.strerror}")

    @property
    def size(self) -> int:
        """How much of the stream has been written so far, in bytes."""
        return self._offset

    def close(self) -> None:
        """Close the file."""
        if self._opened is not None:
            self._opened.close()

    def _open(self) -> None:
        if self._opened is None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._opened = self._file.open("ab", buffering=0)
            self._offset = self._opened.tell()

    def _put(self, chunk: bytes) -> int:
        """Write as much as fits into the file, up to the end of a line where there is one."""
        if self._full:
            self._next_part()
        assert self._opened is not None
        part = self._last // PARTS
        room = self._start + (part if self._parts else self._first) - self._offset
        piece = chunk
        full = len(chunk) > room
        if full:
            end = chunk.rfind(b"\n", 0, max(0, room)) + 1 or chunk.find(b"\n", max(0, room)) + 1
            # A line without an end may have the length of another part, and is cut then.
            full = bool(end) or len(chunk) > room + part
            piece = chunk[:end] if end else chunk[: max(0, room + part)]
        written = self._opened.write(piece)
        self._offset += written
        self._full = full and written == len(piece)
        return written

    def _next_part(self) -> None:
        file = self._file.with_name(f"{self._file.name}-{self._offset:015d}")
        opened = file.open("ab", buffering=0)
        self.close()
        self._opened, self._start, self._full = opened, self._offset, False
        self._parts.append((file, self._offset))
        # The oldest goes as soon as those that are complete after it are long enough.
        while len(self._parts) > 2 and self._offset - self._parts[1][1] >= self._last:
            oldest, _ = self._parts.pop(0)
            with contextlib.suppress(OSError):
                oldest.unlink()
            self._say(
                f"this is much output: {self._file} keeps the first {self._first >> 20} MB, and the files "
                f"beside it the last {self._last >> 20} MB"
            )

    def _say(self, text: str) -> None:
        if not self._told:
            self._told = True
            self._tell(text)


@contextlib.contextmanager
def keep_all_output(file: Path) -> Iterator[None]:
    """Keep all that this process and those that it starts print, both streams, in a file and its parts."""
    log, times = KeptLog(file), LogTimes(file.with_name(f"{file.name}.times"))
    reading, writing = os.pipe()
    for stream in (1, 2):
        os.dup2(writing, stream)
    os.close(writing)
    pump = threading.Thread(target=_pump, args=(reading, log, times), daemon=True)
    pump.start()
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Whoever still holds the pipe keeps the thread reading; this process has no end of it any more.
        rest = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(rest, stream)
        os.close(rest)
        pump.join(_JOIN_SECONDS)


def _pump(reading: int, log: KeptLog, times: LogTimes) -> None:
    while True:
        chunk = os.read(reading, 65536)
        if not chunk:
            log.close()
            return
        log.write(chunk)
        times.grown(log.size)


# When kept output came, noted beside it: whoever reads several hosts' puts their lines in one order by that.


class LogTimes:
    """Notes which size a log had when, a line each, so that no line's time is off by more than GRAIN_SECONDS.

    What came last of all is not noted: its time is that of the file itself. A disk that takes nothing costs
    the notes, and nothing else.
    """

    FORMAT = 1
    GRAIN_SECONDS = 0.1

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seen: tuple[int, float] | None = None
        self._noted = 0.0

    def grown(self, size: int) -> None:
        """The log has this size now."""
        now = time.time()
        if self._seen is not None and now - self._noted >= self.GRAIN_SECONDS:
            self._note(*self._seen)
            self._noted = now
        self._seen = (size, now)

    def _note(self, size: int, when: float) -> None:
        with contextlib.suppress(OSError), self._file.open("a", encoding="ascii") as notes:
            header = "" if notes.tell() else f"format {self.FORMAT}\n"
            notes.write(f"{header}{size} {when:.3f}\n")
