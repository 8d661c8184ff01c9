"""What `launch lint` takes at most, of time and memory, on files that are made to take much.

Bounds: 10 s of CPU time and 1 GB for a script, whatever it holds; the memory is also the limit that the
process runs under. A script may be left unjudged at that,
and then says so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tools import ROOT
from tools.benchmarks.lint import program
from tools.benchmarks.measuring import Figure, run_process

MOST_SECONDS, MOST_MEGABYTES = 10.0, 1000
START = """\
import os, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
dist.init_process_group("nccl")
rank = dist.get_rank()
"""

SCRIPTS = {
    "50,000 lines of training": lambda: program(50_000),
    "50,000 lines of guarded barriers": lambda: START + "if rank == 0:\n    dist.barrier()\n" * 25_000,
    "20,000 variables": lambda: START + "".join(f'os.environ["V{n}"] = {n}\n' for n in range(20_000)),
    "8,000 functions in a chain": lambda: (
        START
        + "".join(f"def f{n}(x):\n    return f{n + 1}(x)\n" for n in range(8_000))
        + "if rank == 0:\n    f0(1)\n"
    ),
    "2,000 loaders and loops": lambda: (
        START
        + "".join(
            f"s{n} = DistributedSampler(d)\nl{n} = DataLoader(d, sampler=s{n})\nfor e in range(3):\n"
            f"    for b in l{n}:\n        DDP(m)(b).backward()\n"
            for n in range(2_000)
        )
    ),
    "8,000 listings with a fix each": lambda: (
        START + "import glob\n" + "".join(f'f{n} = glob.glob("*")[rank::2]\n' for n in range(8_000))
    ),
    "20,000 assignments to one name": lambda: START + "x = x + rank if x else rank\n" * 20_000,
    "100,000 imports": lambda: "".join(f"import m{n}\n" for n in range(100_000)),
    "4 MB of names": lambda: "x\n" * 1_990_000,
    "as many names as are read": lambda: "x\n" * 449_000,
    "as many calls as are read": lambda: "f();\n" * 175_000,
    "as many numbers as are read": lambda: "x = [" + "0," * 449_000 + "]\n",
    "4 MB in one string": lambda: "x = '" + "a" * 3_900_000 + "'\n",
    "1,000,000 signs": lambda: "-" * 1_000_000 + "1\n",
}


def figures(folder: Path) -> Iterator[Figure]:
    """What each takes; it may find something, and not fail."""
    script = folder / "train.py"
    command = [sys.executable, "-P", "-m", "launcher.cli.app", "lint", script]
    for what, text in SCRIPTS.items():
        script.write_text(text(), "utf-8")
        run = run_process(
            command,
            codes=(0, 1),
            environment={"PYTHONPATH": str(ROOT)},
            most_bytes=MOST_MEGABYTES * 1_000_000,
        )
        yield Figure(what, run.processor, MOST_SECONDS, " s")
        yield Figure(f"{what}, memory", run.megabytes, MOST_MEGABYTES, " MB")
