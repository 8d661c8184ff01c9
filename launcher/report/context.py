"""The lines around those that look like trouble, so that the one that counts is shown with its context."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from launcher.diagnosis.record import parse
from launcher.diagnosis.redaction import shown

BEFORE, AFTER = 8, 5
"""Lines of the same host that are shown around the one that counts."""

_KEPT = 24
"""Places that are kept of the beginning of each host's trouble, and as many of its end."""

_LONGEST = 2_000
"""Characters of a line that are kept; the page shows fewer."""

_COMPARED = 40

_TROUBLE = re.compile(
    r"error|exception|traceback|fatal|fail|abort|kill|signal|sig[a-z]{3,4}\b|timeout|timed out|warn|"
    r"out of memory|slipway: |refused|denied|no space|xid|exit",
    re.I,
)


@dataclass(frozen=True, slots=True)
class ContextLine:
    """A line of the log: who printed it, the number it has among all lines, its time in seconds where it has
    one. `is_cause` marks the one that shows the root cause."""

    text: str
    host: str
    rank: int | None
    order: int
    time: float | None
    is_cause: bool = False


@dataclass(slots=True)
class _TroubleSpot:
    """The lines around one that looks like trouble."""

    lines: list[ContextLine]
    missing: int = AFTER


@dataclass(slots=True)
class _HostLines:
    last: deque[ContextLine] = field(default_factory=lambda: deque(maxlen=BEFORE + AFTER + 1))
    early: list[_TroubleSpot] = field(default_factory=list)
    late: deque[_TroubleSpot] = field(default_factory=lambda: deque(maxlen=_KEPT))
    open: _TroubleSpot | None = None


class NearbyLines:
    """What is kept of the lines; it does not grow with their number."""

    def __init__(self) -> None:
        self._hosts: dict[str, _HostLines] = {}

    def add(self, line: ContextLine) -> None:
        """The next line."""
        line = replace(line, text=line.text[:_LONGEST])
        host = self._hosts.setdefault(line.host, _HostLines())
        host.last.append(line)
        if host.open is not None:
            host.open.lines.append(line)
            host.open.missing -= 1
            if host.open.missing <= 0:
                host.open = None
        elif _TROUBLE.search(line.text):
            host.open = _TroubleSpot(list(host.last)[-BEFORE - 1 :])
            (host.early if len(host.early) < _KEPT else host.late).append(host.open)

    def around(self, log_line: str, host: str | None, rank: int | None) -> tuple[ContextLine, ...]:
        """The lines around one that a diagnosis shows, printable and without secrets; none where it is not
        among those that were kept. A line of that rank and host goes before the same one of others."""
        best: tuple[tuple[bool, bool, int], list[ContextLine], ContextLine] | None = None
        for lines, line in self._candidates(log_line):
            if shown(parse(line.text).text) != log_line:
                continue
            key = (line.rank != rank, line.host != host, line.order)
            if best is None or key < best[0]:
                best = key, lines, line
        if best is None:
            return ()
        _, lines, cause = best
        at = lines.index(cause)
        return tuple(
            _printable(line, is_cause=line is cause) for line in lines[max(0, at - BEFORE) : at + AFTER + 1]
        )

    def last_lines(self, host: str | None) -> tuple[ContextLine, ...]:
        """The last lines of a host, or of the one that printed last where that one is not known."""
        if host not in self._hosts:
            known = {name: each.last[-1].order for name, each in self._hosts.items() if each.last}
            host = max(known, key=lambda name: known[name], default=None)
        return () if host is None else tuple(_printable(line) for line in self._hosts[host].last)

    def _candidates(self, log_line: str) -> Iterator[tuple[list[ContextLine], ContextLine]]:
        beginning = log_line.strip()[:_COMPARED].split("  ")[0].split("[hidden]")[0].rstrip("…")
        for host in self._hosts.values():
            places = [place.lines for place in (*host.early, *host.late)]
            for lines in (*places, list(host.last)):
                for line in lines:
                    if beginning in line.text:
                        yield lines, line


def _printable(line: ContextLine, *, is_cause: bool = False) -> ContextLine:
    return replace(line, text=shown(line.text), is_cause=is_cause)
