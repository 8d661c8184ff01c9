"""A script on several ranks of this machine, as torchrun starts it, in a fraction of the processor time.

The ranks are forked from a process that has made the scripts' expensive imports already. That has to be
one without other threads, so tests run this as a program (`forking.py`): each line of its standard input is a
run in JSON, and each line of its output, in JSON too, what that run's ranks printed. A run has a `script`,
a `world_size`, a `folder`, `arguments`, and where it is interrupted an `interruption`: so many `seconds`
after a line with the `text` the `signal` goes to the `ranks`, and where `others` is given, so many seconds
later SIGKILL to all others, as torchrun ends them. A line that has `names` instead runs those cases of a test
file (tests/slipway/worlds.py), and its answer is whether all ranks came to their end.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import runpy
import signal
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.distributed import TCPStore

ROOT = Path(__file__).parents[2]
EXPENSIVE = (
    "torch._dynamo", "torch.nn.parallel", "torch.distributed.fsdp",
    "torch.distributed.checkpoint.state_dict",
)  # fmt: skip
"""What torch's optimizers import when the first of them is made, and what saves and loads a model that is
spread."""

OF_EXAMPLES = ("sklearn.datasets", "sklearn.model_selection")
"""What the scripts of examples/ import besides, for data."""

PATIENCE_SECONDS = 120
"""After which a rank ends that nobody waits for any more, because a test was broken off."""

FORKING = multiprocessing.get_context("fork")


def run(
    script: str,
    world_size: int,
    folder: str,
    arguments: list[str],
    interruption: dict[str, Any] | None = None,
) -> str:
    """What all ranks print. The folder gets the checkpoints, and the model of a run that ends."""
    if Path(script).is_relative_to(ROOT / "examples"):
        for name in OF_EXAMPLES:
            importlib.import_module(name)
    reader, writer = os.pipe()
    ports = FORKING.SimpleQueue()
    ranks = [
        FORKING.Process(target=_rank, args=(script, rank, world_size, folder, arguments, ports, writer))
        for rank in range(world_size)
    ]
    for process in ranks:
        process.start()
    os.close(writer)
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    for _ in ranks:
        ports.put(store.port)
    printed = ""
    with os.fdopen(reader) as lines:
        for line in lines:
            printed += line
            if interruption and interruption["text"] in line:
                time.sleep(interruption["seconds"])
                for rank in interruption["ranks"]:
                    os.kill(ranks[rank].pid, interruption["signal"])
                if "others" in interruption:
                    time.sleep(interruption["others"])
                    for process in ranks:
                        process.kill()
                interruption = None
    for process in ranks:
        process.join()
    return printed


def _rank(
    script: str, rank: int, world_size: int, folder: str, arguments: list[str], ports: Any, writer: int
) -> None:
    signal.alarm(PATIENCE_SECONDS)
    os.dup2(writer, 1)
    os.dup2(writer, 2)
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(world_size),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(ports.get()),
        # The store is the parent's, as under torchrun; so no two tests can want the same port.
        TORCHELASTIC_USE_AGENT_STORE="True",
        TORCHELASTIC_RESTART_COUNT="0",
        SLIPWAY_CHECKPOINT_DIR=folder,
        SM_MODEL_DIR=f"{folder}/model",
    )
    torch.set_num_threads(1)
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")


def _know_our_tests() -> None:
    """Some package brings a `tests` of its own."""
    tests = ModuleType("tests")
    tests.__path__ = [str(ROOT / "tests")]
    sys.modules["tests"] = tests


if __name__ == "__main__":
    for module in EXPENSIVE:
        importlib.import_module(module)
    _know_our_tests()
    from tests.slipway.worlds import fork_world

    for line in sys.stdin:
        wanted = json.loads(line)
        answer: Any = fork_world(**wanted) if "names" in wanted else run(**wanted)
        print(json.dumps(answer), flush=True)
