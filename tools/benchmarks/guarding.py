"""What slipway.guard and slipway.even_batches add to a training step of 10 ms, over two ranks with gloo.

It counts the processor's time of the thread that trains: what the other programs of a busy machine take does
not count, nor gloo's own threads, which run beside the step, nor waiting, of which these two do none within a
step (not_finite="skip" and out_of_memory="split" do). Plain blocks of steps and others take turns within one
run, and the median of the differences counts.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from tools.benchmarks.measuring import Figure, run_process, seconds_of

RANKS = 2
STEP = 0.010
BLOCK = 200
BLOCKS = 12
BOUNDS = {"guard": 0.01, "even_batches": 0.02, "guard, not_finite=skip": None, "out_of_memory=split": None}
"""The part of a step of 10 ms that each may add; None is shown, and has no bound."""


def _rank(rank: int, rendezvous: str) -> None:
    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader, IterableDataset

    import slipway

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=RANKS)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)

    class Stream(IterableDataset[torch.Tensor]):
        def __iter__(self) -> Iterator[torch.Tensor]:
            return (torch.ones(8) for _ in range(BLOCK))

    def loss_of(batch: torch.Tensor) -> torch.Tensor:
        return model(batch).square().mean()

    def step(batch: torch.Tensor) -> None:
        optimizer.zero_grad()
        loss_of(batch).backward()
        optimizer.step()

    def over(batches: Iterable[torch.Tensor], step: Callable[[torch.Tensor], object]) -> Callable[[], None]:
        def run() -> None:
            for batch in batches:
                step(batch)

        return run

    loader = DataLoader(Stream(), batch_size=1)
    plain = over(loader, step)
    runs = {"even_batches": over(slipway.even_batches(loader), step)}
    for name, options in (
        ("guard", {}),
        ("guard, not_finite=skip", {"not_finite": "skip"}),
        ("out_of_memory=split", {"out_of_memory": "split"}),
    ):
        guard = slipway.guard(model, optimizer, **options)
        runs[name] = over(loader, lambda batch, guard=guard: guard.step(batch, loss_of))
    added = {
        name: median(
            seconds_of(run, time.thread_time) - seconds_of(plain, time.thread_time) for _ in range(BLOCKS)
        )
        for name, run in runs.items()
    }
    dist.destroy_process_group()
    print(json.dumps(added))


def figures(folder: Path) -> Iterator[Figure]:
    """What each adds on the rank where it adds most."""

    def ran(rank: int) -> dict[str, float]:
        command = [sys.executable, "-m", "tools.benchmarks.guarding", str(rank), folder / "rendezvous"]
        added: dict[str, float] = json.loads(run_process(command).printed)
        return added

    with ThreadPoolExecutor(RANKS) as pool:
        ranks = list(pool.map(ran, range(RANKS)))
    for name, bound in BOUNDS.items():
        share = 100 * max(added[name] for added in ranks) / BLOCK / STEP
        what = f"{name}, of a step of {1000 * STEP:.0f} ms"
        yield Figure(what, share, None if bound is None else 100 * bound, " %")


if __name__ == "__main__":
    _rank(int(sys.argv[1]), sys.argv[2])
