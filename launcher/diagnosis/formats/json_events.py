"""Log lines in JSON: the documents of CloudWatch Logs, and files with an object a line.

Documents are what `aws logs get-log-events`, `filter-log-events` and `get-query-results` print, what the
console of Insights saves, and arrays of events that somebody cut out of these. They are read event by event,
however long they are, and one that ends in the middle is read as far as it goes. Objects a line are those of
Docker's json-file driver, of structured loggers and of `jq -c '.events[]'`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from launcher.diagnosis.formats.blocks import characters_of, lines_of
from launcher.diagnosis.formats.event import LARGEST_EVENT, Event, event_of, object_in, within
from launcher.diagnosis.record import LogRecord, Record

_STEP = 1 << 18
_LISTED = re.compile(r'"(?:events|results)"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder()


def of_document(blocks: Iterable[bytes], *, bare: bool) -> Iterator[Event]:
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


def of_lines(blocks: Iterable[bytes]) -> Iterator[Event]:
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
        yield (event_of(record) if record is not None else None) or Event(None, "", within(line) or line)
    yield from (Event(None, "", text) for text in begun.values())


def unfolded(records: Iterable[LogRecord]) -> Iterator[LogRecord]:
    """The records, those that hold a structured logger's object with its message in place of it."""
    for record in records:
        text = within(record.text) if record.text.startswith("{") else None
        yield record if text is None else Record(record.time, record.host, text, record.stream)


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
