"""One order of a data set for any number of ranks, and how much of it has been trained on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Any, TypeVar

from slipway.checkpoints.connection import ranks
from slipway.checkpoints.errors import CheckpointError

Batch = TypeVar("Batch")

_MAX_EPOCH = 2**40


class GlobalSampler:
    """Batches of one global order: each step, all ranks together take its next `global_batch` samples.

    For `DataLoader(dataset, batch_sampler=sampler)`. The order depends on `seed` and epoch alone, so a job
    that continues with another number of ranks takes exactly the samples that are missing. Every pass is
    the next epoch by itself. What is left of an epoch that fills no global batch is left out: every rank
    gets as many batches as the others.

    Train over `sampler.follow(loader)`: a loader reads ahead, and only what was handed to the loop counts.
    `epoch` is the one that training is in, 0 at first.

    Raises ValueError where the ranks cannot share a global batch evenly, or the data set has fewer samples
    than one.
    """

    def __init__(self, dataset: Sized, global_batch: int, *, shuffle: bool = True, seed: int = 0) -> None:
        self.global_batch, self.shuffle, self.seed, self.length = global_batch, shuffle, seed, len(dataset)
        self.epoch = 0
        self.samples = 0
        self._started = False
        self._followed = False
        if global_batch < 1 or self.length < global_batch:
            raise ValueError(
                f"a global batch of {global_batch} cannot be taken from {self.length} samples: no step "
                "would be made. Choose a global batch between 1 and the number of samples"
            )
        self._share()

    def __len__(self) -> int:
        """Steps until the end of the epoch, the same on every rank."""
        left = (self.length - self.samples) // self.global_batch
        return left or self.length // self.global_batch

    def __iter__(self) -> Iterator[list[int]]:
        """This rank's samples of each step until the end of the epoch."""
        self._started = True
        self._turn()
        rank, world_size = self._share()
        order, first = self._order(), self.samples
        for start in range(first, self.length - self.global_batch + 1, self.global_batch):
            yield [int(index) for index in order[start + rank : start + self.global_batch : world_size]]

    def follow(self, loader: Iterable[Batch]) -> Iterator[Batch]:
        """The loader's batches; each counts as trained on once the loop has it."""
        self._followed = True
        self._turn()
        for batch in self._begun(loader):
            self.samples += self.global_batch
            yield batch
        self._turn()

    def position(self) -> dict[str, Any]:
        """Where training stands, in global samples: for the manifest. Raises RuntimeError if not followed."""
        if self._started and not self._followed:
            raise RuntimeError(
                "the sampler does not know what was trained on, so a resumed job would repeat the epoch. "
                "Train with `for batch in sampler.follow(loader):`"
            )
        return {
            "epoch": self.epoch,
            "samples": self.samples,
            "length": self.length,
            "seed": self.seed,
            "shuffle": self.shuffle,
        }

    def check(self, position: dict[str, Any] | None) -> None:
        """Raises CheckpointError (CKPT009) where the order cannot go on from a position."""
        if position is None:
            raise CheckpointError(
                "CKPT009",
                "the checkpoint holds no position of a sampler, so samples would be trained on twice. Save "
                "with sampler=, or resume without it",
            )
        for name, own in (("length", self.length), ("seed", self.seed), ("shuffle", self.shuffle)):
            if position.get(name) != own or isinstance(position.get(name), bool) != isinstance(own, bool):
                raise CheckpointError(
                    "CKPT009",
                    f"the checkpoint's order of samples is another one: its {name} is "
                    f"{position.get(name)!r:.60}, the sampler's {own!r}. Samples would be left out or taken "
                    "twice. Give the sampler the same data set, seed and shuffle",
                )
        for name, highest in (("epoch", _MAX_EPOCH), ("samples", self.length)):
            value = position.get(name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= highest:
                raise CheckpointError(
                    "CKPT009",
                    f"the checkpoint's position is no place in the data: {name} is {value!r:.60}, not a "
                    f"number from 0 to {highest}. Take another checkpoint",
                )

    def restore(self, position: dict[str, Any]) -> None:
        """Go on from a position that `check` let pass."""
        self.epoch, self.samples = position["epoch"], position["samples"]
        self._turn()

    def _begun(self, loader: Iterable[Batch]) -> Iterator[Batch]:
        """The loader's iterator. A loader draws a random number when it begins (its workers' seed): in the
        middle of an epoch that was drawn before, so all later ones would be others than without a stop.
        """
        import torch

        state = torch.get_rng_state()
        batches = iter(loader)
        if self.samples:
            torch.set_rng_state(state)
        return batches

    def _turn(self) -> None:
        """Where no global batch is left in the epoch, the next one begins."""
        if self.length - self.samples < self.global_batch:
            self.epoch, self.samples = self.epoch + 1, 0

    def _order(self) -> Any:
        import torch

        if not self.shuffle:
            return range(self.length)
        generator = torch.Generator()
        # Seeds that are neighbours must not share orders: seed 1's epoch 0 is not seed 0's epoch 1.
        generator.manual_seed((self.seed * 1_000_003 + self.epoch) % 2**63)
        return torch.randperm(self.length, generator=generator)

    def _share(self) -> tuple[int, int]:
        rank, world_size = ranks()
        if self.global_batch % world_size:
            raise ValueError(
                f"a global batch of {self.global_batch} is not a multiple of {world_size} ranks: some would "
                f"weigh more than others. Choose a multiple of {world_size}"
            )
        return rank, world_size
