"""The boot: from SageMaker's config files to running ranks, and to a failure that names its cause."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from slipway.anomaly import script_words
from slipway.container import DEFAULT_ROOT, Container, read_container
from slipway.environment import make_folders, script_environment
from slipway.evidence import judge
from slipway.failure import STOPPED, BootError, Cause, RankEnd, exit_status, root_cause, write_failure
from slipway.joined import meeting_of
from slipway.kept_log import everything_kept_in
from slipway.left_behind import tell_of_lost_work
from slipway.processes import Ended, StopRequest, itself, supervise, workers
from slipway.rank_files import RankFiles
from slipway.rendezvous import Rendezvous, check_port, find_rendezvous
from slipway.requirements import WITHOUT_A_WAY_OUT, install
from slipway.source import CODE_DIGEST_VARIABLE, find_entry_point, unpack, verify
from slipway.task import Task, hyperparameter_arguments, parse_task
from slipway.torchrun import AFTER_INSTALLING, failed_ranks, torchrun_command


def main(arguments: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> int:
    """Run this host's part of the job and return the container's exit code.

    0 for success, the failed rank's code, or 128 and the signal's number. `environment` is the
    container's own; where its SLIPWAY_LOG names a file, all output is kept there instead of being passed on.
    """
    environment = dict(os.environ if environment is None else environment)
    words = sys.argv[1:] if arguments is None else arguments
    log = environment.get("SLIPWAY_LOG")
    with everything_kept_in(Path(log)) if log else contextlib.nullcontext():
        return _main(words, environment)


def _main(arguments: Sequence[str], environment: dict[str, str]) -> int:
    stop = StopRequest()
    stop.listen(environment.pop("SLIPWAY_LIFELINE", None))
    task = parse_task(arguments)
    root = Path(environment.get("SLIPWAY_ROOT") or DEFAULT_ROOT)
    try:
        return run(task, read_container(root), environment, stop)
    except BootError as error:
        text = str(error)
    except Exception as error:  # whatever goes wrong here must reach the failure reason
        text = f"the boot itself failed: {type(error).__name__}: {error}"
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            text = f"DISK001 {text}"
    print(f"slipway: {text}", file=sys.stderr, flush=True)
    write_failure(root / "output" / "failure", text, time.time())
    return 1


def run(task: Task, container: Container, environment: Mapping[str, str], stop: StopRequest) -> int:
    """Verify and unpack the source, install what it requires, start the processes, wait for them, and
    report a failure.

    Raises BootError where the script cannot be started.
    """
    archive = container.input_data / "code" / "source.tar.gz"
    submitted = environment.get(CODE_DIGEST_VARIABLE)
    # Requests of older launchers do not say, nor do those of jobs that are resumed from theirs.
    if submitted is not None:
        verify(archive, submitted)
    unpack(archive, container.code)
    script = find_entry_point(container.code, task.entry_point)
    if task.requirements is not None:
        install(
            task.requirements,
            folder=container.code,
            environment=environment,
            stop=stop,
            logs=container.logs,
            hint=WITHOUT_A_WAY_OUT,
        )
        if stop.at is not None:
            return 128 + stop.signal
    rendezvous = find_rendezvous(container, environment)
    torchrun = task.strategy == "torchrun"
    if torchrun and container.node_rank == 0:
        check_port(rendezvous, container.current_host)
    arguments = [*hyperparameter_arguments(container.hyperparameters), *task.arguments]
    inner = script_environment(
        container,
        environment,
        archive=package_path(),
        rendezvous=rendezvous,
        entry_point=task.entry_point,
        arguments=arguments,
    )
    make_folders(inner)
    print(_announcement(task, container, rendezvous), flush=True)
    meeting, started = meeting_of(task, container, rendezvous), time.time()
    words = script_words(script, arguments, environment)
    if torchrun:
        command = torchrun_command(
            container,
            rendezvous,
            task.processes_per_host,
            words,
            # pip takes longer on one host than on another, and the first must not give the others up.
            patience=None if task.requirements is None else AFTER_INSTALLING,
        )
        targets = ranks_to_stop(container.logs)
        ended = supervise(
            command,
            environment=inner,
            folder=container.code,
            stop=stop,
            targets=targets,
            beside=all_of(RankFiles(container.logs).trim, meeting.look),
        )
    else:
        command = [sys.executable, "-u", *words]
        streams = (container.logs / "stdout.log", container.logs / "stderr.log")
        ended = supervise(
            command,
            environment=inner,
            folder=container.code,
            stop=stop,
            targets=itself,
            beside=meeting.look,
            # What is kept as this host's log already is not kept twice.
            streams=(None, None) if "SLIPWAY_LOG" in environment else streams,
        )
    if ended.exit_code == 0 and stop.at is None:
        meeting.tell_of_the_end()
        tell_of_lost_work(container, inner, started)
    return conclude(task, container, ended, stop)


def conclude(task: Task, container: Container, ended: Ended, stop: StopRequest) -> int:
    """Write the failure file where the script failed by itself, and return the exit code.

    What fails after a stop was asked for is the stop's consequence; what failed before is not, even
    where the stop came first to the end.
    """
    if stop.at is not None:
        took = round(max(0.0, ended.time - stop.at))
        asked = f"asked to end by {stop.signal.name}, and ended {took} s later"
        print(f"slipway: {STOPPED} {container.current_host}: {asked}", file=sys.stderr, flush=True)
    if ended.exit_code == 0:
        return 0
    cause = _cause(task, container, ended)
    if stop.at is not None and cause.time >= stop.at:
        return 128 + stop.signal
    text = cause.text(container.current_host)
    # Its first line: the traceback is in the log already, where the rank printed it.
    print(f"slipway: {text.splitlines()[0]}", file=sys.stderr, flush=True)
    write_failure(container.failure_file, text, cause.time)
    return exit_status(cause.exit_code or ended.exit_code)


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


def package_path() -> Path:
    """What this package was loaded from: the archive, or the folder that holds it."""
    return Path(__file__).resolve().parent.parent


def _cause(task: Task, container: Container, ended: Ended) -> Cause:
    code_folder = str(container.code)
    if task.strategy == "none":
        ends = [RankEnd(container.node_rank, ended.exit_code, ended.time, ended.stderr)]
    else:
        first_rank = container.node_rank * task.processes_per_host
        ends = failed_ranks(container.logs, ended.stderr, first_rank)
    return root_cause(ends, code_folder) or Cause(
        None, ended.time, ended.exit_code, judge(ended.stderr, ended.exit_code, code_folder)
    )


def _announcement(task: Task, container: Container, rendezvous: Rendezvous) -> str:
    return (
        f"slipway: {container.current_host}, host {container.node_rank + 1} of {len(container.hosts)}: "
        f"{task.entry_point} by {task.strategy}, {task.processes_per_host} per host, "
        f"rendezvous {rendezvous.address}:{rendezvous.port}"
    )
