"""Jobs as a table that fits the terminal: what may be left out goes first, and a name is never cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from launcher.backends.interface import JobSummary
from launcher.cli.job_view import STATE_STYLES
from launcher.text.durations import elapsed_time

if TYPE_CHECKING:
    from rich.text import Text

_GAP = "  "
Column = tuple[str, "Callable[[JobSummary], Text]"]
"""A heading, and what stands below it for a job."""


def job_lines(jobs: Sequence[JobSummary], width: int) -> Iterator[Text]:
    """A line of headings and one for each job, within so many columns where the names leave room for that."""
    from rich.text import Text

    cells = _fitting(jobs, width)
    widths = [max(len(row[index]) for row in cells) for index in range(len(cells[0]))]
    for number, row in enumerate(cells):
        line = Text()
        for index, (cell, wide) in enumerate(zip(row, widths, strict=True)):
            padding = " " * (wide - len(cell))
            right = row is not cells[0] and cells[0][index].plain == "TOOK"
            line.append_text(Text(padding) + cell if right else cell + Text(padding))
            line.append(_GAP)
        line.rstrip()
        if number == 0:
            line.stylize("dim")
        yield line


def _fitting(jobs: Sequence[JobSummary], width: int) -> list[list[Text]]:
    """The cells of the fullest layout that fits, else of the barest."""
    from rich.text import Text

    for columns in _LAYOUTS:
        heads = [Text(head) for head, _ in columns]
        cells = [heads, *([of(job) for _, of in columns] for job in jobs)]
        wide = sum(max(len(row[index]) for row in cells) for index in range(len(columns)))
        if wide + len(_GAP) * (len(columns) - 1) <= width:
            break
    return cells


def _name(job: JobSummary) -> Text:
    from rich.text import Text

    return Text(job.name)


def _state(job: JobSummary) -> Text:
    from rich.text import Text

    return Text(job.state.value, STATE_STYLES.get(job.state, ""))


def _state_and_phase(job: JobSummary) -> Text:
    text = _state(job)
    return text if job.phase == job.state.value else text.append(f" ({job.phase})", "dim")


def _created(job: JobSummary) -> Text:
    from rich.text import Text

    return Text(f"{job.created.astimezone():%Y-%m-%d %H:%M}")


def _created_briefly(job: JobSummary) -> Text:
    from rich.text import Text

    return Text(f"{job.created.astimezone():%m-%d %H:%M}")


def _took(job: JobSummary) -> Text:
    from rich.text import Text

    return Text(elapsed_time((job.ended - job.created).total_seconds()) if job.ended else "")


_LAYOUTS: Sequence[Sequence[Column]] = (
    (("NAME", _name), ("STATE", _state_and_phase), ("CREATED", _created), ("TOOK", _took)),
    (("NAME", _name), ("STATE", _state_and_phase), ("CREATED", _created_briefly), ("TOOK", _took)),
    (("NAME", _name), ("STATE", _state), ("CREATED", _created), ("TOOK", _took)),
    (("NAME", _name), ("STATE", _state), ("CREATED", _created_briefly), ("TOOK", _took)),
    (("NAME", _name), ("STATE", _state), ("TOOK", _took)),
    (("NAME", _name), ("STATE", _state)),
)
"""From the fullest to the barest."""
