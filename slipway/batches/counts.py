"""How many batches all ranks get where they have different numbers, and what is said of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from slipway.errors import SlipwayError

_SHOWN = 8


def wanted(mode: str, counts: Sequence[int]) -> int:
    """How many batches every rank gets: the most (pad) or the fewest (drop).

    Raises SlipwayError (DATA001) where some ranks have none and others do: there is nothing to repeat, and
    dropping would leave no step at all.
    """
    if max(counts) > 0:
        refuse_empty([rank for rank, count in enumerate(counts) if count == 0])
    return max(counts) if mode == "pad" else min(counts)


def refuse_empty(ranks: Sequence[int]) -> None:
    """Raises SlipwayError (DATA001) where ranks have no batch while others do."""
    if not ranks:
        return
    who = ", ".join(str(rank) for rank in ranks[:_SHOWN]) + (", …" if len(ranks) > _SHOWN else "")
    raise SlipwayError(
        "DATA001",
        f"{'rank' if len(ranks) == 1 else 'ranks'} {who} got no batch at all while others did, and the "
        "others would have waited in the first step for ever. Give every rank data: at least as many files "
        "or samples as there are ranks, and with workers as ranks times workers",
    )


def told(mode: str, counts: Sequence[int], *, at_least: bool = False) -> str | None:
    """What to say of ranks that have different numbers of batches; None where they have the same.

    With `at_least` the greatest number is only what was seen until the first rank had no more.
    """
    fewest, most = min(counts), max(counts)
    if fewest == most:
        return None
    those = {
        number: [rank for rank, count in enumerate(counts) if count == number]
        for number in sorted(set(counts), reverse=True)
    }
    parts = [
        f"{number}{' or more' if at_least and number == most else ''} on {_ranks(ranks)}"
        for number, ranks in list(those.items())[:_SHOWN]
    ]
    parts += ["…"] if len(those) > _SHOWN else []
    done = (
        f"every rank gets {most}, those with fewer repeat samples of their own"
        if mode == "pad"
        else f"every rank gets {fewest}, the rest is dropped"
    )
    return f"DATA001 ranks have different numbers of batches ({', '.join(parts)}): {done}"


def _ranks(ranks: Sequence[int]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:_SHOWN]) + (", …" if len(ranks) > _SHOWN else "")
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"
