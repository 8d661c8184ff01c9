"""One page of a log stream, held compactly until its lines' turn comes."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate, repeat
from typing import Any

from launcher.backends.interface import LogLine

_PAGE_BYTES = 1_000_000
_EVENT_BYTES = 26
"""The service cuts a page at 1 MB (CloudWatch Logs API reference, GetLogEvents), counting the text in UTF-8
and 26 bytes more for each event (PutLogEvents)."""

_line = partial(tuple.__new__, LogLine)
"""A line from its three values; LogLine's own constructors take twice as long."""


class LogPage:
    """The lines of one answer of GetLogEvents that have not been handed on.

    640,000 lines wait at once where 64 hosts of a long job are read from the start, so the page keeps the
    texts alone and one array of times, and makes the lines when they are taken. `token` asks for this page,
    `next_token` for the one after it; `taken` counts the lines that are gone. `limit` is how many lines
    were asked for.
    """

    __slots__ = ("_limit", "_texts", "_times", "has_more_behind", "host", "next_token", "taken", "token")

    def __init__(
        self,
        host: str,
        token: str | None,
        next_token: str,
        events: Sequence[Mapping[str, Any]],
        limit: int,
    ) -> None:
        self.host = host
        self._limit = limit
        self.token = token
        self.next_token = next_token
        self.taken = 0
        self._texts: list[str] = [event["message"] for event in events]
        self._times: array[int] = _in_order([event["timestamp"] for event in events])
        self.has_more_behind = self._is_full()
        """Whether it was cut because it was full, by lines or by bytes, and so is not the last."""

    def __len__(self) -> int:
        return len(self._times)

    @property
    def is_empty(self) -> bool:
        """Whether all lines have been taken."""
        return self.taken >= len(self._times)

    @property
    def is_last(self) -> bool:
        """Whether its stream has nothing behind it for now.

        An empty page may stand in the middle of a stream; the token that comes back tells the end.
        """
        if not self._times:
            return self.next_token == self.token
        return not self.has_more_behind

    def horizon(self, lines: int) -> int | None:
        """How far the other streams may go, in milliseconds, for so many lines of this page; None: any.

        What is on the next page is not earlier than the last line of this one.
        """
        last = len(self._times) - 1
        if self.taken + lines <= last:
            return self._times[self.taken + lines]
        return self._times[last] if self.has_more_behind else None

    def take_until(self, horizon: int | None) -> list[LogLine]:
        """Take the lines up to this time, the ones of that very millisecond too; None: all."""
        first = self.taken
        last = len(self._times) if horizon is None else bisect_right(self._times, horizon)
        if last <= first:
            return []
        self.taken = last
        times = [time / 1000 for time in self._times[first:last]]
        lines = list(map(_line, zip(times, repeat(self.host), self._texts[first:last])))
        if self.is_empty:
            self._texts = []  # The page itself is kept until the next one comes.
        return lines

    def _is_full(self) -> bool:
        if 2 * len(self._texts) >= self._limit:
            return True
        # JSON can hold half of a surrogate pair, which UTF-8 cannot.
        text = len("".join(self._texts).encode("utf-8", "surrogatepass"))
        return 2 * (text + _EVENT_BYTES * len(self._texts)) >= _PAGE_BYTES


def _in_order(times: list[int]) -> array[int]:
    """The service sorts a stream by time. Should it ever not, the order in the stream goes before."""
    return array("q", times if times == sorted(times) else accumulate(times, max))
