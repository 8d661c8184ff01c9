"""The log streams of a training job: one per host, read at the same time and merged by time.

Facts: GetLogEvents answers up to 10,000 events or 1 MB, may answer an empty page before the end, and
marks the end by giving the token back that it was given (CloudWatch Logs API reference, GetLogEvents). It
allows some 10 to 25 calls a second to an account, DescribeLogStreams five (CloudWatch Logs quotas), so
pages are as large as memory allows, and streams are looked up only while some are missing.
"""

from __future__ import annotations

import json
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from itertools import accumulate, repeat
from operator import attrgetter
from typing import Any

from launcher.aws.bounded_calls import DaemonPool
from launcher.aws.clients import FOLLOWING
from launcher.aws.errors import answers
from launcher.backends.interface import Cursor, JobStatus, LogBatch, LogLine
from launcher.cluster.names import TRAINING_LOGS
from launcher.frozen import frozen

_PAGE_LINES = 10_000
_HELD_LINES = 320_000
"""Lines of all pages together, and as many of those that are fetched ahead: twice 70 MB where lines have
150 characters."""

_BATCH_LINES = 20_000
_LOOK_AGAIN_SECONDS = 60.0
"""How often streams are looked up when all are known: a host that was replaced gets a new one."""

_LOOK_FOR_MISSING_SECONDS = 4.0


class LogStreams:
    """Reads the logs of one job.

    A cursor says per stream which page the next line is on and how many of its lines were taken, so
    reading goes on from any cursor; where it is the one that the last batch gave, the pages at hand are
    used. After an exception the same cursor reads on, without loss and without a line twice.
    """

    def __init__(
        self,
        logs: Any,
        job_name: str,
        *,
        pool: Executor | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logs = logs
        take_events_as_they_come(logs)
        self._job_name = job_name
        self._pool = pool or DaemonPool(FOLLOWING.connections)
        self._clock = clock
        self._phase: str | None = None
        self._hosts: int | None = None
        self._streams: list[str] = []
        self._looked_at: float | None = None
        self._pages: dict[str, LogPage] = {}
        self._ahead: dict[tuple[str, str | None], Future[LogPage]] = {}
        """The next page of each stream that has one, by the token that asks for it."""
        self._done: set[str] = set()
        """Streams that were read to their present end, until all are: none is asked again before."""

    def use(self, logs: Any) -> None:
        """Go on with another client."""
        self._logs = logs
        take_events_as_they_come(logs)
        self._ahead = {}

    def note_status(self, status: JobStatus) -> None:
        """Take up how the job is: when its phase has changed, or nothing more can, new streams are looked
        for at once."""
        if status.phase != self._phase or status.state.is_final:
            self._looked_at = None
        self._phase, self._hosts = status.phase, status.hosts

    def read(self, cursor: Cursor) -> LogBatch:
        """The next lines of all streams in the order of time, at most some 20,000 at once.

        An empty batch means that all streams were read to their present ends. Raises Outage or
        CredentialsExpired where reading can go on later, AwsRefusal where it cannot.
        """
        self._look_up()
        self._open_pages_at(cursor)
        while not (lines := self._read_on()) and (unsure := self._possibly_cut_short()):
            self._done -= unsure
        more = any(not page.is_empty for page in self._pages.values()) or len(self._done) < len(self._pages)
        if not more:
            self._done = set()
        return LogBatch(lines, {s: _position(page) for s, page in self._pages.items()}, more=more)

    def _look_up(self) -> None:
        """Find the streams, unless all are known and were looked up lately."""
        all_known = self._hosts is not None and len({_host(s) for s in self._streams}) >= self._hosts
        patience = _LOOK_AGAIN_SECONDS if all_known else _LOOK_FOR_MISSING_SECONDS
        if self._looked_at is not None and self._clock() - self._looked_at < patience:
            return
        self._streams = sorted({*self._streams, *_streams(self._logs, self._job_name)})
        self._looked_at = self._clock()

    def _open_pages_at(self, cursor: Cursor) -> None:
        """Have the pages at hand that the cursor is on, and no others."""
        at_hand = {s: page for s, page in self._pages.items() if cursor.get(s, _START) == _position(page)}
        elsewhere = {s: _StreamPosition.parse(text) for s, text in cursor.items() if s not in at_hand}
        self._pages = at_hand
        self._done &= at_hand.keys()
        if elsewhere:
            self._done, self._ahead = set(), {}
        self._streams = sorted({*self._streams, *cursor})
        while elsewhere:
            pages = self._in_parallel({stream: place.token for stream, place in elsewhere.items()})
            for stream, page in pages.items():
                page.taken = min(elsewhere[stream].taken, len(page))
            # The same page may be shorter now: the next one then has the rest of what was taken.
            elsewhere = {
                stream: _StreamPosition(elsewhere[stream].taken - page.taken, page.next_token)
                for stream, page in pages.items()
                if page.taken < elsewhere[stream].taken and page.next_token != page.token
            }

    def _read_on(self) -> list[LogLine]:
        """The next lines, of pages fetched where they are needed."""
        while missing := [s for s in self._streams if s not in self._done and self._is_used_up(s)]:
            self._done |= self._fetch(missing)
        return self._take_settled_lines()

    def _possibly_cut_short(self) -> set[str]:
        """Streams that only seem to have ended, as their last page was not full: the service may cut a
        page anywhere."""
        return {stream for stream in self._done if len(self._pages[stream])}

    def _is_used_up(self, stream: str) -> bool:
        page = self._pages.get(stream)
        return page is None or page.is_empty

    def _fetch(self, streams: Iterable[str]) -> set[str]:
        """Fetch the next page of each stream; return the streams that are at their present end.

        The pages that came are kept also where one did not: the next read asks only for that one.
        """
        known = self._pages
        pages = self._in_parallel({s: known[s].next_token if s in known else None for s in streams})
        return {s for s, page in pages.items() if page.is_last}

    def _in_parallel(self, tokens: Mapping[str, str | None]) -> dict[str, LogPage]:
        """A page of each stream, at hand from then on; raises after all have come or failed.

        The page after each is fetched meanwhile, where there is one.
        """
        futures = {
            stream: self._ahead.pop((stream, token))
            if (stream, token) in self._ahead
            else self._pool.submit(self._page, stream, token)
            for stream, token in tokens.items()
        }
        pages, faults = {}, []
        try:
            for stream, future in futures.items():
                fault = future.exception()
                if fault is not None:
                    faults.append(fault)
                    continue
                pages[stream] = page = self._pages[stream] = future.result()
                if page.has_more_behind:
                    after = page.next_token
                    self._ahead[stream, after] = self._pool.submit(self._page, stream, after)
        finally:
            for future in futures.values():
                future.cancel()
        if faults:
            raise faults[0]
        return pages

    def _page(self, stream: str, token: str | None) -> LogPage:
        host = _host(stream)
        limit = max(1, min(_PAGE_LINES, _HELD_LINES // max(1, len(self._streams))))
        with answers(f"read the logs of {host}"):
            answer = self._logs.get_log_events(
                logGroupName=TRAINING_LOGS,
                logStreamName=stream,
                startFromHead=True,
                limit=limit,
                **({"nextToken": token} if token else {}),
            )
            return LogPage(host, token, answer["nextForwardToken"], answer["events"], limit)

    def _take_settled_lines(self) -> list[LogLine]:
        """The lines that no stream can still have an earlier one than, oldest first.

        The page that ends first is how far all can be merged, unless it was its stream's last for now.
        """
        pages = [page for page in self._pages.values() if not page.is_empty]
        share = _BATCH_LINES // max(1, len(pages)) + 1
        horizons = [time for page in pages if (time := page.horizon(share)) is not None]
        horizon = min(horizons, default=None)
        lines: list[LogLine] = []
        for page in pages:
            lines += page.take_until(horizon)
        lines.sort(key=attrgetter("time"))
        return lines


@frozen
class _StreamPosition:
    """A place in a stream: so many lines after the beginning of the page that the token asks for."""

    taken: int
    token: str | None

    @classmethod
    def parse(cls, text: str) -> _StreamPosition:
        taken, _, token = text.partition(":")
        return cls(int(taken), token or None)

    def __str__(self) -> str:
        return f"{self.taken}:{self.token or ''}"


_START = str(_StreamPosition(0, None))


def _position(page: LogPage) -> str:
    """Where a page is, as a cursor has it; the end of a page is the beginning of the next."""
    return str(
        _StreamPosition(0, page.next_token) if page.is_empty else _StreamPosition(page.taken, page.token)
    )


def _streams(logs: Any, job_name: str) -> list[str]:
    with answers("list the job's log streams"):
        try:
            pages = logs.get_paginator("describe_log_streams").paginate(
                logGroupName=TRAINING_LOGS, logStreamNamePrefix=f"{job_name}/"
            )
            named = [stream["logStreamName"] for page in pages for stream in page["logStreams"]]
        except logs.exceptions.ResourceNotFoundException:
            return []  # The group is made with the account's first training job.
    # With remote debugging each host has another one, HOST/ssm, in which the agent of Systems Manager tells
    # its own errors (SageMaker developer guide, train-remote-debugging): not what the job printed.
    return [name for name in named if name.count("/") == 1]


def _host(stream: str) -> str:
    """`algo-1` of `my-job/algo-1-1690000000`."""
    return stream.split("/")[1].rsplit("-", 1)[0]


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


_EVENT = "before-parse.cloudwatch-logs.GetLogEvents"


def take_events_as_they_come(logs: Any) -> None:
    """Let this client leave the events as they stand in the JSON: the same values, sooner.

    `logs` is boto3's client. Where its botocore knows no such event, or the service speaks another protocol
    than JSON, all goes on as usual.
    """
    logs.meta.events.register(_EVENT, _take_events, unique_id="slipway-log-events")


def _take_events(
    response_dict: MutableMapping[str, Any], customized_response_dict: MutableMapping[str, Any], **_: Any
) -> None:
    """botocore parses what is left in the body, and adds the second mapping to what it has parsed."""
    try:
        answer = json.loads(response_dict["body"])
    except ValueError:
        return  # botocore has its own answer to that.
    # Events of another form are left to the reader that says what is odd about them.
    if isinstance(answer, dict) and _are_events(answer.get("events")):
        customized_response_dict["events"] = answer.pop("events")
        response_dict["body"] = json.dumps(answer).encode()


def _are_events(events: Any) -> bool:
    return isinstance(events, list) and all(
        isinstance(event, dict)
        and isinstance(event.get("timestamp"), int)
        and isinstance(event.get("message"), str)
        for event in events
    )
