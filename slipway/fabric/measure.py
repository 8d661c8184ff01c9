"""The program of `launch proof`: all-reduces of rising size over all ranks, then between pairs of hosts.

Each size is reduced several times without a pause in between, timed as a whole by CUDA events, on CPUs by the
processor's clock; the slowest rank's time counts. Bus bandwidth is what nccl-tests calls so (PERFORMANCE.md
there): bytes over seconds, times 2 (n - 1) / n for n ranks, which makes it the rate of the links of a ring,
whatever n is. What was measured is one line on stdout, RECORD and a JSON object, and a file in the job's
output folder.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from slipway.errors import say
from slipway.fabric.storage import measure_storage

RECORD = "slipway proof: "
"""What the line with the record begins with; the launcher looks for it (launcher/experiments)."""

FILE_NAME = "proof.json"
"""The record's file in the job's output folder."""

MIB = 1024 * 1024
LEAST_BYTES, MOST_BYTES = MIB, 4096 * MIB
"""The sizes that are reduced: below a megabyte latency counts and not the network, above 4 GB nothing
changes any more."""

MOST_BYTES_ON_CPUS = 64 * MIB
"""Where there is no GPU: gloo over loopback or Ethernet is at its best long before."""

PAIR_BYTES = 256 * MIB
"""What pairs of hosts reduce; published curves are at 70 to 90 % of their best there."""

MOST_ROUNDS = 15
"""Rounds of pairs: up to 16 hosts each meets each; with more, each meets 15 others, which is enough to tell
a host that is slow with all of them from one that met a slow one."""

LEAST_TIMES, MOST_TIMES = 3, 20
SECONDS_PER_SIZE = 2.0
"""A size is reduced as often as fits into this, from LEAST_TIMES to MOST_TIMES (nccl-tests' default)."""

LONGEST_SECONDS = 15.0
"""After a size that took longer than this for one all-reduce there is no larger one."""

_PATIENCE = datetime.timedelta(minutes=10)


class Measured(NamedTuple):
    """All-reduces of one size: the bytes of each rank's buffer, the seconds of one, the bus bandwidth in GB/s
    (10^9 bytes)."""

    bytes: int
    seconds: float
    busbw: float


class Peers:
    """The ranks of this job, their hosts, and how they reduce."""

    def __init__(self, dist: Any, torch: Any, device: Any) -> None:
        self.dist, self.torch, self.device = dist, torch, device
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        names: list[Any] = [None] * self.ranks
        dist.all_gather_object(names, host_name(os.environ))
        self.hosts = list(dict.fromkeys(names))
        self.ranks_of = {host: [rank for rank, name in enumerate(names) if name == host] for host in names}
        self.host = names[self.rank]

    @property
    def is_first_on_host(self) -> bool:
        """Whether this rank speaks for its host."""
        return bool(self.ranks_of[self.host][0] == self.rank)

    def barrier(self) -> None:
        """Wait for all ranks."""
        self.longest(0.0)

    def longest(self, seconds: float, group: Any = None) -> float:
        """The longest of what the ranks of a group measured; the same number on all of them."""
        told = self.torch.tensor([seconds], dtype=self.torch.float64, device=self.device)
        self.dist.all_reduce(told, op=self.dist.ReduceOp.MAX, group=group)
        return float(told.item())

    def gather(self, told: Any) -> list[Any]:
        """What each rank tells, by rank."""
        answers: list[Any] = [None] * self.ranks
        self.dist.all_gather_object(answers, told)
        return answers

    def measure(self, buffer: Any, ranks: int, group: Any = None) -> Measured:
        """Reduce a buffer over a group of so many ranks, again and again."""
        size = buffer.numel() * buffer.element_size()
        # The first one connects; the second says how long one takes.
        self._seconds(buffer, 1, group)
        trial = self.longest(self._seconds(buffer, 1, group), group)
        seconds = trial
        if trial < LONGEST_SECONDS:
            times = times_for(trial)
            seconds = self.longest(self._seconds(buffer, times, group), group) / times
        return Measured(size, seconds, bus_bandwidth(size, seconds, ranks))

    def _seconds(self, buffer: Any, times: int, group: Any) -> float:
        """How long this rank is busy with so many all-reduces."""
        if self.device.type != "cuda":
            begun = time.perf_counter()
            for _ in range(times):
                self.dist.all_reduce(buffer, group=group)
            return time.perf_counter() - begun
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(times):
            self.dist.all_reduce(buffer, group=group)
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1000


def main(words: Sequence[str] | None = None) -> None:
    """Measure, print the record and write it; one process for each rank, started by torchrun."""
    asked = _parser().parse_args(words)
    import torch
    import torch.distributed as dist

    on_gpus = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if on_gpus else torch.device("cpu")
    if on_gpus:
        torch.cuda.set_device(device)
    backend = "nccl" if on_gpus else "gloo"
    dist.init_process_group(backend, timeout=_PATIENCE)
    try:
        peers = Peers(dist, torch, device)
        most = asked.up_to or (MOST_BYTES if on_gpus else MOST_BYTES_ON_CPUS)
        record = {
            "version": 1,
            "backend": backend,
            "instance_type": asked.instance_type,
            "gbps": asked.gbps,
            "at_least": asked.at_least,
            "hosts": peers.hosts,
            "ranks": peers.ranks,
            **_measure_network(peers, asked, most),
            "storage": measure_storage(
                peers, asked.folder, asked.checkpoints, asked.storage_bytes, os.environ
            ),
        }
        if peers.rank == 0:
            _publish(record)
    finally:
        dist.destroy_process_group()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure the network between hosts, and their storage.")
    parser.add_argument("--instance-type", default=None)
    parser.add_argument("--gbps", type=float, default=None, help="what the interfaces of a host can send")
    parser.add_argument("--at-least", type=float, default=0.5, help="the share of the limit that is enough")
    parser.add_argument("--from", dest="from_", type=int, default=LEAST_BYTES, help="bytes")
    parser.add_argument("--up-to", type=int, default=None, help="bytes")
    parser.add_argument("--pairs-below", type=float, default=0.0, help="GB/s of bus bandwidth")
    parser.add_argument("--pair-bytes", type=int, default=PAIR_BYTES)
    parser.add_argument("--folder", action="append", default=[], help="NAME=PATH of what hosts share")
    parser.add_argument("--checkpoints", action="store_true", help="the job's place for checkpoints as well")
    parser.add_argument("--storage-bytes", type=int, default=1024 * MIB, help="that each host writes")
    return parser


def _measure_network(peers: Peers, asked: argparse.Namespace, most: int) -> dict[str, Any]:
    buffer = peers.torch.zeros(most // 4, dtype=peers.torch.float32, device=peers.device)
    curve: list[Measured] = []
    for size in sizes_between(asked.from_, most):
        curve.append(peers.measure(buffer[: size // 4], peers.ranks))
        if peers.rank == 0:
            _tell(curve[-1])
        if curve[-1].seconds >= LONGEST_SECONDS:
            break
    best = max((each.busbw for each in curve), default=0.0)
    pairs: list[tuple[int, int, float]] = []
    pair_bytes = min(asked.pair_bytes, curve[-1].bytes if curve else most)
    # Of two hosts the pair is what was measured already.
    if best < asked.pairs_below and len(peers.hosts) > 2:
        if peers.rank == 0:
            say(f"{best:.3g} GB/s is less than {asked.pairs_below:.3g}: the hosts are measured in pairs")
        pairs = _measure_pairs(peers, buffer[: pair_bytes // 4])
    return {
        "curve": [[each.bytes, _short(each.seconds), _short(each.busbw)] for each in curve],
        "pair_bytes": pair_bytes if pairs else None,
        "pairs": pairs,
    }


def _tell(measured: Measured) -> None:
    size = measured.bytes / MIB
    print(f"{size:,.0f} MiB  {1000 * measured.seconds:,.2f} ms  {measured.busbw:.4g} GB/s", flush=True)


def _measure_pairs(peers: Peers, buffer: Any) -> list[tuple[int, int, float]]:
    """The bus bandwidth of each pair of hosts, by their places in `peers.hosts`."""
    mine: list[tuple[int, int, float]] = []
    for pairs in rounds_of_pairs(len(peers.hosts), MOST_ROUNDS):
        own = None
        for first, second in pairs:
            ranks = sorted(peers.ranks_of[peers.hosts[first]] + peers.ranks_of[peers.hosts[second]])
            # Every rank has to call it, also for groups of others.
            group = peers.dist.new_group(ranks, timeout=_PATIENCE)
            if peers.rank in ranks:
                own = (first, second, len(ranks), group)
        peers.barrier()
        if own is not None:
            first, second, count, group = own
            measured = peers.measure(buffer, count, group)
            if peers.rank == peers.ranks_of[peers.hosts[first]][0]:
                mine.append((first, second, _short(measured.busbw)))
            peers.dist.destroy_process_group(group)
    return sorted(pair for told in peers.gather(mine) for pair in told)


def _publish(record: dict[str, Any]) -> None:
    text = json.dumps(record, separators=(",", ":"))
    print(RECORD + text, flush=True)
    folder = os.environ.get("SM_OUTPUT_DATA_DIR")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / FILE_NAME).write_text(text + "\n", encoding="utf-8")


def host_name(environment: Any) -> str:
    """What this rank's host is called: by the job (algo-1), else by its number among torchrun's groups."""
    named = environment.get("SM_CURRENT_HOST")
    return str(named or f"host-{int(environment.get('GROUP_RANK', '0')) + 1}")


def bus_bandwidth(size: int, seconds: float, ranks: int) -> float:
    """GB/s (10^9 bytes) of the links of a ring that reduces so many bytes in so many seconds.

    >>> bus_bandwidth(1_000_000_000, 1.0, 16)
    1.875
    """
    return size / max(seconds, 1e-9) * 2 * (ranks - 1) / ranks / 1e9


def times_for(trial: float) -> int:
    """How often a size is reduced of which one all-reduce took so many seconds.

    >>> times_for(0.001), times_for(0.2), times_for(3.0)
    (20, 10, 3)
    """
    return max(LEAST_TIMES, min(MOST_TIMES, int(SECONDS_PER_SIZE / max(trial, 1e-9))))


def sizes_between(least: int, most: int) -> Iterator[int]:
    """Bytes, each twice the one before, from `least` to `most`; whole numbers of 4 bytes.

    >>> [size // MIB for size in sizes_between(MIB, 4 * MIB)]
    [1, 2, 4]
    """
    size = max(4, least // 4 * 4)
    while size <= most:
        yield size
        size *= 2


def rounds_of_pairs(hosts: int, most: int) -> Iterator[list[tuple[int, int]]]:
    """Pairs of hosts by their numbers, round by round: in a round no host is in two pairs.

    All N - 1 rounds of an even number of hosts, N of an odd one, have each pair once (the circle method: one
    stands still, the others go round); `most` ends them earlier.

    >>> list(rounds_of_pairs(4, 9))
    [[(0, 3), (1, 2)], [(0, 2), (1, 3)], [(0, 1), (2, 3)]]
    """
    seats = list(range(hosts + hosts % 2))
    for _ in range(min(len(seats) - 1, most)):
        pairs = [(min(pair), max(pair)) for pair in zip(seats, reversed(seats))][: len(seats) // 2]
        # With an odd number of hosts, whoever meets the empty seat rests.
        yield sorted(pair for pair in pairs if pair[1] < hosts)
        seats = [seats[0], seats[-1], *seats[1:-1]]


def _short(number: float) -> float:
    """Five digits, which is more than any measurement here is worth."""
    return float(f"{number:.5g}") if math.isfinite(number) else 0.0


if __name__ == "__main__":
    main()
