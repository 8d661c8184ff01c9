"""`slipway.even_batches`: one number of batches on all ranks.

Loaders that know their number are cut or gone on with; of the others one batch is fetched ahead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from slipway.errors import SlipwayError, say
from slipway.training.agreement import (
    BATCH_ACTIVITY,
    PendingAnswer,
    SideGroup,
    rank_and_world_size,
    ranks_in_words,
)

MODES = ("pad", "drop", "join")


def even_batches(loader: Any, mode: str = "pad", *, model: Any = None) -> EvenBatches:
    """The loader's batches, as many on every rank. All ranks call it, and all ranks iterate it.

    `mode` is for ranks that have fewer: "pad" lets them repeat samples of their own, "drop" cuts all to the
    fewest, "join" lets them leave (torch's Join, for which `model`, a DistributedDataParallel, is needed).
    The epoch's number is set by itself where a sampler or the dataset has set_epoch. Without a process group
    the batches are the loader's.

    Raises ValueError for another mode, TypeError for a loader or model that the mode cannot work with; while
    it is iterated SlipwayError (DATA001) on all ranks where some have no batch at all.
    """
    if mode not in MODES:
        raise ValueError(f"mode={mode!r} is not one of {', '.join(MODES)}")
    if mode == "pad" and isinstance(loader, Iterator):
        raise TypeError(
            f"{type(loader).__name__} cannot be begun again, so a rank with fewer batches would have none to "
            'repeat. Use mode="drop", or hand over the loader itself instead of iter(loader)'
        )
    if mode == "join":
        _check_joinable(model)
    elif model is not None:
        raise TypeError(f'model= is only for mode="join", not for mode={mode!r}')
    return EvenBatches(loader, mode, model)


class EvenBatches:
    """Iterate it once an epoch, on all ranks. What it does not have itself is the loader's."""

    def __init__(self, loader: Any, mode: str, model: Any) -> None:
        self.loader = loader
        self._mode, self._model = mode, model
        self._epochs = Epochs()
        self._agreement: SideGroup | None = None
        self._said = False
        self._length = length_of(loader)
        if mode != "join" and rank_and_world_size()[1] > 1:
            self._agree()

    def __len__(self) -> int:
        """The number of batches that all ranks get, as last agreed on. Raises TypeError where unknown."""
        if self._length < 0:
            raise TypeError(f"{type(self.loader).__name__} does not say how many batches it has")
        return self._length

    def __getattr__(self, name: str) -> Any:
        if name == "loader":
            raise AttributeError(name)
        return getattr(self.loader, name)

    def __iter__(self) -> Iterator[Any]:
        """An epoch. Raises as `even_batches` says, and what the loader raises."""
        self._epochs.begin(self.loader)
        if rank_and_world_size()[1] == 1:
            return timed_fetches(iter(self.loader))
        if self._mode == "join":
            return self._iterate_joined()
        counts = self._agree()
        if counts is None:
            return self._iterate_looking_ahead()
        return self._iterate_counted(counts)

    def _agree(self) -> list[int] | None:
        """Each rank's number of batches, by one all-reduce; None where a rank does not know its own."""
        if self._agreement is None:
            self._agreement = SideGroup()
        own = length_of(self.loader)
        counts = [int(row[0]) for row in self._agreement.ask([own])]
        if min(counts) < 0:
            self._length = -1
            return None
        self._length = agreed_count(self._mode, counts)
        self._say(uneven_counts_text(self._mode, counts))
        return counts

    def _iterate_counted(self, counts: list[int]) -> Iterator[Any]:
        given = 0
        while given < self._length:
            before = given
            for batch in timed_fetches(iter(self.loader)):
                yield batch
                given += 1
                if given == self._length:
                    return
            if self._mode == "drop" or given == before:
                own = counts[rank_and_world_size()[0]]
                raise SlipwayError(
                    "DATA001",
                    f"the loader said that it has {own} batches and gave {given - before}, so the other "
                    f"ranks would wait for this one in step {given + 1}. Correct its __len__, or that of its "
                    "sampler or dataset",
                )

    def _iterate_looking_ahead(self) -> Iterator[Any]:
        assert self._agreement is not None
        ahead = LookAhead(self._agreement, lambda: timed_fetches(iter(self.loader)), self._mode)
        yield from ahead
        self._say(uneven_counts_text(self._mode, ahead.counts, at_least=self._mode == "drop"))

    def _iterate_joined(self) -> Iterator[Any]:
        from torch.distributed.algorithms.join import Join

        BATCH_ACTIVITY.joining = True
        try:
            with Join([self._model]):
                yield from timed_fetches(iter(self.loader))
        finally:
            BATCH_ACTIVITY.joining = False

    def _say(self, line: str | None) -> None:
        if line is not None and not self._said and rank_and_world_size()[0] == 0:
            say(line)
        self._said = self._said or line is not None


def timed_fetches(iterator: Iterator[Any]) -> Iterator[Any]:
    """The batches of an iterator, with the time that fetching them takes counted."""
    while True:
        begun = time.perf_counter()
        try:
            batch = next(iterator)
        except StopIteration:
            return
        finally:
            BATCH_ACTIVITY.fetching += time.perf_counter() - begun
        yield batch


def length_of(loader: Any) -> int:
    """How many batches a loader knows to have, -1 where it does not.

    What a DataLoader says of an IterableDataset is a guess: it knows nothing of how ranks and workers split
    it (torch/utils/data/dataloader.py warns of it).
    """
    from torch.utils.data import IterableDataset

    if isinstance(getattr(loader, "dataset", None), IterableDataset):
        return -1
    try:
        return len(loader)
    except (TypeError, NotImplementedError):
        return -1


def _check_joinable(model: Any) -> None:
    from torch.nn.parallel import DistributedDataParallel

    if model is None:
        raise TypeError('mode="join" needs the model: even_batches(loader, mode="join", model=model)')
    if not isinstance(model, DistributedDataParallel):
        raise TypeError(
            f"{type(model).__name__} cannot be joined: a rank that has left answers only the collectives of "
            "DistributedDataParallel in its place, so that with FSDP, whose forward gathers parameters, the "
            'others would wait for ever. Use mode="pad" or mode="drop"'
        )


# Batches of loaders that do not know how many they have: one is fetched ahead, and its presence agreed on.
#
# Before a step begins, the next batch has been fetched, and while the step runs the ranks tell each other
# whether they have one. So nobody begins a step that another rank will not come to.


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
            f"{ranks_in_words(failed)} could not fetch the next batch, so this rank ends as well. "
            f"Rank {failed[0]} raised {texts[failed[0]]}",
        )


# How many batches all ranks get where they have different numbers, and what is said of it. Pure.


_SHOWN = 8


def agreed_count(mode: str, counts: Sequence[int]) -> int:
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


def uneven_counts_text(mode: str, counts: Sequence[int], *, at_least: bool = False) -> str | None:
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


# The number of the epoch, given to whatever shuffles by it.


class Epochs:
    """Counts the epochs of a loader, and tells its samplers and its dataset.

    A number that the script set itself, as after a resume, counts: it goes on from there.
    """

    def __init__(self) -> None:
        self._next = 0
        self._left: dict[int, int] = {}

    def begin(self, loader: Any) -> int:
        """Call set_epoch where the number is another one than is there; returns the epoch's number."""
        listeners = _epoch_listeners(loader)
        own = [
            epoch
            for listener in listeners
            for epoch in [getattr(listener, "epoch", None)]
            if type(epoch) is int and epoch != self._left.get(id(listener), 0)
        ]
        epoch = own[0] if own else self._next
        for listener in listeners:
            if getattr(listener, "epoch", None) != epoch:
                listener.set_epoch(epoch)
            self._left[id(listener)] = epoch
        self._next = epoch + 1
        return epoch


def _epoch_listeners(loader: Any) -> list[Any]:
    """What of a loader has set_epoch: itself, its samplers, the sampler within, its dataset."""
    batch_sampler = getattr(loader, "batch_sampler", None)
    candidates = [
        loader,
        getattr(loader, "sampler", None),
        batch_sampler,
        getattr(batch_sampler, "sampler", None),
        getattr(loader, "dataset", None),
    ]
    found: list[Any] = []
    for candidate in candidates:
        if callable(getattr(candidate, "set_epoch", None)) and all(one is not candidate for one in found):
            found.append(candidate)
    return found
