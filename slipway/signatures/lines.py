"""The lines of an output as they are judged: without colours and control characters, without prefixes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slipway.signatures.table import table

LONGEST = 4096
"""Characters of a line that are looked at: what is longer is data that was printed."""

_MOST_PREFIXES = 8
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f]")
_BREAK = re.compile(r"\r*\n|\r+")


@dataclass(frozen=True)
class OutputLine:
    """A line and who wrote it, where its prefix tells: `writer` is a rank or a local rank."""

    text: str
    writer: int | None = None


def lines_of(output: str) -> list[OutputLine]:
    """The lines of an output; a progress bar that writes over itself is as many as it wrote."""
    texts = _BREAK.split(output)
    return [line_of(text) for text in (texts if texts[-1] else texts[:-1])]


def line_of(text: str) -> OutputLine:
    """One line, without what stands before its message: ranks, times, hosts, NCCL's process and device."""
    text = text[:LONGEST]
    if not text.isprintable():
        text = _CONTROL.sub("", _ANSI.sub("", text))
    prefix = table().patterns["prefix"]
    start, rank, local_rank = 0, None, None
    for _ in range(_MOST_PREFIXES):
        match = prefix.match(text, start)
        if match is None:
            break
        start = match.end()
        rank = match["mpi"] or match["rank"] or rank
        local_rank = match["local"] or local_rank
    writer = local_rank if rank is None else rank
    return OutputLine(text[start:], int(writer) if writer is not None else None)
