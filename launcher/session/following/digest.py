"""What is shown of a followed job with many ranks: rank 0, and whatever goes wrong on any other.

Sixty-four ranks print sixty-four times the same. What torchrun prints when a rank has failed, forty lines on
each host, says less than the diagnosis that follows it, and is folded away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from launcher.backends.interface import LogLine
from launcher.cluster.sagemaker_names import host_name
from launcher.diagnosis.record import parse
from launcher.diagnosis.tracebacks import Traceback, opened
from launcher.session.following.log_filter import rank_of
from launcher.text.line_length import LONGEST_LINE

_ERRORS = (
    "ERROR",
    "FATAL",
    "CRITICAL",
    "Error:",
    "Exception:",
    " error:",
    "NCCL WARN",
    "Segmentation fault",
    "out of memory",
    "terminate called",
    "what():",
)
_WARNINGS = ("WARN", "Warning:", "warning:")
_OF_SLIPWAY = "slipway: "
_TORCHRUNS = ("failed (exitcode: ", " closing signal SIG", " death signal, ")
_TORCHRUNS_EXCEPTIONS = ("ChildFailedError", "SignalException")
_EDGE = "=" * 20
_MOST_FOLDED = 400
"""Lines of torchrun's table; more cannot be one."""


@dataclass(slots=True)
class _Writer:
    """The process whose lines these are: the traceback that it is printing, and what is held back of it."""

    traceback: Traceback | None = None
    held: list[LogLine] = field(default_factory=list)
    edges: int = 0
    folding: int = 0


class Digest:
    """Chooses the lines of rank 0 and of the first host, warnings of the other hosts, errors of every rank.

    Of a traceback that another rank has printed, only the exception is shown, which may tell more.

    `processes_per_host` is None where it is not known; `world_size` 1 hides nobody. `tell` is called once,
    when the first line of another rank is left out.
    """

    def __init__(
        self, processes_per_host: int | None, world_size: int | None, tell: Callable[[], None] = lambda: None
    ) -> None:
        self._processes_per_host = processes_per_host
        self._hides = world_size != 1
        self._tell = tell
        self._told = False
        self._writers: dict[tuple[str, int | str | None], _Writer] = {}
        self._shown: set[tuple[str, ...]] = set()

    def keep(self, lines: Sequence[LogLine]) -> list[LogLine]:
        """The chosen lines, in their order; those of a traceback may come with a later call."""
        kept: list[LogLine] = []
        for line in lines:
            kept += self._keep(line)
        return kept

    def rest(self) -> list[LogLine]:
        """What is held back still, as the job ended in the middle of it."""
        rest = [line for writer in self._writers.values() for line in writer.held]
        self._writers.clear()
        return rest

    def _keep(self, line: LogLine) -> list[LogLine]:
        rank = rank_of(line, self._processes_per_host)
        parsed = parse(line.text[:LONGEST_LINE])
        # torchrun's own lines have no mark, also where one process on each host tells their rank.
        unmarked = parsed.rank is None and parsed.writer is None
        writer = self._writers.setdefault((line.host, parsed.writer), _Writer())
        if unmarked and self._is_folded(writer, parsed.text):
            return []
        if writer.traceback is None:
            writer.traceback = opened(parsed.text)
            if writer.traceback is None:
                return [line] if self._is_chosen(line, rank, parsed.text) else self._hide()
        else:
            writer.traceback.add(parsed.text)
        if unmarked:
            # Whose it is tells its last line alone.
            writer.held.append(line)
            return self._released(writer)
        writer.held.append(line)
        if self._is_shown_at_once(rank):
            released, writer.held = writer.held, []
        else:
            released = self._first_of_its_kind(writer)
        if writer.traceback.is_complete:
            self._shown.add(_kind_of(writer.traceback))
            writer.traceback = None
        return released

    def _is_shown_at_once(self, rank: int | None) -> bool:
        return rank == 0 or not self._hides

    def _first_of_its_kind(self, writer: _Writer) -> list[LogLine]:
        """A traceback of another rank once it is complete; of one that is known already, its last line."""
        if writer.traceback is None or not writer.traceback.is_complete:
            return []
        held, writer.held = writer.held, []
        return held[-1:] if _kind_of(writer.traceback) in self._shown else held

    def _released(self, writer: _Writer) -> list[LogLine]:
        traceback = writer.traceback
        if traceback is None or not traceback.is_complete:
            return []
        held, writer.held, writer.traceback = writer.held, [], None
        if not traceback.kind.endswith(_TORCHRUNS_EXCEPTIONS):
            return held
        writer.edges, writer.folding = 0, _MOST_FOLDED
        return []

    def _is_folded(self, writer: _Writer, text: str) -> bool:
        """Whether the line is torchrun's report of a failure: between two edges after its exception."""
        if writer.folding:
            writer.folding -= 1
            edge = text.startswith(_EDGE)
            if edge or writer.edges:
                writer.edges += edge
                writer.folding = 0 if writer.edges == 2 else writer.folding
                return True
            writer.folding = 0
        return any(words in text for words in _TORCHRUNS)

    def _is_chosen(self, line: LogLine, rank: int | None, text: str) -> bool:
        if self._is_shown_at_once(rank) or text.startswith(_OF_SLIPWAY):
            return True
        if rank is None and line.host == host_name(1):
            return True
        words = _ERRORS if rank is not None else (*_ERRORS, *_WARNINGS)
        return any(word in text for word in words) or text.rstrip().endswith(("Error", "Exception"))

    def _hide(self) -> list[LogLine]:
        if not self._told:
            self._told = True
            self._tell()
        return []


def _kind_of(traceback: Traceback) -> tuple[str, ...]:
    """What is alike in the tracebacks of ranks that fail of one cause, on whichever host."""
    return (traceback.kind, *(frame.place for frame in traceback.frames))
