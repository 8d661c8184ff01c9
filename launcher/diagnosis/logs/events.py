"""Messages that log services, log drivers and structured loggers wrote as objects or rows, in the order of
their times.

JSON and CSV of CloudWatch Logs and its Insights, text of the AWS CLI, lines of Docker's json-file driver
and of structured loggers: each becomes an `Event`, when, from which stream, in which words.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain, islice, pairwise
from typing import Any, Final

from launcher.diagnosis.logs.decode import Unreadable
from launcher.diagnosis.logs.lines import LogRecord, Record, characters_of, lines_of
from launcher.diagnosis.logs.tracebacks import HEADER
from launcher.frozen import frozen
from launcher.text.log_lines import origin_of

LARGEST_EVENT: Final = 4 << 20
"""Characters of one event: CloudWatch takes messages of 1 MB (PutLogEvents), which escapes make longer."""

_MOST_LINES = 10_000
"""Lines of one message that are kept."""


@frozen
class Event:
    """One message, of one line or several: `time` in seconds since the epoch, None where nothing tells it;
    `stream` is the name of the log stream that it stood in, empty where nothing tells that."""

    time: float | None
    stream: str
    text: str


_MESSAGES = ("message", "@message", "msg", "log", "event", "text")
"""What the line is called by CloudWatch Logs (GetLogEvents, Insights), Docker's json-file driver, and the
usual structured loggers (python-json-logger, structlog, loguru with `serialize`, zap, ECS)."""
_TIMES = ("timestamp", "@timestamp", "time", "ts", "asctime", "ingestionTime")
_STREAMS = ("logStreamName", "@logStream", "logStream")
_RANKS = ("rank", "global_rank", "RANK")
_LOCAL_RANKS = ("local_rank", "LOCAL_RANK")
_STACKS = (
    *("exc_info", "exception", "traceback", "stack_trace", "exc_text", "error.stack_trace", "stack_info"),
    *("exc", "error", "err", "stacktrace"),
)
_NAME_OF_EVENT = re.compile(r"[\w.-]{1,60}")
_COUNTED = re.compile(r"step|iter|batch|epoch|loss|world_size", re.I)
"""Numbers beside the name of an event: what happened at which step is in them."""


def event_of(record: Mapping[str, Any], time: float | None = None, stream: str = "") -> Event | None:
    """The message that a service or a logger wrote as an object; None for an object that is none.

    A logger's own object inside a message is taken apart in the same way. The rank that it names is put
    before each line as torch does, a traceback beside the message follows it.
    """
    message = _first(record, _MESSAGES, str)
    if message is None:
        return None
    told = seconds(_first(record, _TIMES, (str, int, float)))
    time = told if told is not None else time
    stream = _first(record, _STREAMS, str) or stream
    if inner := object_in(message):
        event = event_of(inner, time, stream)
        if event is not None:
            return event
    mark = _mark(record)
    if _NAME_OF_EVENT.fullmatch(message):
        numbers = [f"{name}={value}" for name, value in record.items() if _is_counted(name, value)]
        message = " ".join([message, *numbers])
    texts = [message, *(text for name in _STACKS if (text := _stack(record.get(name))))]
    lines = [line for text in texts for line in text.splitlines()[:_MOST_LINES]]
    return Event(time, stream, "\n".join(mark + line for line in lines))


def _is_counted(name: str, value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(_COUNTED.search(name))


def event_within(text: str) -> str | None:
    """The message in a line that is a structured logger's object, behind prefixes; None for other lines."""
    start = text.find("{")
    if start < 0 or not text.rstrip().endswith("}") or not (record := object_in(text[start:])):
        return None
    event = event_of(record)
    if event is None:
        return None
    return "\n".join(text[:start] + line for line in event.text.split("\n"))


def seconds(value: str | float | None) -> float | None:
    """A time as services and loggers write it, in seconds since the epoch: ISO 8601 (UTC where it names no
    zone), seconds, or milliseconds; None for what is none of these."""
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            return _of_iso(value)
        return seconds(number)
    if value is None or not 1e8 < value < 1e14:
        return None
    # From 1973 in milliseconds on; in seconds that is the year 5138.
    return value / 1000 if value > 1e11 else float(value)


def _of_iso(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text.strip().replace(",", "."))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (OverflowError, ValueError):
        return None


def _stack(value: Any) -> str | None:
    """A traceback beside a message: the text that it is, or what structlog's dict_tracebacks (22.1 to 25)
    make of one, a list with the exception that was raised first."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return None
    raised, frames = value[0], value[0].get("frames")
    if not isinstance(raised.get("exc_type"), str) or not isinstance(frames, list):
        return None
    places = [each for each in frames if isinstance(each, dict)][-_MOST_LINES:]
    lines = [
        f'  File "{each.get("filename")}", line {each.get("lineno")}, in {each.get("name")}'
        for each in places
    ]
    said = f"{raised['exc_type']}: {raised.get('exc_value')}"
    return "\n".join(["Traceback (most recent call last):", *lines, said])


def _mark(record: Mapping[str, Any]) -> str:
    rank = _whole(record, _RANKS)
    if rank is not None:
        return f"[rank{rank}]: "
    local = _whole(record, _LOCAL_RANKS)
    return f"[default{local}]:" if local is not None else ""


def _whole(record: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = record.get(name)
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 6:
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1_000_000:
            return value
    return None


def object_in(text: str) -> dict[str, Any] | None:
    """The object that a text is, None where it is none. Hostile ones may nest deeper than Python follows."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _first(record: Mapping[str, Any], names: tuple[str, ...], kind: type | tuple[type, ...]) -> Any:
    return next((record[name] for name in names if isinstance(record.get(name), kind)), None)


# Log lines in JSON: the documents of CloudWatch Logs, and files with an object a line.
#
# Documents are what `aws logs get-log-events`, `filter-log-events` and `get-query-results` print, what the
# console of Insights saves, and arrays of events that somebody cut out of these. They are read event by
# event, however long they are, and one that ends in the middle is read as far as it goes. Objects a line
# are those of Docker's json-file driver, of structured loggers and of `jq -c '.events[]'`.


_STEP = 1 << 18
_LISTED = re.compile(r'"(?:events|results)"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder()


def read_document(blocks: Iterable[bytes], *, bare: bool) -> Iterator[Event]:
    """The events of one document, or of several, one after another (pages that somebody put together).

    `bare` is an array without anything around it. What is not JSON where an event should begin is read as
    lines of text, so that nothing is lost unseen.
    """
    text = _Text(characters_of(blocks))
    if bare:
        text.skip_to(re.compile(r"\["))
        yield from _array(text)
    while text.skip_to(_LISTED):
        yield from _array(text)


def read_json_lines(blocks: Iterable[bytes]) -> Iterator[Event]:
    """The events of a text with an object a line; other lines are events without a time.

    Docker cuts lines of more than 16 KB into several objects, of which only the last ends with a break.
    """
    begun: dict[str, str] = {}
    for line in lines_of(blocks):
        record = object_in(line)
        if record is not None and _is_dockers(record):
            channel = record["stream"][:16]
            record["log"] = begun.pop(channel, "") + record["log"]
            if not record["log"].endswith("\n") and len(record["log"]) < LARGEST_EVENT and len(begun) < 8:
                begun[channel] = record["log"]
                continue
        yield (event_of(record) if record is not None else None) or Event(
            None, "", event_within(line) or line
        )
    yield from (Event(None, "", text) for text in begun.values())


def unfold_events(records: Iterable[LogRecord]) -> Iterator[LogRecord]:
    """The records, those that hold a structured logger's object with its message in place of it."""
    for record in records:
        text = event_within(record.text) if _may_be_an_object(record.text) else None
        yield record if text is None else Record(record.time, record.host, text, record.stream)


def _may_be_an_object(text: str) -> bool:
    """Whether a line is an object, by its beginning behind prefixes that are known."""
    if text.startswith("{"):
        return True
    return '{"' in text and text.rstrip().endswith("}") and text.find("{") == origin_of(text).start


def _is_dockers(record: dict[str, Any]) -> bool:
    return isinstance(record.get("log"), str) and isinstance(record.get("stream"), str)


class _Text:
    """A text that is read on as far as it is asked for."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces
        self.held = ""
        self.at = 0

    def more(self) -> bool:
        """Read on, letting go of what is behind; False at the end."""
        read: list[str] = []
        size = 0
        while size < _STEP and (piece := next(self._pieces, None)) is not None:
            read.append(piece)
            size += len(piece)
        if not size:
            return False
        self.held = self.held[self.at :] + "".join(read)
        self.at = 0
        return True

    def skip_to(self, pattern: re.Pattern[str]) -> bool:
        """Go behind the next match; False where there is none any more."""
        while True:
            if match := pattern.search(self.held, self.at):
                self.at = match.end()
                return True
            # A match may stand on the border.
            self.at = max(self.at, len(self.held) - 64)
            if not self.more():
                return False

    def skip_between(self) -> bool:
        """Go to the next thing that is neither space nor comma; False at the end."""
        while True:
            match = _BETWEEN.match(self.held, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self.held):
                return True
            if not self.more():
                return False


def _array(text: _Text) -> Iterator[Event]:
    """The events up to the end of the array whose bracket was just read."""
    while text.skip_between():
        if text.held[text.at] == "]":
            text.at += 1
            return
        while True:
            try:
                found, text.at = _DECODER.raw_decode(text.held, text.at)
            except (ValueError, RecursionError):
                if len(text.held) - text.at < LARGEST_EVENT and text.more():
                    continue
                yield from _remainder(text)
                return
            break
        if (event := _event(found)) is not None:
            yield event


def _remainder(text: _Text) -> Iterator[Event]:
    """What cannot be read as an event, and all behind it, as the lines that it is."""
    rest = ""
    while True:
        *whole, rest = (rest + text.held[text.at :]).split("\n")
        text.at = len(text.held)
        yield from (Event(None, "", line) for line in whole)
        if len(rest) > LARGEST_EVENT:
            yield Event(None, "", rest)
            rest = ""
        if not text.more():
            break
    if rest.strip():
        yield Event(None, "", rest)


def _event(found: Any) -> Event | None:
    """The message in one element of an array; a row of Insights is a list of fields."""
    if isinstance(found, list):
        fields = [each for each in found if isinstance(each, dict)]
        found = {each["field"]: each.get("value") for each in fields if isinstance(each.get("field"), str)}
    return event_of(found) if isinstance(found, dict) else None


_MESSAGE_COLUMNS = frozenset({"@message", "message"})
_OTHER_COLUMNS = frozenset(
    {"@timestamp", "timestamp", "@logStream", "logStreamName", "@ingestionTime", "ingestionTime"}
)
_COLUMNS: Final = {
    4: ("", "ingestionTime", "message", "timestamp"),
    6: ("", "eventId", "ingestionTime", "logStreamName", "message", "timestamp"),
}
"""The CLI writes the fields of an event in the order of their names: those of get-log-events and those of
filter-log-events."""
EVENTS_MARK: Final = "EVENTS\t"


def columns_of(line: str) -> list[str] | None:
    """The columns that a CSV's first line names, None where it is not one of a table of log lines."""
    try:
        names = [name.strip() for name in next(csv.reader([line]), [])]
    except csv.Error:
        return None
    known = _MESSAGE_COLUMNS.intersection(names) and (
        _OTHER_COLUMNS.intersection(names) or names == ["@message"]
    )
    return names if known else None


def read_csv(blocks: Iterable[bytes]) -> Iterator[Event]:
    """The events of a CSV whose first line names the columns.

    A row whose quotes do not end within what a field may have is let go, and reading goes on behind it.
    """
    # The limit is the whole process's, and meant against fields without an end: it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), LARGEST_EVENT))
    lines = (f"{line}\n" for line in lines_of(blocks))
    columns = columns_of(next(lines, "")) or []
    while True:
        rows = csv.reader(lines)
        try:
            for row in rows:
                if (event := event_of(dict(zip(columns, row, strict=False)))) is not None:
                    yield event
            return
        except csv.Error:
            # The reader has taken the lines up to here; those behind them begin anew.
            continue


def read_cli_text(blocks: Iterable[bytes]) -> Iterator[Event]:
    """The events that the AWS CLI prints with `--output text`, a line each; tabs in messages stay."""
    for line in lines_of(blocks):
        parts = line.split("\t")
        columns = _COLUMNS[6] if _has_id(parts) else _COLUMNS[4]
        if not line.startswith(EVENTS_MARK) or len(parts) < len(columns):
            if line.strip():
                yield Event(None, "", line)
            continue
        before = columns.index("message")
        message = "\t".join(parts[before : len(parts) - 1])
        told = dict(zip(columns[:before], parts[:before], strict=True))
        yield event_of({**told, "message": message, "timestamp": parts[-1]}) or Event(None, "", line)


def _has_id(parts: list[str]) -> bool:
    """Whether it is an event of filter-log-events: its id has 56 digits, a time 13."""
    return len(parts) >= len(_COLUMNS[6]) and len(parts[1]) > 20


MOST_TURNED: Final = 200_000
"""Events that are turned round in memory: Insights gives at most 10,000 rows (StartQuery's `limit`), of which
some have several lines."""
_LARGEST_TURNED: Final = 64 << 20
_SAMPLE = 1000


def in_order_of_time(events: Iterable[Event]) -> Iterator[Event]:
    """The events, turned round where the first ones come newest first. Raises Unreadable where those are
    more than are turned in memory."""
    rest = iter(events)
    sample = list(islice(rest, _SAMPLE))
    times = [event.time for event in sample if event.time is not None]
    later, earlier = _steps(times)
    if later or not earlier:
        return chain(sample, rest)
    return _turned(chain(sample, rest))


def _steps(times: list[float]) -> tuple[int, int]:
    """How often the time goes on, and how often it goes back."""
    return sum(b > a for a, b in pairwise(times)), sum(b < a for a, b in pairwise(times))


def _turned(events: Iterable[Event]) -> Iterator[Event]:
    held: list[Event] = []
    size = 0
    for event in events:
        held.append(event)
        size += len(event.text)
        if len(held) > MOST_TURNED or size > _LARGEST_TURNED:
            raise Unreadable(
                f"has its newest lines first, and more than {MOST_TURNED} of them.",
                "Ask for them in their order: `sort @timestamp asc` in Insights.",
            )
    # Lines of one millisecond come in either order; a traceback shows in which.
    turned = held[::-1]
    kept = sorted(held, key=lambda event: event.time or 0.0)
    return iter(kept if _frames_after_headers(kept) > _frames_after_headers(turned) else turned)


def _frames_after_headers(events: list[Event]) -> int:
    return sum(before.text.endswith(HEADER) and "  File " in after.text for before, after in pairwise(events))
