"""How this host's processes are started, supervised and asked to stop: under torchrun, or alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slipway.container import Container
from slipway.kept_masked import kept_masked
from slipway.masking import Masking
from slipway.processes import Ended, StopRequest, itself, running_below, supervise, workers
from slipway.program import ProgramCommand
from slipway.rank_files import RankFiles
from slipway.rank_output import RankOutput
from slipway.rendezvous import Rendezvous
from slipway.task import Task
from slipway.torchrun import AFTER_INSTALLING, torchrun_command


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


def under_torchrun(run: HostRun, stop: StopRequest, beside: Callable[[int], None]) -> Ended:
    """Run this host's ranks to their end; `beside` is called as `supervise` does."""
    task, container, masking = run.task, run.container, run.masking
    with kept_masked(run.logs, masking) as logs:
        first_rank = container.node_rank * task.processes_per_host
        output = RankOutput(logs, masking, first_rank) if masking else None
        command = torchrun_command(
            container,
            run.rendezvous,
            task.processes_per_host,
            run.program,
            logs,
            # pip takes longer on one host than on another, and the first must not give the others up.
            patience=None if task.requirements is None else AFTER_INSTALLING,
            passes_on=output is None,
        )
        ended = supervise(
            command,
            environment=run.environment,
            folder=container.code,
            stop=stop,
            targets=ranks_to_stop(logs),
            streams=None if output is None else (None, None),
            beside=all_of(*_of_files(output, RankFiles(logs)), beside),
            masking=masking,
        )
        if output is not None:
            output.finish()
    return ended


def alone(run: HostRun, stop: StopRequest, beside: Callable[[int], None]) -> Ended:
    """Run the program once, to its end."""
    logs = run.logs
    streams = (logs / "stdout.log", logs / "stderr.log")
    return supervise(
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


def ranks_to_stop(logs: Path) -> Callable[[int], list[int]]:
    """Whom to send a stop signal, by torchrun's process id: its workers.

    torchrun would give them 30 s and then kill them, and report a failure afterwards. Asked themselves,
    they have the whole grace, and when they save and exit torchrun ends as usual. It is asked itself
    only before it starts them; afterwards it waits for the other hosts, and not long.
    """

    def targets(torchrun: int) -> list[int]:
        found = workers(torchrun)
        return found or ([] if any(logs.glob("*/attempt_*")) else [torchrun])

    return targets


def all_of(*watchers: Callable[[int], None]) -> Callable[[int], None]:
    """The watchers as one, called in their order."""

    def watch(pid: int) -> None:
        for watcher in watchers:
            watcher(pid)

    return watch


def _of_files(output: RankOutput | None, files: RankFiles) -> list[Callable[[int], None]]:
    """What is done with the ranks' files while they are written; whoever passes them on has to read first."""
    if output is None:
        return [files.trim]
    return [output.pass_on, lambda _: files.trim(os.getpid())]
