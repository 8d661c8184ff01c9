"""What is known of a rank at one moment: plain data, which hosts send each other as JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

STOPPED, GONE = "T", "gone"
"""Of a process' states (proc(5)) the one of a stopped process; and what stands for a process that is not
there."""


class UserLine(NamedTuple):
    """A line of the user's own code, its file as it lies below the code's folder."""

    file: str
    number: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}"


@dataclass(frozen=True)
class Operation:
    """A collective that a rank has entered.

    `number` counts the group's collectives; `lines` are the user's lines that led to it, the innermost last;
    `saving` says that it was called on the way of saving or of making a state_dict. `seconds` is how long
    ago it was entered, `timeout` the group's, both in seconds. `peer` is the other rank of the group where it
    is a send or receive.
    """

    group: str
    number: int
    name: str
    sizes: str = ""
    lines: tuple[UserLine, ...] = ()
    saving: bool = False
    waits: bool = False
    seconds: float = 0.0
    timeout: float | None = None
    peer: int | None = None

    @property
    def key(self) -> tuple[str, int, str]:
        """What it is, whenever it is looked at."""
        return self.group, self.number, self.name


@dataclass(frozen=True)
class RankView:
    """One rank, as it was seen.

    `answered` says that it answered itself, `recorded` that PyTorch's flight recorder told of its
    collectives. `last` is the newest number that it has entered in each group, `operations` are the newest of
    each and all that wait, `groups` the global ranks of its groups. `lines` is where its main thread is in
    the user's code; `waits_by_stack` that the thread is inside of PyTorch where one waits for other ranks.
    """

    rank: int
    host: str
    state: str
    steps: int
    ended: bool = False
    answered: bool = False
    recorded: bool = False
    groups: dict[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    last: dict[str, int] = dataclasses.field(default_factory=dict)
    operations: tuple[Operation, ...] = ()
    lines: tuple[UserLine, ...] = ()
    waits_by_stack: bool = False
    saving: bool = False

    @property
    def waiting(self) -> tuple[Operation, ...]:
        """The oldest collective that it waits in, of each group."""
        oldest: dict[str, Operation] = {}
        for each in self.operations:
            if each.waits and (each.group not in oldest or each.number < oldest[each.group].number):
                oldest[each.group] = each
        return tuple(oldest.values())

    def entered(self, group: str, number: int) -> Operation | None:
        """What it entered under this number; None where that is not known any more, or not yet."""
        found = (each for each in self.operations if (each.group, each.number) == (group, number))
        return next(found, None)


def steady(before: RankView, after: RankView) -> RankView | None:
    """What is equal in two looks at a rank; None where the rank got on between them.

    A collective counts as waited in where it was so both times.
    """
    if before.steps != after.steps or (before.recorded and after.recorded and before.last != after.last):
        return None
    waited = {each.key for each in before.operations if each.waits}
    operations = tuple(
        dataclasses.replace(each, waits=each.waits and each.key in waited) for each in after.operations
    )
    return dataclasses.replace(
        after,
        operations=operations,
        waits_by_stack=before.waits_by_stack and after.waits_by_stack,
        state=after.state if after.state == before.state or after.state == GONE else "S",
    )


def to_json(view: RankView) -> dict[str, Any]:
    """A view as JSON holds it."""
    return dataclasses.asdict(view)


def from_json(value: dict[str, Any]) -> RankView:
    """The view again. Raises KeyError, TypeError or ValueError for anything else."""
    fields = dict(value)
    fields["groups"] = {name: tuple(ranks) for name, ranks in fields["groups"].items()}
    fields["lines"] = _lines(fields["lines"])
    fields["operations"] = tuple(
        Operation(**{**each, "lines": _lines(each["lines"])}) for each in fields["operations"]
    )
    return RankView(**fields)


def _lines(values: Any) -> tuple[UserLine, ...]:
    return tuple(UserLine(*each) for each in values)
