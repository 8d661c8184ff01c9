"""How a host's processes are started, supervised and asked to stop: under torchrun, or alone.

torchrun is PyTorch's launcher. The layout of torchrun's folder, the error files and the report are the same
from torch 1.9 to 2.13 (torch/distributed/elastic/multiprocessing); its options are written with
underscores, which every version takes: those with hyphens came with torch 2.0.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from slipway.container import Container, Rendezvous, Task
from slipway.errors import say
from slipway.failure import RankEnd, has_traceback
from slipway.job_secrets import Masking
from slipway.processes.process_output import PrintedLosses, RankOutput, RankTail
from slipway.processes.supervise import Ended, StopRequest, process_itself, running_below, supervise, workers
from slipway.ranks import printing
from slipway.ranks.printing import PIPES_VARIABLE
from slipway.script import MARK_VARIABLE, ProgramCommand

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
    """How what was started on a host ended; of torchrun's ranks those that failed by themselves; and those
    whose last loss was not finite, with the line that says so."""

    ended: Ended
    failed: list[RankEnd]
    losses: Mapping[int, str]


def run_under_torchrun(run: HostRun, stop: StopRequest, beside: Callable[[int], None]) -> RunEnd:
    """Run this host's ranks to their end; `beside` is called as `supervise` does.

    Raises OSError where there is neither memory nor a disk for the pipes of what they print.
    """
    task, container, masking = run.task, run.container, run.masking
    first_rank = container.node_rank * task.processes_per_host
    ranks = range(first_rank, first_rank + task.processes_per_host)
    losses = PrintedLosses(container.current_host)
    with folder_in_memory() as folder:
        output = RankOutput(folder, ranks, run.logs, masking, run.environment[MARK_VARIABLE], losses)
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
    return RunEnd(ended, failed, losses.lost())


def run_alone(run: HostRun, stop: StopRequest, beside: Callable[[int], None]) -> RunEnd:
    """Run the program once, to its end."""
    logs, losses = run.logs, PrintedLosses(run.container.current_host)
    streams = (logs / "stdout.log", logs / "stderr.log")
    ended = supervise(
        run.program.command,
        environment=run.environment,
        folder=run.container.code,
        stop=stop,
        targets=running_below if run.program.by_shell else process_itself,
        beside=beside,
        # What is kept as this host's log already is not kept twice.
        streams=(None, None) if "SLIPWAY_LOG" in run.environment else streams,
        masking=run.masking,
        read=partial(losses.read, run.container.node_rank),
    )
    return RunEnd(ended, [], losses.lost())


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


def call_all(*watchers: Callable[[int], None]) -> Callable[[int], None]:
    """The watchers as one, called in their order."""

    def watch(pid: int) -> None:
        for watcher in watchers:
            watcher(pid)

    return watch


# torchrun's command, and what its files and its report say about the ranks.


_FAILED_RANK = re.compile(
    r"time\s+: (?P<time>\S+)\s+host\s+: .*\s+rank\s+: \d+ \(local_rank: (?P<local_rank>\d+)\)"
    r"\s+exitcode\s+: (?P<exit_code>-?\d+)\s+\(pid: (?P<pid>\d+)\)"
)
_FIRST_FAILED = re.compile(
    r"failed \(exitcode: (?P<exit_code>-?\d+)\) local_rank: (?P<local_rank>\d+) \(pid: (?P<pid>\d+)\)"
)
_CLOSED = re.compile(r"Sending process (\d+) closing signal")

AFTER_INSTALLING = 1800
"""The seconds that hosts wait for each other where each installs packages first: torchrun's own 600
(static_tcp_rendezvous.py) are less than one host may take longer than another to build a large package."""


def torchrun_command(
    container: Container,
    rendezvous: Rendezvous,
    processes: int,
    program: Sequence[str],
    folder: Path,
    *,
    patience: int | None = None,
) -> list[str]:
    """The command that starts this host's ranks with a static rendezvous on the first host.

    `program` is the command that each of them becomes, once it prints into the pipes of
    `slipway/processes/process_output.py`; `folder` is torchrun's own, for error files; `patience` for how
    many seconds the hosts wait for each other, where torchrun's default is not enough.
    """
    return [
        sys.executable, "-m", "torch.distributed.run",
        "--nnodes", str(len(container.hosts)),
        "--nproc_per_node", str(processes),
        "--node_rank", str(container.node_rank),
        "--master_addr", rendezvous.address,
        "--master_port", str(rendezvous.port),
        # Newer versions look that often by themselves; torch 2.0 sees a dead rank after 5 s only.
        "--monitor_interval", "0.1",
        *([] if patience is None else ["--rdzv_conf", f"timeout={patience}"]),
        "--log_dir", str(folder),
        "--no_python",
        # argparse takes what looks like an abbreviation of torchrun's options (`--log`, `--node`) for one
        # even behind the script; after two dashes it does not, and drops these from what the script gets.
        "--",
        sys.executable, "-m", printing.__name__, *program,
    ]  # fmt: skip


def failed_ranks(
    printed: Mapping[int, RankTail], folder: Path, report: str, first_rank: int, masking: Masking
) -> list[RankEnd]:
    """The ranks of this host that failed by themselves.

    `printed` is what they printed, by their local ranks, `folder` torchrun's own, `report` the end of its
    stderr, `first_rank` the global rank of local rank 0. Ranks that torchrun ended after the first failure
    are left out, unless there are no others.
    """
    exits = _exits_by_rank(report)
    closed = {int(pid) for pid in _CLOSED.findall(report)}
    ends: list[RankEnd] = []
    ended_by_torchrun: list[RankEnd] = []
    files = error_files(folder)
    for local_rank, told in sorted(printed.items()):
        exit = exits.get(local_rank)
        account = _account_of_rank(told, files.get(local_rank), masking)
        # Where torchrun reported, but not this rank, the script survived what it printed.
        if exit is None and (exits or account.time is None):
            continue
        end = RankEnd(
            rank=first_rank + local_rank,
            # Where torchrun ended it, that says nothing of what it had printed before.
            exit_code=exit.code if exit and exit.pid not in closed else None,
            time=account.time or (exit.time if exit else None) or time.time(),
            output=account.output,
            recorded=account.recorded,
            printed=told.stdout,
        )
        consequence = exit is not None and exit.pid in closed and account.time is None
        (ended_by_torchrun if consequence else ends).append(end)
    return ends or ended_by_torchrun


class _RankExit(NamedTuple):
    """How a rank ended, in torchrun's words."""

    code: int
    pid: int
    time: float | None


class _RankAccount(NamedTuple):
    """What a rank left behind; `time` is None where that shows no exception."""

    output: str
    time: float | None
    recorded: bool = False


def _exits_by_rank(report: str) -> dict[int, _RankExit]:
    """How torchrun says that each rank ended, by local rank."""
    exits: dict[int, _RankExit] = {}
    for match in [*_FIRST_FAILED.finditer(report), *_FAILED_RANK.finditer(report)]:
        when = match.groupdict().get("time")
        exits[int(match["local_rank"])] = _RankExit(
            int(match["exit_code"]), int(match["pid"]), _local_time(when) if when else None
        )
    return exits


def _local_time(text: str) -> float | None:
    """The end of the second: torchrun drops the fraction, and nothing may seem to precede its cause."""
    try:
        return 1 + time.mktime(time.strptime(text, "%Y-%m-%d_%H:%M:%S"))
    except ValueError:
        return None


def error_files(folder: Path) -> dict[int, Path]:
    """What ranks wrote into `<run>/attempt_<n>/<local rank>/error.json`, in the newest attempt."""
    attempts = sorted(folder.glob("*/attempt_*"), key=lambda attempt: attempt.stat().st_mtime)
    found = attempts[-1].glob("*/error.json") if attempts else ()
    return {int(file.parent.name): file for file in found if file.parent.name.isdigit()}


def keep_error_files(folder: Path, logs: Path, first_rank: int, masking: Masking) -> None:
    """Copy them to where the ranks' output is kept, masked; where that cannot be, it is said and no more."""
    for local_rank, file in error_files(folder).items():
        copy = logs / f"rank-{first_rank + local_rank}" / file.name
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(masking.text(file.read_text("utf-8", "replace")), "utf-8")
        except OSError as error:
            say(f"{copy} cannot be written: {error.strerror}")


def _account_of_rank(told: RankTail, error_file: Path | None, masking: Masking) -> _RankAccount:
    """A rank's error file, else the end of its stderr.

    The time is that of the error file itself: the timestamp in it has whole seconds only, too coarse to
    order ranks by.
    """
    recorded = _recorded_traceback(error_file) if error_file is not None else None
    if error_file is not None and recorded:
        return _RankAccount(masking.text(recorded), error_file.stat().st_mtime, recorded=True)
    return _RankAccount(told.stderr, told.time if has_traceback(told.stderr) else None)


def _recorded_traceback(file: Path) -> str | None:
    """The traceback that torch's `@record` wrote, in its form before and since torch 1.9."""
    try:
        message: Any = json.loads(file.read_text(encoding="utf-8"))["message"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if isinstance(message, dict):
        message = (message.get("extraInfo") or {}).get("py_callstack") or message.get("message")
    return message if isinstance(message, str) else None
