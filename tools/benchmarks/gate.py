"""What the health gate costs: to the first step over bare torchrun, and among 64 hosts.

Bounds: boot and gate at most 2 s longer than torchrun alone, until two ranks on two hosts have reduced
something, in the medians of one run; 64 hosts, each with its own files, processes and connections on this one
machine, have their verdict within 20 s. Neither has an all-reduce of the gate's own, as all hosts are here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

from launcher.backends.local.layout import two_free_ports
from slipway.container import Container, Rendezvous, Task
from slipway.gate.pass_gate import Surroundings, pass_gate
from slipway.host_assembly import Assembly
from slipway.processes.supervise import StopRequest
from tools import ROOT
from tools.attack.real_ranks.local_hosts import await_boots, printed_by, run_torchrun, start_boots
from tools.benchmarks.measuring import Figure, medians

RUNS = 3
START_BOUND, HOSTS_BOUND, HOSTS = 2.0, 20.0, 64
SCRIPT = """
import sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
if dist.get_rank() == 0:
    print("STEP", time.time(), flush=True)
dist.destroy_process_group()
"""


def figures(folder: Path) -> Iterator[Figure]:
    """Both."""
    places = (folder / str(number) for number in count())
    kinds = {"torchrun": with_torchrun, "boot and gate": with_boots}
    actions = {kind: lambda start=start: first_step(next(places), start) for kind, start in kinds.items()}
    middle = medians(actions, RUNS, warm=False)
    beside = ", ".join(f"{kind} {took:.1f} s" for kind, took in middle.items())
    more = middle["boot and gate"] - middle["torchrun"]
    yield Figure("the first step, more than with torchrun", more, START_BOUND, " s", beside)
    yield Figure(f"{HOSTS} hosts have their verdict", among(HOSTS, folder), HOSTS_BOUND, " s")


def first_step(folder: Path, start: Callable[[Path], str]) -> float:
    """Seconds from the start of two hosts to the end of their ranks' first all-reduce."""
    folder.mkdir()
    started = time.time()
    return float(start(folder).partition("STEP ")[2].split()[0]) - started


def with_torchrun(folder: Path) -> str:
    """Torchrun alone."""
    return run_torchrun(folder, SCRIPT, 1)


def with_boots(folder: Path) -> str:
    """A boot with the gate on, for each host."""
    boots = start_boots(folder, SCRIPT, ["--gate", "on"], ranks=1)
    await_boots(boots, 300)
    return "".join(printed_by(folder, host) for host in boots)


def among(count: int, folder: Path) -> float:
    """Seconds until the last of so many hosts has passed the gate."""
    names = tuple(f"algo-{number}" for number in range(1, count + 1))
    rendezvous = Rendezvous("127.0.0.1", two_free_ports())

    def host(name: str) -> int | None:
        root = folder / name
        container = Container(root, names, name, "ml.m5.large", "lo", {}, {}, {})
        assembly = Assembly(container, rendezvous, "benchmark")
        held.append(assembly)
        environment = {"SLIPWAY_CHECKPOINT_DIR": str(root / "checkpoints"), "PATH": os.environ["PATH"]}
        task = Task("torchrun", 1, entry_point="train.py", gate="on")
        return pass_gate(
            Surroundings(task, container, rendezvous, ROOT, environment), assembly, StopRequest()
        )

    held: list[Assembly] = []
    started = time.monotonic()
    with ThreadPoolExecutor(count) as pool:
        passed = list(pool.map(host, names))
    took = time.monotonic() - started
    for assembly in held:
        assembly.close()
    if passed != [None] * count:
        raise SystemExit(f"the gate refused sound hosts: {passed}")
    return took
