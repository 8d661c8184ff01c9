"""What is known of each rank: one row of the table that every kind of evidence fills."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective operation of a process group: its name, such as `ALLREDUCE`, the number that its group
    counts it by (from 1), the group's name, and how many elements go in. None is what nothing tells."""

    name: str
    sequence: int | None = None
    group: str | None = None
    elements: int | None = None


@dataclass(frozen=True, slots=True)
class RankState:
    """A rank as the evidence shows it last; None is what nothing tells.

    `rank` is global. `last_output` is in seconds since the epoch and `step` is the script's own count.
    `enqueued` and `completed` are the last collectives that it called and that ended; `exit` is how its
    process ended, such as `exit code 1` or `SIGKILL`; `state` is what its process does, such as `stopped`;
    `frame` is the innermost frame of the user's code, such as `train.py:88 in step`.
    """

    rank: int
    host: str | None = None
    last_output: float | None = None
    step: int | None = None
    enqueued: Collective | None = None
    completed: Collective | None = None
    exit: str | None = None
    state: str | None = None
    frame: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The row as the JSON of `launch diagnose` has it."""
        return asdict(self)


def table_of(rows: Iterable[RankState]) -> tuple[RankState, ...]:
    """One row a rank, in the order of the ranks: what later rows tell goes before what earlier ones told."""
    table: dict[int, RankState] = {}
    for row in rows:
        known = table.get(row.rank)
        table[row.rank] = row if known is None else _over(known, row)
    return tuple(table[rank] for rank in sorted(table))


def _over(known: RankState, newer: RankState) -> RankState:
    told = {each.name: value for each in fields(newer) if (value := getattr(newer, each.name)) is not None}
    return replace(known, **told)
