"""The first collective of a group under whose number ranks called different things."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slipway.watchdog.views import Operation, RankView

_SAME_SIZES = frozenset(
    {"all_reduce", "allreduce", "all_reduce_coalesced", "allreduce_coalesced", "broadcast", "reduce"}
)
"""Collectives to which all ranks of a group bring tensors of one size (torch.distributed's documentation)."""


@dataclass(frozen=True)
class Mismatch:
    """What the `odd` ranks called where the `usual` ones called something else, each with its rank."""

    odd: list[tuple[RankView, Operation]]
    usual: list[tuple[RankView, Operation]]


def first_mismatch(views: Sequence[RankView]) -> Mismatch | None:
    """The earliest one in a group in which somebody waits; None where all called the same."""
    groups = {
        (each.group, view.groups.get(each.group))
        for view in views
        for each in view.waiting
        if each.peer is None
    }
    for group, members in sorted(groups, key=str):
        of_it = [view for view in views if view.groups.get(group) == members]
        for number in sorted(set(_numbers(of_it, group))):
            called = [(view, view.entered(group, number)) for view in of_it]
            there = [(view, operation) for view, operation in called if operation is not None]
            kinds: dict[str, list[tuple[RankView, Operation]]] = {}
            for view, operation in there:
                kinds.setdefault(_kind(operation), []).append((view, operation))
            if len(kinds) > 1:
                usual = max(kinds.values(), key=_plausibility)
                odd = [each for each in there if each not in usual]
                return Mismatch(odd, usual)
    return None


def _numbers(views: Sequence[RankView], group: str) -> Iterator[int]:
    for view in views:
        for each in view.operations:
            if each.group == group:
                yield each.number


def _kind(operation: Operation) -> str:
    return f"{operation.name} {operation.sizes}" if operation.name in _SAME_SIZES else operation.name


def _plausibility(called: list[tuple[RankView, Operation]]) -> tuple[int, bool, bool, int]:
    """Of two kinds the one that more ranks called is right; of equally many what trains, not what ends or
    saves, then what the lowest rank called."""
    operation = called[0][1]
    return len(called), not operation.saving, operation.name != "barrier", -called[0][0].rank
