"""Real ranks over gloo, a process each: they run cases one after the other, and tell what came of each.

A case is a function at the top of a test file. It gets a folder that all ranks share, and returns what JSON
takes.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
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
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, str(file), str(rank), str(world_size), str(folder), *names],
            env={**environment, "SM_CURRENT_HOST": f"algo-{1 + rank}"},
        )
        for rank in range(world_size)
    ]
    try:
        codes = [process.wait(DEADLINE) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert codes == [0] * world_size, [(folder / f"case-{rank}").read_text() for rank in range(world_size)]
    by_rank = [json.loads((folder / f"outcomes-{rank}").read_text()) for rank in range(world_size)]
    return {name: [Outcome(**outcomes[name]) for outcomes in by_rank] for name in names}


def _rank(file: str, rank: int, world_size: int, folder: Path, names: list[str]) -> None:
    import torch.distributed as dist

    # Some package brings a `tests` of its own.
    tests = ModuleType("tests")
    tests.__path__ = [str(ROOT / "tests")]
    sys.modules["tests"] = tests
    specification = importlib.util.spec_from_file_location("cases", file)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["cases"] = module
    specification.loader.exec_module(module)
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
                value = getattr(module, name)(own)
            except Exception as raised:
                error = f"{type(raised).__name__}: {raised}"
        outcomes[name] = asdict(Outcome(value, error, said.getvalue()))
        dist.barrier()
    (folder / f"outcomes-{rank}").write_text(json.dumps(outcomes))
    dist.destroy_process_group()


if __name__ == "__main__":
    _rank(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), sys.argv[5:])
