"""What slipway.guard and slipway.even_batches add to a training step of 10 ms, over two ranks with gloo.

It counts the processor's time of the thread that trains: what the other programs of a busy machine take does
not count, nor gloo's own threads, which run beside the step, nor waiting, of which these two do none within a
step (not_finite="skip" and out_of_memory="split" do). Plain blocks of steps and others take turns within one
run, and the median of the differences counts. Exits with 1 over a bound.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

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

    def plain() -> None:
        for batch in DataLoader(Stream(), batch_size=1):
            optimizer.zero_grad()
            loss_of(batch).backward()
            optimizer.step()

    def guarded(guard: slipway.guard) -> Callable[[], None]:
        def run() -> None:
            for batch in DataLoader(Stream(), batch_size=1):
                guard.step(batch, loss_of)

        return run

    batches = slipway.even_batches(DataLoader(Stream(), batch_size=1))

    def even() -> None:
        for batch in batches:
            optimizer.zero_grad()
            loss_of(batch).backward()
            optimizer.step()

    runs = {
        "guard": guarded(slipway.guard(model, optimizer)),
        "even_batches": even,
        "guard, not_finite=skip": guarded(slipway.guard(model, optimizer, not_finite="skip")),
        "out_of_memory=split": guarded(slipway.guard(model, optimizer, out_of_memory="split")),
    }
    over = False
    for name, run in runs.items():
        differences = [_seconds(run) - _seconds(plain) for _ in range(BLOCKS)]
        added, bound = statistics.median(differences) / BLOCK / STEP, BOUNDS[name]
        if rank == 0:
            limit = f"bound {100 * bound:.0f} %" if bound is not None else "no bound"
            print(f"{name:24} {100 * added:+.2f} % of a step of {1000 * STEP:.0f} ms ({limit})", flush=True)
        over = over or (bound is not None and added > bound)
    dist.destroy_process_group()
    sys.exit(over)


def _seconds(run: Callable[[], None]) -> float:
    begun = time.thread_time()
    run()
    return time.thread_time() - begun


def main() -> int:
    """Start the ranks; 1 where one of them is over a bound."""
    with tempfile.TemporaryDirectory() as folder:
        rendezvous = str(Path(folder) / "rendezvous")
        ranks = [subprocess.Popen([sys.executable, __file__, str(rank), rendezvous]) for rank in range(RANKS)]
        return max(rank.wait() for rank in ranks)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _rank(int(sys.argv[1]), sys.argv[2])
    sys.exit(main())
