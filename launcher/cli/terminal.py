"""The terminal as rich draws on it, safe from what is printed."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from launcher.text.values import without_controls


class Terminal(Console):
    """A console on which text from elsewhere (names, reasons, lines of files) cannot act.

    Rich keeps its own colours and cursor movements apart from the text until it writes, so that whatever
    control characters the text holds at this point came with it. Columns are measured before: a cell that
    grows by what is written out is cut at its end.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of anything that is printed, their texts without control characters."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(without_controls(segment.text), segment.style)
