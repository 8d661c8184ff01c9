"""How this host's processes are started, supervised and asked to stop: under torchrun, or alone."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from slipway.container import Container
from slipway.environment import MARK_VARIABLE
from slipway.failure import RankEnd
from slipway.masking import Masking
from slipway.processes import Ended, StopRequest, itself, running_below, supervise, workers
from slipway.program import ProgramCommand
from slipway.rank_output import RankOutput
from slipway.ranks.printing import PIPES_VARIABLE
from slipway.rendezvous import Rendezvous
from slipway.task import Task
from slipway.torchrun import AFTER_INSTALLING, failed_ranks, keep_error_files, torchrun_command

_IN_MEMORY = "/dev/shm"


@dataclass(frozen=True)
class HostRun:
    """What is started on this host: a program in its whole `environment`, whose output is masked.

    `logs` is the folder for what its ranks print.
    """

    task: Task
    container: Container
    rendezvous: Rendezvous
    program: ProgramCommand
    environment: Mapping[str, str]
    masking: Masking
    logs: Path


class RunEnd(NamedTuple):
    """How what was started on a host ended, and of torchrun's ranks those that failed by themselves."""

    ended: Ended
    failed: list[RankEnd]


def under_torchrun(run: HostRun, stop: StopRequest, beside: Callable[[int], None]) -> RunEnd:
    """Run this host's ranks to their end; `beside` is called as `supervise` does.

    Raises OSError where there is neither memory nor a disk for the pipes of what they print.
    """
    task, container, masking = run.task, run.container, run.masking
    first_rank = container.node_rank * task.processes_per_host
    ranks = range(first_rank, first_rank + task.processes_per_host)
    with folder_in_memory() as folder:
        output = RankOutput(folder, ranks, run.logs, masking, run.environment[MARK_VARIABLE])
        try:
            ended = supervise(
                torchrun_command(
                    container,
                    run.rendezvous,
                    task.processes_per_host,
                    run.program.command_for(run.environment),
                    folder,
                    # pip takes longer on one host than on another, and the first must not give the others up.
                    patience=None if task.requirements is None else AFTER_INSTALLING,
                ),
                environment={**run.environment, PIPES_VARIABLE: str(folder)},
                folder=container.code,
                stop=stop,
                targets=ranks_to_stop(folder),
                beside=beside,
                masking=masking,
            )
        finally:
            printed = output.end()
        failed = failed_ranks(printed, folder, ended.stderr, first_rank, masking)
        keep_error_files(folder, run.logs, first_rank, masking)
    return RunEnd(ended, failed)


def alone(run: HostRun, stop: StopRequest, beside: Callable[[int], None]) -> RunEnd:
    """Run the program once, to its end."""
    logs = run.logs
    streams = (logs / "stdout.log", logs / "stderr.log")
    ended = supervise(
        run.program.command,
        environment=run.environment,
        folder=run.container.code,
        stop=stop,
        targets=running_below if run.program.by_shell else itself,
        beside=beside,
        # What is kept as this host's log already is not kept twice.
        streams=(None, None) if "SLIPWAY_LOG" in run.environment else streams,
        masking=run.masking,
    )
    return RunEnd(ended, [])


@contextlib.contextmanager
def folder_in_memory() -> Iterator[Path]:
    """A private folder for pipes and small files, in memory where the system has such a place: there it is
    of no matter that the disks are full.

    Raises OSError where there is no place at all.
    """
    try:
        folder = tempfile.mkdtemp(prefix="slipway-", dir=_IN_MEMORY)
    except OSError:
        folder = tempfile.mkdtemp(prefix="slipway-")
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def ranks_to_stop(folder: Path) -> Callable[[int], list[int]]:
    """Whom to send a stop signal, by torchrun's process id: its workers. `folder` is torchrun's own.

    torchrun would give them 30 s and then kill them, and report a failure afterwards. Asked themselves,
    they have the whole grace, and when they save and exit torchrun ends as usual. It is asked itself
    only before it starts them; afterwards it waits for the other hosts, and not long.
    """

    def targets(torchrun: int) -> list[int]:
        found = workers(torchrun)
        return found or ([] if any(folder.glob("*/attempt_*")) else [torchrun])

    return targets


def all_of(*watchers: Callable[[int], None]) -> Callable[[int], None]:
    """The watchers as one, called in their order."""

    def watch(pid: int) -> None:
        for watcher in watchers:
            watcher(pid)

    return watch
