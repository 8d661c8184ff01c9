"""Which format a stream of clean text is in, by its beginning, and how to read it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from launcher.diagnosis.formats import (
    json_events,
    margins,
    pod_descriptions,
    table_events,
    task_labels,
    wrapping,
)
from launcher.diagnosis.formats.event import LARGEST_EVENT, Event, object_in, within
from launcher.diagnosis.formats.order import in_order
from launcher.diagnosis.formats.text import bounded

_DOCUMENT = re.compile(r'\s*\{\s*"')
_LISTED = re.compile(r'"(?:events|results)"\s*:\s*\[')
_ARRAY = re.compile(r"\s*\[\s*(?:\{|\[\s*\{)")
_MOST_BEFORE = 4096
"""Characters of a document before its list of events."""
_SAMPLE = 2000
"""Lines by which text is judged."""
_SHARE = 0.5

AsEvents: TypeAlias = Callable[[Iterable[bytes]], Iterator[Event]]
AsText: TypeAlias = Callable[[Iterable[bytes]], Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class Format:
    """How a stream is read: as events, or as text where that is None.

    `name` is what it is called to a person.
    """

    name: str
    as_events: AsEvents | None = None
    as_text: AsText = bounded


PLAIN = Format("text")


def format_of(head: bytes) -> Format:
    """The format of clean text (see `text.as_text`) by its first bytes (HEAD)."""
    text = head.decode("utf-8", errors="replace")
    lines = text.splitlines()
    whole = lines[:-1] if len(lines) > 1 and not text.endswith("\n") else lines
    margin = margins.margin_of(whole[:_SAMPLE])
    if margin is not None:
        return _behind(margin, head)
    first = next((line for line in whole if line.strip()), "")
    for found in (_json(text, first), _table(first)):
        if found is not None:
            return found
    sample = whole[:_SAMPLE]
    if _holds_objects(sample):
        return Format("JSON lines", _events(json_events.of_lines))
    if task_labels.are_labelled(sample):
        return Format(
            "text with tasks of srun", as_text=lambda blocks: task_labels.relabelled(bounded(blocks), sample)
        )
    if pod_descriptions.are_described(sample):
        return Format(
            "a description of pods", as_text=lambda blocks: pod_descriptions.with_their_pods(bounded(blocks))
        )
    width = wrapping.width_of(sample)
    if width is not None:
        return Format(
            f"text wrapped at {width} columns",
            as_text=lambda blocks: wrapping.joined(bounded(blocks), width),
        )
    return PLAIN


def _behind(margin: re.Pattern[str], head: bytes) -> Format:
    """The format of what stands behind a margin, and how to read it from there."""

    def uncovered(blocks: Iterable[bytes]) -> Iterator[bytes]:
        return margins.without_margin(bounded(blocks, LARGEST_EVENT), margin)

    found = format_of(b"".join(uncovered([head])))
    as_events = found.as_events
    return Format(
        f"{found.name} behind a margin",
        None if as_events is None else lambda blocks: as_events(uncovered(blocks)),
        lambda blocks: found.as_text(uncovered(blocks)),
    )


def _json(text: str, first: str) -> Format | None:
    if object_in(first) is not None:
        if _LISTED.search(first, 0, _MOST_BEFORE):
            return Format("JSON of CloudWatch Logs", _in_order(bare=False))
        return None
    if _ARRAY.match(text) and not text.lstrip().startswith("[["):
        return Format("an array of JSON", _in_order(bare=True))
    if _DOCUMENT.match(text) and _LISTED.search(text, 0, _MOST_BEFORE):
        return Format("JSON of CloudWatch Logs", _in_order(bare=False))
    return None


def _table(first: str) -> Format | None:
    if first.startswith(table_events.EVENTS_MARK):
        return Format("text of the AWS CLI", _events(table_events.of_cli_text))
    if table_events.columns_of(first) is not None:
        return Format("CSV", lambda blocks: in_order(_events(table_events.of_csv)(blocks)))
    return None


def _in_order(*, bare: bool) -> AsEvents:
    return lambda blocks: in_order(json_events.of_document(blocks, bare=bare))


def _events(decoder: AsEvents) -> AsEvents:
    """The decoder for a text of which each line is an event: no line is longer than one may be."""
    return lambda blocks: decoder(bounded(blocks, LARGEST_EVENT))


def _holds_objects(lines: list[str]) -> bool:
    """Whether many of the lines are what a log driver or a structured logger writes."""
    closed = [line for line in lines if line.rstrip().endswith("}")]
    objects = sum(within(line) is not None for line in closed)
    return objects > 0 and objects >= _SHARE * sum(bool(line.strip()) for line in lines)
