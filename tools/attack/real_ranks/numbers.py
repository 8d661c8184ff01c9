"""Trouble in the data, the numbers or the memory of one rank: does the job end, or go on, as it should?

    python -m tools.attack.real_ranks.numbers                         # all cases; `make numbers`
    python -m tools.attack.real_ranks.numbers "loss" --times 5

Real ranks over gloo, two hosts of two ranks on this machine, each host with a boot of its own and the script
under torchrun. Without what the script calls of `slipway`, most of these jobs would end in a timeout. The
last case stops a job while it saves, and looks at what lies on the disks. Needs torch and the standard
library alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import signal
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.attack.real_ranks.local_hosts import (
    Boots,
    await_boots,
    failure_of,
    printed_by,
    start_boots,
)

LONGEST_SECONDS = 200.0
_SAID = re.compile(r"(?m)^(?:\[rank\d+\]:)?said (?P<what>.*)$")

SCRIPT = """
import hashlib, math, os, random, resource, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import *
import slipway

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(7)


def distributed(*layers):
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def say(*words):
    print("said", *words, flush=True)


def digest(model):
    flat = torch.cat([each.detach().flatten() for each in model.parameters()])
    assert torch.isfinite(flat).all(), "weights that are not finite"
    return hashlib.sha256((flat * 1e4).round().numpy().tobytes()).hexdigest()[:16]


{body}
dist.barrier()
dist.destroy_process_group()
"""

TRAINING = """
model, optimizer = distributed(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
manager = slipway.CheckpointManager()
broken = {13}


def back():
    manager.wait()
    say("back to step", manager.resume(model=model, optimizer=optimizer).step)


def loss_of(part):
    factor = math.nan if rank == 2 and step in broken else 1.0
    broken.discard(step if rank == 2 else None)
    return model(part).square().mean() * factor


guard = slipway.guard(model, optimizer, ARGUMENTS)
with guard:
    for step in range(1, 31):
        guard.step(torch.randn(8, 16), loss_of)
        if step % 5 == 0 and guard.settle():
            manager.save(step, model=model, optimizer=optimizer)
manager.wait()
say("trained", digest(model))
"""

MEMORY = """
model, optimizer = distributed(torch.nn.Linear(16, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1))
guard = slipway.guard(model, optimizer, ARGUMENTS)
with guard:
    for step in range(1, 4):
        torch.manual_seed(100 * step + rank)
        batch = torch.randn(SAMPLES, 16)
        if step == 2 and rank == 2 and LIMITED:
            used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + 200 * 2**20, resource.RLIM_INFINITY))
        guard.step(batch, lambda part: model(part).square().mean())
say("trained", digest(model))
"""

UNEVEN = """
class Stream(IterableDataset):
    def __init__(self, samples):
        self.samples = samples

    def __iter__(self):
        worker = get_worker_info()
        parts, part = (worker.num_workers, worker.id) if worker else (1, 0)
        return iter(torch.arange(self.samples)[part::parts])


samples = 8 + 8 * rank
own = TensorDataset(torch.arange(samples))
everything = TensorDataset(torch.arange(90))
loaders = {
    "sequential": DataLoader(own, batch_size=4),
    "shuffled": DataLoader(own, batch_size=4, shuffle=True),
    "slice": DataLoader(Subset(everything, range(rank * 9, rank * 9 + samples)), batch_size=4),
    "weighted": DataLoader(own, batch_size=4, sampler=WeightedRandomSampler(torch.ones(samples), samples)),
    "random subset": DataLoader(own, batch_size=4, sampler=SubsetRandomSampler(range(samples))),
    "batch sampler": DataLoader(own, batch_sampler=BatchSampler(SequentialSampler(own), 4, False)),
    "distributed sampler over files of its own": DataLoader(
        TensorDataset(torch.arange(4 * samples)), batch_size=4,
        sampler=DistributedSampler(TensorDataset(torch.arange(4 * samples))),
    ),
    "drop_last": DataLoader(own, batch_size=5, drop_last=True),
    "workers": DataLoader(own, batch_size=4, num_workers=1),
    "iterable": DataLoader(Stream(samples), batch_size=4),
    "iterable with workers": DataLoader(Stream(samples), batch_size=4, num_workers=2),
    "list": [torch.arange(4)] * (samples // 4),
    "even already": DataLoader(everything, batch_sampler=slipway.GlobalSampler(everything, 12)),
}
for name, loader in loaders.items():
    model, optimizer = distributed(torch.nn.Linear(1, 1))
    arguments = {"model": model} if MODE == "join" else {}
    batches = slipway.even_batches(loader, MODE, **arguments)
    for epoch in range(2):
        steps = 0
        for batch in batches:
            inputs = (batch[0] if isinstance(batch, (list, tuple)) else batch).float().reshape(-1, 1)
            optimizer.zero_grad()
            model(inputs).square().mean().mul(1e-6).backward()
            optimizer.step()
            steps += 1
        say(f"{name}: epoch {epoch}: rank {rank}: {steps} of {-(-samples // 4)}")
"""

SAVING = """
model, optimizer = distributed(torch.nn.Linear(16, 16))
manager = slipway.CheckpointManager(keep=2)
begun = manager.resume(model=model, optimizer=optimizer)
extra = {"ballast": torch.randn(BALLAST)}
first = begun.step if begun else 0
say("from", first)
for step in range(first + 1, first + (4 if begun else 2000)):
    optimizer.zero_grad()
    model(torch.randn(4, 16)).square().mean().backward()
    optimizer.step()
    manager.save(step, model=model, optimizer=optimizer, extra=extra)
    say("saving", step)
manager.wait()
say("trained")
"""

Judge = Callable[[list[str]], str]


def equal_on_all_ranks(said: list[str]) -> str:
    """All four ranks have trained to the same weights."""
    ends = [line for line in said if line.startswith("trained ")]
    return "" if len(ends) == 4 and len(set(ends)) == 1 else f"the ranks end with {ends}"


def _as_many_steps(which: Callable[[list[int]], list[int]]) -> Judge:
    """A judge of uneven loaders: the steps of the four ranks are those that `which` makes of their own."""

    def judge(said: list[str]) -> str:
        epochs: dict[str, dict[int, int]] = {}
        for line in said:
            name, epoch, rank, steps = line.split(": ")
            epochs.setdefault(f"{name}, {epoch}", {})[int(rank[5:])] = int(steps.split()[0])
        wrong = [] if len(epochs) == 26 else [f"{len(epochs)} epochs of 26"]
        for name, ranks in sorted(epochs.items()):
            expected = which(_OWN_STEPS.get(name.split(",")[0], [2, 4, 6, 8]))
            if [ranks.get(rank) for rank in range(4)] != expected:
                wrong.append(f"{name}: {ranks}, not {expected}")
        return "; ".join(wrong)

    return judge


_OWN_STEPS = {"drop_last": [1, 3, 4, 6], "even already": [7, 7, 7, 7]}
"""The batches of each rank where they are not those of 8, 16, 24 and 32 samples by 4."""


@dataclass(frozen=True)
class Case:
    """What a script does, and what is to come of it: without a `code` the job succeeds and `judge` finds
    nothing wrong with what the ranks say, else its failure files begin with that and hold all of `says`."""

    name: str
    body: str
    code: str | None = None
    says: tuple[str, ...] = ()
    judge: Judge = equal_on_all_ranks


def _memory(arguments: str, limited: bool = True) -> str:
    whole = MEMORY.replace("ARGUMENTS", arguments).replace("LIMITED", str(limited))
    return whole.replace("SAMPLES", str(2**16))


CASES = (
    Case(
        "a loss that is not finite ends the job",
        TRAINING.replace("ARGUMENTS", ""),
        "NUM001",
        ("rank 2", "step 13"),
    ),
    Case(
        "a loss that is not finite is skipped by all",
        TRAINING.replace("ARGUMENTS", 'not_finite="skip"'),
    ),
    Case(
        "a loss that is not finite sends all back to the last checkpoint",
        TRAINING.replace("ARGUMENTS", 'not_finite="restore", restore=back'),
        judge=lambda said: (
            equal_on_all_ranks(said)
            or ("" if said.count("back to step 10") == 4 else "not all went back to step 10")
        ),
    ),
    Case("memory that one rank lacks ends the job", _memory(""), "MEM002", ("rank 2", "asked for")),
    Case("memory that one rank lacks has all split their batch", _memory('out_of_memory="split"')),
    Case("memory enough splits nothing", _memory('out_of_memory="split"', limited=False)),
    Case(
        "uneven loaders, padded",
        UNEVEN.replace("MODE", '"pad"'),
        judge=_as_many_steps(lambda own: [max(own)] * 4),
    ),
    Case(
        "uneven loaders, cut",
        UNEVEN.replace("MODE", '"drop"'),
        judge=_as_many_steps(lambda own: [min(own)] * 4),
    ),
    Case("uneven loaders, joined", UNEVEN.replace("MODE", '"join"'), judge=_as_many_steps(lambda own: own)),
)


def run(case: Case, folder: Path) -> str:
    """One job of this case to its end; what is wrong with it, nothing where it went as it should."""
    codes = await_boots(_boots(case.body, folder), LONGEST_SECONDS)
    said = _said(folder)
    wrong = []
    for host, code in codes.items():
        reason = failure_of(folder, host)
        if case.code is None:
            if code != 0 or reason:
                wrong.append(f"algo-{host} ended with {code}: {reason[:300]!r}")
        elif code in (0, None):
            wrong.append(f"algo-{host} ended with {code}")
    if case.code is not None:
        reasons = [each.read_text() for each in folder.glob("algo-*/output/failure")]
        if not any(
            each.startswith(case.code) and all(word in each for word in case.says) for each in reasons
        ):
            wrong.append(f"the reasons are {[each[:300] for each in reasons]}")
    elif not wrong:
        wrong += [found for found in [case.judge(said)] if found]
    return "; ".join(wrong)


def stopped_while_saving(folder: Path, seed: int) -> str:
    """A job that saves without a pause gets SIGTERM at a random moment: each checkpoint on its disks is whole
    or does not count, and the next start goes on from the newest one."""
    chance = random.Random(seed)
    body = SAVING.replace("BALLAST", str(chance.choice([10_000, 1_000_000, 5_000_000])))
    boots = _boots(body, folder)
    until = time.monotonic() + LONGEST_SECONDS
    while "said saving 2" not in printed_by(folder, 1):
        if time.monotonic() > until or any(boot.poll() is not None for boot in boots.values()):
            break
        time.sleep(0.05)
    time.sleep(chance.uniform(0.0, 1.5))
    for boot in boots.values():
        boot.send_signal(signal.SIGTERM)
    first = await_boots(boots, LONGEST_SECONDS)
    wrong = [f"algo-{host} was stopped and ended with {code}" for host, code in first.items() if code != 143]
    newest, broken = checkpoints_in(folder)
    wrong += broken
    for each in folder.glob("algo-*.log"):
        each.rename(each.with_suffix(".first"))
    second = await_boots(_boots(body, folder), LONGEST_SECONDS)
    wrong += [f"algo-{host} went on and ended with {code}" for host, code in second.items() if code != 0]
    begun = set(_said(folder))
    if f"from {newest}" not in begun:
        wrong.append(f"it went on {sorted(begun)[:1]}, the newest checkpoint is of step {newest}")
    return "; ".join([*wrong, *checkpoints_in(folder)[1]])


def checkpoints_in(folder: Path) -> tuple[int, list[str]]:
    """The newest step with a manifest, and which files are not what their manifest says."""
    newest, wrong = 0, []
    for manifest in folder.glob("algo-*/checkpoints/step-*/manifest.json"):
        told = json.loads(manifest.read_text())
        newest = max(newest, told["step"])
        for file in told["files"]:
            path = manifest.parent / file["name"]
            if file["host"] == manifest.parents[2].name:
                found = path.read_bytes() if path.exists() else b""
                if (len(found), hashlib.sha256(found).hexdigest()) != (file["bytes"], file["sha256"]):
                    wrong.append(f"{path} is not what its manifest says")
    return newest, wrong


def _boots(body: str, folder: Path) -> Boots:
    script = SCRIPT.replace("{body}", textwrap.dedent(body))
    return start_boots(folder, script, ["--watchdog-stall", "60", "--watchdog-first-step", "120"])


def _said(folder: Path) -> list[str]:
    return [match["what"] for host in (1, 2) for match in _SAID.finditer(printed_by(folder, host))]


def campaign(cases: Sequence[Case], times: int, stops: int) -> Iterator[tuple[str, str]]:
    """Every case so many times, then the stops; each with what went wrong."""
    for case in [*cases] * times:
        with tempfile.TemporaryDirectory(prefix="numbers-") as folder:
            yield case.name, run(case, Path(folder))
    for seed in range(stops):
        with tempfile.TemporaryDirectory(prefix="stops-") as folder:
            yield f"stopped while saving, {seed}", stopped_while_saving(Path(folder), seed)


def main() -> int:
    """Run the cases that are named, or all; 1 where something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.attack.real_ranks.numbers")
    parser.add_argument("cases", nargs="*", help="beginnings of cases' names; all without")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--stops", type=int, default=20, help="stops of jobs that save")
    options = parser.parse_args()
    cases = [case for case in CASES if not options.cases or case.name.startswith(tuple(options.cases))]
    failed = 0
    for name, wrong in campaign(cases, options.times, options.stops):
        failed += bool(wrong)
        print(f"{name}: {wrong or 'right'}", flush=True)
    print(f"{failed} wrong")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
