"""One order of data for any number of ranks: of input files, and of samples.

`slipway.sorted_inputs` orders files, `slipway.GlobalSampler` samples. The sampler also knows how much of a
data set has been trained on, which a checkpoint keeps.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from slipway.errors import CheckpointError, SlipwayError
from slipway.training.agreement import SideGroup, host_name, rank_and_world_size, ranks_in_words

# The files of a channel, in one order on all ranks.


def sorted_inputs(where: str | os.PathLike[str], pattern: str = "*") -> list[str]:
    """The files of a channel or a folder whose names fit, sorted, the same list on all ranks.

    `where` is a channel's name ("train"), else a folder. Files in folders below it and behind links count.
    A pattern with a slash is for the whole path below it, else for the name. All ranks call it, and their
    lists are compared by names and sizes; those of a channel whose files are spread over the hosts
    (ShardedByS3Key) only within each host.

    Raises SlipwayError (DATA002) on all ranks where a list differs, with the host and the first name at
    odds; FileNotFoundError where there is no such channel or folder, where no file fits or where a link
    leads nowhere; where that is so on another rank, SlipwayError (NCCL006).
    """
    agreement = SideGroup()
    folder, entries, error = Path(), [], None
    try:
        folder = channel_folder(where, os.environ)
        entries = files_in(folder, pattern)
        if not entries:
            raise FileNotFoundError(f"no file in {folder} fits {pattern!r}, so there is nothing to train on")
    except OSError as raised:
        error = raised
    spread = error is None and is_sharded_channel(where, os.environ)
    _compare(agreement, where, entries, error, spread)
    return [str(folder / path) for path, _ in entries]


def channel_folder(where: str | os.PathLike[str], environment: Mapping[str, str]) -> Path:
    """The folder of a channel, by the environment that SageMaker gives, or else the folder itself.

    Raises FileNotFoundError with the channels that there are.
    """
    name = os.fspath(where)
    for spelled in (name.upper(), name.upper().replace("-", "_")):
        channel = environment.get(f"SM_CHANNEL_{spelled}")
        if channel:
            return Path(channel)
    if Path(name).is_dir():
        return Path(name)
    channels = sorted(key[len("SM_CHANNEL_") :] for key in environment if key.startswith("SM_CHANNEL_"))
    there = f"the job's channels are {', '.join(channels).lower()}" if channels else "the job has no channels"
    raise FileNotFoundError(f"{name} is neither a channel of this job nor a folder; {there}")


def is_sharded_channel(where: str | os.PathLike[str], environment: Mapping[str, str]) -> bool:
    """Whether each host has only a part of a channel's files, by what SageMaker wrote of the channels."""
    folder = environment.get("SM_INPUT_CONFIG_DIR")
    if not folder:
        return False
    try:
        channels: Any = json.loads((Path(folder) / "inputdataconfig.json").read_text("utf-8"))
    except (OSError, ValueError):
        return False
    channel = channels.get(os.fspath(where)) if isinstance(channels, dict) else None
    return isinstance(channel, dict) and channel.get("S3DistributionType") == "ShardedByS3Key"


def _compare(
    agreement: SideGroup,
    where: str | os.PathLike[str],
    entries: list[tuple[str, int]],
    error: OSError | None,
    spread: bool,
) -> None:
    own = {
        "host": host_name(),
        "error": f"{type(error).__name__}: {error}"[:300] if error is not None else None,
        "files": len(entries),
        "hash": fingerprint(entries),
        "spread": spread,
    }
    all_ranks = agreement.gather(own)
    if error is not None:
        raise error
    failed = [rank for rank, one in enumerate(all_ranks) if one["error"]]
    if failed:
        first = all_ranks[failed[0]]
        raise SlipwayError(
            "NCCL006",
            f"{ranks_in_words(failed)} could not list {os.fspath(where)}, so this rank ends as well. Rank "
            f"{failed[0]} on {first['host']} raised {first['error']}",
        )
    hosts = sorted({one["host"] for one in all_ranks}) if all_ranks[0]["spread"] else [None]
    for host in hosts:
        members = [rank for rank, one in enumerate(all_ranks) if host in (None, one["host"])]
        odd = [members[position] for position in odd_ones([all_ranks[rank]["hash"] for rank in members])]
        if odd:
            usual = next(rank for rank in members if rank not in odd)
            _refuse(agreement, where, entries, all_ranks, usual, odd)


def _refuse(
    agreement: SideGroup,
    where: str | os.PathLike[str],
    entries: list[tuple[str, int]],
    all_ranks: list[dict[str, Any]],
    usual: int,
    odd: list[int],
) -> None:
    at = _first_difference(agreement, entries, all_ranks, usual, odd[0])
    there = agreement.gather(list(entries[at]) if at < len(entries) else None)
    sound, other = (tuple(one) if one is not None else None for one in (there[usual], there[odd[0]]))
    hosts = list(dict.fromkeys(all_ranks[rank]["host"] for rank in odd))
    others = f" (and so on {', '.join(hosts[1:9])})" if len(hosts) > 1 else ""
    raise SlipwayError(
        "DATA002",
        f"the files of {os.fspath(where)} on {hosts[0]} ({ranks_in_words(odd)}) are not those of the other "
        f"hosts{others}: {difference(sound, other)} ({all_ranks[odd[0]]['files']:,} files there, "
        f"{all_ranks[usual]['files']:,} on {all_ranks[usual]['host']}). Ranks would have trained on other "
        "files than they share out. Give all hosts the same data, and let nothing write into the folder",
    )


def _first_difference(
    agreement: SideGroup,
    entries: list[tuple[str, int]],
    all_ranks: list[dict[str, Any]],
    usual: int,
    odd: int,
) -> int:
    """The first position at which two ranks' lists differ, found by halves: lists may be long."""
    low, high = 0, min(all_ranks[usual]["files"], all_ranks[odd]["files"])
    while low < high:
        middle = (low + high + 1) // 2
        hashes = agreement.gather(fingerprint(entries[:middle]))
        if hashes[usual] == hashes[odd]:
            low = middle
        else:
            high = middle - 1
    return low


# The files of a folder in one order, and where two such lists part. No network, no torch.


def files_in(folder: Path, pattern: str) -> list[tuple[str, int]]:
    """All files below a folder, through links too, whose name fits: path below it and bytes, sorted.

    A pattern with a slash is for the whole path, else for the name alone; `*` is as in a shell, and what
    begins with a dot is left out as there. The order is that of the names' bytes, on every system.

    Raises FileNotFoundError for a link that leads nowhere, and OSError for a folder that cannot be read.
    """
    found = []
    for file in _walk(folder, ()):
        path = file.relative_to(folder).as_posix()
        if fnmatchcase(path if "/" in pattern else file.name, pattern):
            try:
                found.append((path, file.stat().st_size))
            except FileNotFoundError:
                raise FileNotFoundError(
                    f"{file} is a link that leads nowhere, so training would fail at this file"
                ) from None
    return sorted(found, key=lambda entry: os.fsencode(entry[0]))


def _walk(folder: Path, above: tuple[tuple[int, int], ...]) -> Iterator[Path]:
    status = folder.stat()
    identity = (status.st_dev, status.st_ino)
    # A link to a folder that it lies in would be followed without end.
    if identity in above:
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                yield from _walk(Path(entry.path), (*above, identity))
            else:
                yield Path(entry.path)


def fingerprint(entries: Sequence[tuple[str, int]]) -> str:
    """The SHA-256 of names and sizes, in their order."""
    digest = hashlib.sha256()
    for path, size in entries:
        digest.update(os.fsencode(path) + b"\0" + str(size).encode() + b"\n")
    return digest.hexdigest()


def odd_ones(fingerprints: Sequence[str]) -> list[int]:
    """The positions that differ from what most have; of equally many, the first one's counts."""
    usual = max(fingerprints, key=lambda one: (fingerprints.count(one), -fingerprints.index(one)))
    return [position for position, one in enumerate(fingerprints) if one != usual]


def difference(usual: tuple[str, int] | None, odd: tuple[str, int] | None) -> str:
    """In words how the first entries that differ do; None is the end of a list.

    >>> difference(("a.tar", 5), ("b.tar", 7))
    'it lacks a.tar'
    """
    if usual is not None and (odd is None or os.fsencode(usual[0]) < os.fsencode(odd[0])):
        return f"it lacks {usual[0]}"
    assert odd is not None
    if usual is not None and usual[0] == odd[0]:
        return f"{odd[0]} has {odd[1]:,} bytes there and {usual[1]:,} elsewhere"
    return f"it alone has {odd[0]}"


# One order of a data set for any number of ranks, and how much of it has been trained on.


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
        rank, world_size = rank_and_world_size()
        if self.global_batch % world_size:
            raise ValueError(
                f"a global batch of {self.global_batch} is not a multiple of {world_size} ranks: some would "
                f"weigh more than others. Choose a multiple of {world_size}"
            )
        return rank, world_size
