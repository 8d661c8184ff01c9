"""`slipway.even_batches`: one number of batches on all ranks."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

from slipway.agreement.group import SideGroup, ranks
from slipway.batches.counts import told, wanted
from slipway.batches.epochs import Epochs
from slipway.batches.lookahead import LookAhead
from slipway.batches.now import NOW
from slipway.errors import SlipwayError

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
        if mode != "join" and ranks()[1] > 1:
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
        if ranks()[1] == 1:
            return fetched(iter(self.loader))
        if self._mode == "join":
            return self._joined()
        counts = self._agree()
        if counts is None:
            return self._looking_ahead()
        return self._counted(counts)

    def _agree(self) -> list[int] | None:
        """Each rank's number of batches, by one all-reduce; None where a rank does not know its own."""
        if self._agreement is None:
            self._agreement = SideGroup()
        own = length_of(self.loader)
        counts = [int(row[0]) for row in self._agreement.ask([own])]
        if min(counts) < 0:
            self._length = -1
            return None
        self._length = wanted(self._mode, counts)
        self._say(told(self._mode, counts))
        return counts

    def _counted(self, counts: list[int]) -> Iterator[Any]:
        given = 0
        while given < self._length:
            before = given
            for batch in fetched(iter(self.loader)):
                yield batch
                given += 1
                if given == self._length:
                    return
            if self._mode == "drop" or given == before:
                own = counts[ranks()[0]]
                raise SlipwayError(
                    "DATA001",
                    f"the loader said that it has {own} batches and gave {given - before}, so the other "
                    f"ranks would wait for this one in step {given + 1}. Correct its __len__, or that of its "
                    "sampler or dataset",
                )

    def _looking_ahead(self) -> Iterator[Any]:
        assert self._agreement is not None
        ahead = LookAhead(self._agreement, lambda: fetched(iter(self.loader)), self._mode)
        yield from ahead
        self._say(told(self._mode, ahead.counts, at_least=self._mode == "drop"))

    def _joined(self) -> Iterator[Any]:
        from torch.distributed.algorithms.join import Join

        NOW.joining = True
        try:
            with Join([self._model]):
                yield from fetched(iter(self.loader))
        finally:
            NOW.joining = False

    def _say(self, line: str | None) -> None:
        if line is not None and not self._said and ranks()[0] == 0:
            print(f"slipway: {line}", file=sys.stderr, flush=True)
        self._said = self._said or line is not None


def fetched(iterator: Iterator[Any]) -> Iterator[Any]:
    """The same, with the time that it takes counted."""
    while True:
        begun = time.perf_counter()
        try:
            batch = next(iterator)
        except StopIteration:
            return
        finally:
            NOW.fetching += time.perf_counter() - begun
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
