"""What the health gate costs: to the first step over bare torchrun, and among 64 hosts.

Bounds: boot and gate at most 2 s longer than torchrun alone, until two ranks on two hosts have reduced
something, in the medians of one run; 64 hosts, each with its own files, processes and connections on this one
machine, have their verdict within 20 s. Neither has an all-reduce of the gate's own, as all hosts are here.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from launcher.backends.local.layout import two_free_ports  # noqa: E402
from slipway.container import Container, Rendezvous, Task  # noqa: E402
from slipway.gate.pass_gate import Surroundings, pass_gate  # noqa: E402
from slipway.host_assembly import Assembly  # noqa: E402
from slipway.processes.supervise import StopRequest  # noqa: E402

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


def main() -> int:
    """Measure both; 1 where a bound is missed."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        bare, booted = [], []
        for run in range(RUNS):
            bare.append(first_step(Path(folder) / f"bare-{run}", boot=False))
            booted.append(first_step(Path(folder) / f"boot-{run}", boot=True))
        more = statistics.median(booted) - statistics.median(bare)
        print(
            f"first step: torchrun {statistics.median(bare):.1f} s, boot and gate "
            f"{statistics.median(booted):.1f} s, {more:.1f} s more (at most {START_BOUND:.0f} s)"
        )
        took = among(HOSTS, Path(folder))
    print(f"{HOSTS} hosts have their verdict after {took:.1f} s (at most {HOSTS_BOUND:.0f} s)")
    return int(more > START_BOUND or took > HOSTS_BOUND)


def first_step(folder: Path, *, boot: bool) -> float:
    """Seconds from the start of two hosts to the end of their ranks' first all-reduce."""
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    port, started = two_free_ports(), time.time()
    hosts = [
        subprocess.Popen(
            booted(folder, rank) if boot else torchrun(folder, rank, port),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **(surroundings(folder, rank, port) if boot else {})},
        )
        for rank in range(2)
    ]
    output = "".join(host.communicate(timeout=300)[0] for host in hosts)
    return float(output.partition("STEP ")[2].split()[0]) - started


def torchrun(folder: Path, rank: int, port: int) -> list[str]:
    """Torchrun alone, as the boot starts it."""
    words = ["--nnodes", "2", "--nproc_per_node", "1", "--node_rank", str(rank)]
    place = ["--master_addr", "127.0.0.1", "--master_port", str(port), "--monitor_interval", "0.1"]
    return [sys.executable, "-m", "torch.distributed.run", *words, *place, str(folder / "train.py")]


def booted(folder: Path, rank: int) -> list[str]:
    """A boot with the gate on, of a host whose files are made here."""
    root = folder / f"algo-{rank + 1}"
    config, code = root / "input" / "config", root / "input" / "data" / "code"
    config.mkdir(parents=True)
    code.mkdir(parents=True)
    resources = {"current_host": root.name, "hosts": ["algo-1", "algo-2"], "network_interface_name": "lo"}
    (config / "resourceconfig.json").write_text(json.dumps(resources))
    with tarfile.open(code / "source.tar.gz", "w:gz") as archive:
        archive.add(folder / "train.py", "train.py")
    start = "import sys; from slipway.boot import main; sys.exit(main(sys.argv[1:]))"
    words = ["--strategy", "torchrun", "--entry-point", "train.py", "--gate", "on"]
    return [sys.executable, "-c", start, *words]


def surroundings(folder: Path, rank: int, port: int) -> dict[str, str]:
    """What a launcher gives a boot."""
    root = folder / f"algo-{rank + 1}"
    return {
        "PYTHONPATH": str(ROOT),
        "SLIPWAY_ROOT": str(root),
        "SLIPWAY_RENDEZVOUS": f"127.0.0.1:{port}",
        "SLIPWAY_CHECKPOINT_DIR": str(root / "checkpoints"),
        "TRAINING_JOB_NAME": "benchmark",
    }


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


if __name__ == "__main__":
    sys.exit(main())
