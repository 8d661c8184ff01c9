"""What log services and structured loggers keep of a message: when, from which stream, in which words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

LARGEST_EVENT: Final = 4 << 20
"""Characters of one event: CloudWatch takes messages of 1 MB (PutLogEvents), which escapes make longer."""

_MOST_LINES = 10_000
"""Lines of one message that are kept."""


@dataclass(frozen=True, slots=True)
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
_STACKS = ("exc_info", "exception", "traceback", "stack_trace", "exc_text", "error.stack_trace", "stack_info")


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
    texts = [message, *(text for name in _STACKS if (text := _stack(record.get(name))))]
    lines = [line for text in texts for line in text.splitlines()[:_MOST_LINES]]
    return Event(time, stream, "\n".join(mark + line for line in lines))


def within(text: str) -> str | None:
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
