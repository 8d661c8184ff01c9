"""Batches of loaders that do not know how many they have: one is fetched ahead, and its presence agreed on.

Before a step begins, the next batch has been fetched, and while the step runs the ranks tell each other
whether they have one. So nobody begins a step that another rank will not come to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from slipway.agreement.group import PendingAnswer, SideGroup, named
from slipway.batches.counts import refuse_empty
from slipway.errors import SlipwayError

OUT, HAS, RAISED, EMPTY = 0, 1, 2, 3
"""What a rank says of its next batch: none of its own, one, its loader raised, nothing to repeat either."""

_NOTHING = object()
_LONGEST = 300
"""Characters of another rank's exception that are repeated."""


class LookAhead:
    """One epoch of one rank; `counts` are the batches of its own that each rank was seen to have."""

    def __init__(self, agreement: SideGroup, begin: Callable[[], Iterator[Any]], mode: str) -> None:
        """`begin` starts the loader from its beginning; `mode` is "pad" or "drop"."""
        self.counts = [0] * agreement.world_size
        self._agreement, self._begin, self._mode = agreement, begin, mode
        self._iterator = begin()
        self._over = False
        self._batch: Any = _NOTHING
        self._error: Exception | None = None

    def __iter__(self) -> Iterator[Any]:
        """Raises SlipwayError on all ranks where one has nothing (DATA001) or raised (NCCL006)."""
        pending = self._look()
        before = [HAS] * self._agreement.world_size
        while True:
            states = self._states(pending)
            goes_on = self._goes_on(states)
            for rank, state in enumerate(states):
                self.counts[rank] += state == HAS
            if not goes_on:
                return
            if any(state == OUT and last == HAS for state, last in zip(states, before)):
                # Who has just come to the end begins again, and all hear whether it could before they step.
                if self._batch is _NOTHING:
                    self._fetch_again()
                self._states(self._say(OUT if self._over else HAS))
            batch, before = self._batch, states
            pending = self._look()
            yield batch

    def _goes_on(self, states: list[int]) -> bool:
        if HAS in states:
            if max(self.counts) == 0:
                refuse_empty([rank for rank, state in enumerate(states) if state == OUT])
            return self._mode == "pad" or OUT not in states
        return False

    def _look(self) -> PendingAnswer:
        """Fetch the next batch and tell the others of it."""
        self._batch = _NOTHING
        if self._over:
            self._fetch_again()
            return self._say(OUT)
        try:
            self._batch = next(self._iterator)
        except StopIteration:
            self._over, self._iterator = True, iter(())
        except Exception as error:
            self._error = error
        return self._say(OUT if self._over else HAS)

    def _fetch_again(self) -> None:
        """A batch to repeat, from the loader's beginning once its end was reached."""
        try:
            try:
                self._batch = next(self._iterator)
            except StopIteration:
                self._iterator = self._begin()
                self._batch = next(self._iterator, _NOTHING)
        except Exception as error:
            self._error = error
        if self._batch is _NOTHING and self._error is None:
            self._error = SlipwayError(
                "DATA001",
                "the loader gives nothing when it is begun again, so this rank has no batch to repeat. Use "
                'mode="drop", or a dataset that begins anew at each __iter__',
            )

    def _say(self, state: int) -> PendingAnswer:
        if self._error is not None:
            state = EMPTY if isinstance(self._error, SlipwayError) else RAISED
        return self._agreement.begin([state])

    def _states(self, pending: PendingAnswer) -> list[int]:
        """What all ranks say. Raises where one of them cannot go on."""
        states = [int(row[0]) for row in pending.wait()]
        failed = [rank for rank, state in enumerate(states) if state in (RAISED, EMPTY)]
        if not failed:
            return states
        text = f"{type(self._error).__name__}: {self._error}"[:_LONGEST] if self._error is not None else ""
        texts = self._agreement.gather(text)
        if self._error is not None:
            raise self._error
        raise SlipwayError(
            "NCCL006",
            f"{named(failed)} could not fetch the next batch, so this rank ends as well. Rank {failed[0]} "
            f"raised {texts[failed[0]]}",
        )
