"""Ranks in a sentence, also hundreds of them."""

from __future__ import annotations

from collections.abc import Sequence

_LISTED = 8
"""So many ranks are named one by one; of more the neighbours are drawn together."""


def ranks_text(ranks: Sequence[int]) -> str:
    """`rank 2`, `ranks 0, 1, 3`, or `ranks 0-6, 8-63`."""
    ordered = sorted(set(ranks))
    if len(ordered) == 1:
        return f"rank {ordered[0]}"
    if len(ordered) <= _LISTED:
        return "ranks " + ", ".join(map(str, ordered))
    runs: list[list[int]] = []
    for rank in ordered:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    more = f" and {len(parts) - _LISTED} more stretches" if len(parts) > _LISTED else ""
    return "ranks " + ", ".join(parts[:_LISTED]) + more
