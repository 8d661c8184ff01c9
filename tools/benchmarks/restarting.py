"""How long a job stands still when one of its ranks is killed: from SIGKILL to the next step.

Bound: at most 5 s longer than the same script needs from the start of torchrun alone to its first step, in
the medians of one run. Two hosts of two ranks are this machine; the next step is that of the ranks which the
boots have started again, after both hosts have agreed and the newest checkpoint has been read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from tools.attack.real_ranks.local_hosts import await_boots, printed_by, run_torchrun, start_boots
from tools.benchmarks.measuring import Figure, medians

RUNS = 3
BOUND_SECONDS = 5.0
SCRIPT = """
import os, signal, time
import torch
import torch.distributed as dist
import slipway

attempt = int(os.environ.get("SLIPWAY_ATTEMPT", "0"))
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
manager = slipway.CheckpointManager()
begin = manager.resume(model=model, optimizer=optimizer)
for step in range(begin.step if begin else 0, 40):
    optimizer.zero_grad()
    model(torch.ones(4, 16)).sum().backward()
    for each in model.parameters():
        dist.all_reduce(each.grad)
    optimizer.step()
    if rank == 0:
        print(f"STEP {attempt} {time.time():.3f}", flush=True)
    if step + 1 == 20:
        manager.save(step + 1, model=model, optimizer=optimizer)
        manager.wait()
    if rank == 3 and step == 25 and not attempt and os.environ.get("KILLED"):
        print(f"KILLED 0 {time.time():.3f}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
dist.destroy_process_group()
"""


def from_start(folder: Path) -> float:
    """Seconds from the start of torchrun alone, on both hosts, to the end of the first step."""
    folder.mkdir()
    started = time.time()
    variables = {"SLIPWAY_CHECKPOINT_DIR": str(folder / "checkpoints")}
    return first("STEP", 0, run_torchrun(folder, SCRIPT, 2, variables)) - started


def from_kill(folder: Path) -> float:
    """Seconds from the SIGKILL of one rank to the end of the next step of the ranks started again."""
    folder.mkdir()
    codes = await_boots(start_boots(folder, SCRIPT, ["--restarts", "1"], lambda _: {"KILLED": "1"}), 300)
    printed = "".join(printed_by(folder, host) for host in codes)
    if any(codes.values()):
        raise SystemExit(f"the job did not go on: {printed[-20000:]}")
    return first("STEP", 1, printed) - first("KILLED", 0, printed)


def first(word: str, attempt: int, printed: str) -> float:
    """When something happened first in an attempt."""
    return min(float(at) for at in re.findall(rf"{word} {attempt} (\d+\.\d+)", printed))


def figures(folder: Path) -> Iterator[Figure]:
    """How much longer the one takes than the other."""
    places = (folder / str(number) for number in count())
    actions = {
        "torchrun's start to the first step": lambda: from_start(next(places)),
        "SIGKILL to the next step": lambda: from_kill(next(places)),
    }
    start, back = (middle := medians(actions, RUNS, warm=False)).values()
    beside = ", ".join(f"from {what} {took:.1f} s" for what, took in middle.items())
    yield Figure("a job stands still, more than a start takes", back - start, BOUND_SECONDS, " s", beside)
