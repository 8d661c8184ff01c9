"""The watchdog of a host: made where the job asks for one, and nothing where nobody is watched."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from slipway.container import Container
from slipway.hosts.assembly import Assembly
from slipway.processes import StopRequest
from slipway.ranks.heartbeat import STATE_VARIABLE
from slipway.task import Task
from slipway.watchdog.forced import NcclPipes
from slipway.watchdog.kept import FOLDER
from slipway.watchdog.questions import Ranks
from slipway.watchdog.watch import Watchdog, Watched, say

PIPE_VARIABLE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
"""Begins the names of the pipes by which NCCL's recorder is asked from outside, without the interpreter's
lock (ProcessGroupNCCL, DumpPipe)."""

DUMP_VARIABLES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
"""Begin the names of the files that it then writes; the first since torch 2.9."""


def is_watched(task: Task) -> bool:
    """Whether the ranks of this job are: what a shell script starts is its own business."""
    return task.watchdog is not None and not (task.entry_point or "").endswith(".sh")


def with_pipes(environment: Mapping[str, str]) -> dict[str, str]:
    """The ranks' environment, in which NCCL's recorder can be asked; what the user set stays."""
    found = dict(environment)
    folder = Path(environment[STATE_VARIABLE]) / "pipes"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        # PyTorch raises where it cannot make one: tried here first.
        trial = folder / "trial"
        os.mkfifo(str(trial))
        trial.unlink()
        found.setdefault(PIPE_VARIABLE, f"{folder}/rank_")
    return found


@contextlib.contextmanager
def watching(
    task: Task,
    container: Container,
    environment: Mapping[str, str],
    assembly: Assembly,
    stop: StopRequest,
    number: int = 0,
) -> Iterator[Watchdog | None]:
    """Watch this host's ranks while they run; `environment` is theirs, `number` tells their starts apart."""
    if task.watchdog is None or not is_watched(task):
        yield None
        return
    each = 1 if task.strategy == "none" else task.processes_per_host
    first = container.node_rank * each
    dumps = next((environment[name] for name in DUMP_VARIABLES if environment.get(name)), None)
    ranks = Ranks(
        Path(environment[STATE_VARIABLE]),
        range(first, first + each),
        container.current_host,
        container.code,
        NcclPipes(environment[PIPE_VARIABLE], dumps) if dumps and PIPE_VARIABLE in environment else None,
    )
    watched = Watched(ranks, assembly, container.code, container.logs / FOLDER)
    watchdog = Watchdog(watched, task.watchdog, say, topic=f"watchdog-{number}")
    stop.held_by = watchdog.holds
    watchdog.start()
    try:
        yield watchdog
    finally:
        watchdog.close()
        ranks.forget()
