"""Real ranks over gloo, a process each: they run cases one after the other, and tell what came of each.

They are forked from one process that has imported torch and the test file, as importing takes a rank longer
than its cases. A case is a function at the top of a test file. It gets a folder that all ranks share, and
returns what JSON takes.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
DEADLINE = 200
"""Seconds, for ranks that wait for each other without end."""

EXPENSIVE = ("torch.distributed", "torch._dynamo", "torch.nn.parallel")
"""What a rank imports itself, the second when its first optimizer is made."""


@dataclass
class Outcome:
    """What a case came to on one rank: what it returned or raised, and what it said on stderr."""

    value: Any
    error: str | None
    said: str


World = dict[str, list[Outcome]]
"""The outcomes of each case by its name, a list by rank."""


def run_world(cases: Sequence[Callable[[Path], Any]], world_size: int, folder: Path) -> World:
    """Run the cases on so many ranks. Fails where one of them hangs or dies, and says in which case."""
    file = sys.modules[cases[0].__module__].__file__
    names = [case.__name__ for case in cases]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, str(file), str(world_size), str(folder), *names]
    ended = subprocess.run(command, env=environment)
    assert ended.returncode == 0, [(folder / f"case-{rank}").read_text() for rank in range(world_size)]
    by_rank = [json.loads((folder / f"outcomes-{rank}").read_text()) for rank in range(world_size)]
    return {name: [Outcome(**outcomes[name]) for outcomes in by_rank] for name in names}


def _cases(file: str) -> ModuleType:
    # Some package brings a `tests` of its own.
    tests = ModuleType("tests")
    tests.__path__ = [str(ROOT / "tests")]
    sys.modules["tests"] = tests
    specification = importlib.util.spec_from_file_location("cases", file)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["cases"] = module
    specification.loader.exec_module(module)
    return module


def _rank(cases: ModuleType, rank: int, world_size: int, folder: Path, names: list[str]) -> None:
    import torch.distributed as dist

    signal.alarm(DEADLINE)
    os.environ["SM_CURRENT_HOST"] = f"algo-{1 + rank}"
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=DEADLINE / 2),
    )
    outcomes = {}
    for name in names:
        (folder / f"case-{rank}").write_text(name)
        own = folder / name
        own.mkdir(exist_ok=True)
        said, value, error = io.StringIO(), None, None
        with contextlib.redirect_stderr(said):
            try:
                value = getattr(cases, name)(own)
            except Exception as raised:
                error = f"{type(raised).__name__}: {raised}"
        outcomes[name] = asdict(Outcome(value, error, said.getvalue()))
        dist.barrier()
    (folder / f"outcomes-{rank}").write_text(json.dumps(outcomes))
    dist.destroy_process_group()


def _world(file: str, world_size: int, folder: Path, names: list[str]) -> bool:
    """Whether all ranks came to their end."""
    cases = _cases(file)
    for module in EXPENSIVE:
        importlib.import_module(module)
    forking = multiprocessing.get_context("fork")
    ranks = [
        forking.Process(target=_rank, args=(cases, rank, world_size, folder, names))
        for rank in range(world_size)
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    return all(process.exitcode == 0 for process in ranks)


if __name__ == "__main__":
    sys.exit(0 if _world(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:]) else 1)
