"""Real ranks over gloo, a process each: they run cases one after the other, and tell what came of each.

They are forked from a process that has imported torch (tests/examples/forked_ranks.py), as importing takes a
rank longer than its cases. A case is a function at the top of a test file. It gets a folder that all ranks
share, and returns what JSON takes.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.examples.forking import ForkedRanks

ROOT = Path(__file__).parents[2]
DEADLINE = 200
"""Seconds, for ranks that wait for each other without end."""

FORKING = multiprocessing.get_context("fork")


@dataclass
class Outcome:
    """What a case came to on one rank: what it returned or raised, and what it said on stderr."""

    value: Any
    error: str | None
    said: str


World = dict[str, list[Outcome]]
"""The outcomes of each case by its name, a list by rank."""


def run_world(
    ranks: ForkedRanks, cases: Sequence[Callable[[Path], Any]], world_size: int, folder: Path
) -> World:
    """Run the cases on so many ranks. Fails where one of them hangs or dies, and says in which case."""
    names = [case.__name__ for case in cases]
    ended = ranks.run_cases(str(sys.modules[cases[0].__module__].__file__), world_size, folder, names)
    assert ended, [(folder / f"case-{rank}").read_text() for rank in range(world_size)]
    by_rank = [json.loads((folder / f"outcomes-{rank}").read_text()) for rank in range(world_size)]
    return {name: [Outcome(**outcomes[name]) for outcomes in by_rank] for name in names}


def fork_world(
    file: str, world_size: int, folder: str, names: list[str], environment: Mapping[str, str]
) -> bool:
    """Run the cases of a file in a fork of this process, which stays as it is; whether all ranks ended."""
    world = FORKING.Process(target=_world, args=(file, world_size, Path(folder), names, environment))
    world.start()
    world.join()
    return world.exitcode == 0


def _world(
    file: str, world_size: int, folder: Path, names: list[str], environment: Mapping[str, str]
) -> None:
    os.dup2(2, 1)  # The answers of the process that is forked are on its stdout.
    os.environ.update(environment, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
    cases = _cases(file)
    ranks = [
        FORKING.Process(target=_rank, args=(cases, rank, world_size, folder, names))
        for rank in range(world_size)
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    sys.exit(any(process.exitcode for process in ranks))


def _cases(file: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location("cases", file)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["cases"] = module
    specification.loader.exec_module(module)
    return module


def _rank(cases: ModuleType, rank: int, world_size: int, folder: Path, names: list[str]) -> None:
    import torch
    import torch.distributed as dist

    signal.alarm(DEADLINE)
    torch.set_num_threads(1)
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
