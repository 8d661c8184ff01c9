"""Ranks as two looks see them, for tests of what is judged: all of one group, in one collective."""

from __future__ import annotations

from typing import Any

from slipway.watchdog.rank_views import Operation, RankView, UserLine

TRAIN = """\
def train(loader):
    for batch in loader:
        step(batch)

def step(batch):
    all_reduce()

train(loader)
evaluate()
save()
"""
IN_STEP = (
    UserLine("train.py", 8, "<module>"),
    UserLine("train.py", 3, "train"),
    UserLine("train.py", 6, "step"),
)
BEHIND = (UserLine("train.py", 9, "<module>"),)


def operation(number: int = 36, name: str = "all_reduce", **more: Any) -> Operation:
    fields = {"group": "0", "sizes": "[4160]", "lines": IN_STEP, "waits": True, "timeout": 600.0, **more}
    return Operation(number=number, name=name, **fields)


def waiting(rank: int, *operations: Operation, world: int = 4, **more: Any) -> RankView:
    """A rank that waits in collectives, by itself in the 36th of all ranks."""
    entered = operations or (operation(),)
    last: dict[str, int] = {}
    for each in entered:
        last[each.group] = max(each.number, last.get(each.group, 0))
    return seen(rank, world=world, operations=entered, last=last, lines=entered[-1].lines, **more)


def seen(rank: int, world: int = 4, **more: Any) -> RankView:
    """A rank that waits nowhere: it has entered 35 collectives of all ranks, and works in its own code."""
    fields: dict[str, Any] = {
        "answered": True,
        "recorded": True,
        "groups": {"0": tuple(range(world))},
        "last": {"0": 35},
        "lines": (UserLine("train.py", 8, "<module>"), UserLine("train.py", 2, "train")),
        **more,
    }
    host = fields.pop("host", f"algo-{rank // 2 + 1}")
    return RankView(rank, host, fields.pop("state", "S"), fields.pop("steps", 35), **fields)
