"""What is known of each rank: one row of the table that every kind of evidence fills."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from launcher.diagnosis.windows import TAIL

_LARGEST_WORLD = 65_536
"""A larger world is a number that was misread."""


@dataclass(frozen=True, slots=True)
class CollectiveCall:
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
    enqueued: CollectiveCall | None = None
    completed: CollectiveCall | None = None
    exit: str | None = None
    state: str | None = None
    frame: str | None = None

    @property
    def is_silent(self) -> bool:
        """Whether nothing was read of the rank."""
        return self == RankState(self.rank)

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


NOT_LATELY = f"not in the last {TAIL} lines"
"""The state of a rank of which nothing is known, where only last lines were looked at for ranks."""


def with_the_silent(
    table: tuple[RankState, ...], world_size: int, *, whole: bool = True
) -> tuple[RankState, ...]:
    """The table with a row for each rank of the world of which nothing was read; empty stays empty.

    Such a row is bare where the `whole` logs were looked at for ranks. Else it may have printed before.
    """
    if not table or world_size > _LARGEST_WORLD:
        return table
    state = None if whole else NOT_LATELY
    known = {row.rank for row in table}
    return table_of(
        [*(RankState(rank, state=state) for rank in range(world_size) if rank not in known), *table]
    )


def _over(known: RankState, newer: RankState) -> RankState:
    told = {each.name: value for each in fields(newer) if (value := getattr(newer, each.name)) is not None}
    return replace(known, **told)
