"""The table of ranks as a page shows it, and which of its rows differ from most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from launcher.diagnosis.ranks import CollectiveCall, RankState
from launcher.report.run_report import RunReport
from launcher.report.telling import position

_EARLIER = 0.02
"""A last output counts as early where it is more than this part of the run before the others'."""


@dataclass(frozen=True, slots=True)
class RanksTable:
    """The rows of some ranks in words, with the columns in which at least one of them has something."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def all_ranks(run: RunReport) -> RanksTable:
    """All ranks in their order."""
    return _table(run, run.ranks)


def differing_ranks(run: RunReport) -> RanksTable:
    """The ranks that differ from most of the others, in their order."""
    return _table(run, [state for state in run.ranks if _notes(run, state)])


def _table(run: RunReport, states: Sequence[RankState]) -> RanksTable:
    columns = {
        "Rank": [str(state.rank) for state in states],
        "Host": [state.host or "" for state in states],
        "Differs by": [", ".join(_notes(run, state)) for state in states],
        "Last output": [
            "" if state.last_output is None else position(run, state.last_output) for state in states
        ],
        "Epoch" if run.lines.steps_are == "epoch" else "Step": [
            "" if state.step is None else f"{state.step:,}" for state in states
        ],
        "Collective called": [_collective(state.enqueued) for state in states],
        "Collective completed": [_collective(state.completed) for state in states],
        "Ended by": [state.exit or "" for state in states],
        "Process": [state.state or "" for state in states],
        "Last frame": [state.frame or "" for state in states],
    }
    told = {head: cells for head, cells in columns.items() if any(cells)}
    return RanksTable(tuple(told), tuple(zip(*told.values(), strict=True)))


def _notes(run: RunReport, state: RankState) -> tuple[str, ...]:
    return tuple(
        note
        for note, holds in (
            ("failed first", _failed_first(run, state)),
            ("silent early", _silent_early(run, state)),
            ("behind", _behind(run, state)),
            ("in another collective", _elsewhere(run, state)),
        )
        if holds
    )


def _failed_first(run: RunReport, state: RankState) -> bool:
    return run.incident is not None and run.incident.rank == state.rank


def _silent_early(run: RunReport, state: RankState) -> bool:
    times = [each.last_output for each in run.ranks if each.last_output is not None]
    if state.last_output is None or len(times) < 2:
        return False
    activity = run.lines.activity
    margin = max(_EARLIER * (activity.end - activity.start), activity.width)
    return state.last_output < median(times) - margin


def _behind(run: RunReport, state: RankState) -> bool:
    steps = [each.step for each in run.ranks if each.step is not None]
    return state.step is not None and len(steps) > 1 and state.step < median(steps)


def _elsewhere(run: RunReport, state: RankState) -> bool:
    last = Counter(each.enqueued for each in run.ranks if each.enqueued is not None)
    if state.enqueued is None or len(last) < 2:
        return False
    usual, count = last.most_common(1)[0]
    return state.enqueued != usual and last[state.enqueued] < count


def _collective(collective: CollectiveCall | None) -> str:
    if collective is None:
        return ""
    number = "" if collective.sequence is None else f" #{collective.sequence}"
    group = "" if collective.group is None else f" in {collective.group}"
    elements = "" if collective.elements is None else f" of {collective.elements:,} elements"
    return f"{collective.name}{number}{group}{elements}"
