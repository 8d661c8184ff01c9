"""The boot: from SageMaker's config files to running ranks, and to a failure that names its cause."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from slipway.container import DEFAULT_ROOT, Container, read_container
from slipway.cuda_compatibility import with_compatibility
from slipway.environment import make_folders, script_environment
from slipway.failure import STOPPED, BootError, exit_status, write_failure
from slipway.gate.passing import Surroundings, pass_gate
from slipway.hosts.assembly import assemble
from slipway.kept_log import everything_kept_in
from slipway.left_behind import tell_of_lost_work
from slipway.masking import NOTHING_MASKED, Masking
from slipway.processes import StopRequest
from slipway.program import program_of
from slipway.references import replaced
from slipway.rendezvous import Rendezvous, check_port, find_rendezvous
from slipway.requirements import WITHOUT_A_WAY_OUT, install
from slipway.restarts.sequence import LastStart, run_ranks
from slipway.room import give_room_back, take_room
from slipway.sagemaker_variables import folders
from slipway.secrets import take_secrets
from slipway.source import CODE_DIGEST_VARIABLE, unpack, verify
from slipway.starting import HostRun
from slipway.task import Task, parse_task, script_words
from slipway.uploads.beside import begin_uploads
from slipway.watchdog.of_host import with_pipes


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
    failure = root / "output" / "failure"
    masking = NOTHING_MASKED
    take_room(failure)
    try:
        secrets = take_secrets(environment)
        masking = Masking(secrets.values())
        _tell_what_is_not_masked(secrets)
        code = run(task, read_container(root), environment, stop, secrets, masking)
    except BootError as error:
        text = str(error)
    except Exception as error:  # whatever goes wrong here must reach the failure reason
        text = f"the boot itself failed: {type(error).__name__}: {error}"
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            text = f"DISK001 {text}"
    else:
        give_room_back(failure)
        return code
    text = masking.text(text)
    print(f"slipway: {text}", file=sys.stderr, flush=True)
    write_failure(failure, text, time.time())
    return 1


def run(
    task: Task,
    container: Container,
    environment: Mapping[str, str],
    stop: StopRequest,
    secrets: Mapping[str, str],
    masking: Masking,
) -> int:
    """Verify and unpack the source, install what it requires, start the processes, wait for them, and
    report a failure.

    `secrets` are variables for the processes alone; `masking` hides their values in all that is printed and
    kept.
    Raises BootError where the script cannot be started.
    """
    archive = container.input_data / "code" / "source.tar.gz"
    submitted = environment.get(CODE_DIGEST_VARIABLE)
    # Requests of older launchers do not say, nor do those of jobs that are resumed from theirs.
    if submitted is not None:
        verify(archive, submitted)
    unpack(archive, container.code)
    task, container, environment = with_folders(task, container, environment)
    arguments = script_words(task, container.hyperparameters)
    program = program_of(task, container.code, arguments, environment)
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
    inner = script_environment(
        task, container, environment, archive=package_path(), rendezvous=rendezvous, arguments=arguments
    )
    inner = with_compatibility(inner)
    print(_announcement(task, container, rendezvous), flush=True)
    started = time.time()
    assembly = assemble(container, rendezvous, environment)
    try:
        refused = pass_gate(Surroundings(task, container, rendezvous, package_path(), inner), assembly, stop)
        if refused is not None:
            return refused
        inner = {**(with_pipes(inner) if task.watchdog else inner), **secrets}
        # After the gate: on a dead mount this would never return.
        make_folders(inner)
        uploads = begin_uploads(task, inner, assembly, stop)
        try:
            here = HostRun(task, container, rendezvous, program, inner, masking, container.logs)
            last = run_ranks(here, assembly, stop)
        finally:
            uploads.end()
    finally:
        assembly.close()
    if last.end.ended.exit_code == 0 and stop.at is None:
        last.end.meeting.tell_of_the_end()
        tell_of_lost_work(container, inner, started)
    return conclude(container, last, stop) or uploads.verdict(container.failure_file)


def with_folders(
    task: Task, container: Container, environment: Mapping[str, str]
) -> tuple[Task, Container, Mapping[str, str]]:
    """All three with the container's folders in place of `${SM_MODEL_DIR}` and the like.

    Raises BootError (CODE002) for a name that the container does not have.
    """
    known = folders(container, environment)
    hyperparameters = {name: replaced(str(value), known) for name, value in container.hyperparameters.items()}
    return (
        replace(task, arguments=tuple(replaced(word, known) for word in task.arguments)),
        replace(container, hyperparameters=hyperparameters),
        {name: replaced(value, known) for name, value in environment.items()},
    )


def conclude(container: Container, last: LastStart, stop: StopRequest) -> int:
    """Write the failure file where the script failed by itself, and return the exit code.

    What fails after a stop was asked for is the stop's consequence; what failed before is not, even
    where the stop came first to the end. Where the watchdog ended the ranks, how they ended is the
    consequence of its verdict. What all hosts agreed on counts for all of them.
    """
    ended, verdict, cause = last.end.ended, last.end.verdict, last.end.cause
    if stop.at is not None:
        took = round(max(0.0, ended.time - stop.at))
        asked = f"asked to end by {stop.signal.name}, and ended {took} s later"
        print(f"slipway: {STOPPED} {container.current_host}: {asked}", file=sys.stderr, flush=True)
    if ended.exit_code == 0:
        return 0
    if last.failure is not None:
        write_failure(container.failure_file, last.failure.text, last.failure.time)
        return last.failure.exit_code
    if verdict is not None and stop.at is None:
        write_failure(container.failure_file, verdict.report, ended.time)
        return 1
    if stop.at is not None and (cause is None or cause.time >= stop.at):
        return 128 + stop.signal
    if cause is None:
        return exit_status(ended.exit_code)
    text = cause.text(container.current_host)
    # Its first line: the traceback is in the log already, where the rank printed it.
    print(f"slipway: {text.splitlines()[0]}", file=sys.stderr, flush=True)
    write_failure(container.failure_file, text, cause.time)
    return exit_status(cause.exit_code or ended.exit_code)


def package_path() -> Path:
    """What this package was loaded from: the archive, or the folder that holds it."""
    return Path(__file__).resolve().parent.parent


def _tell_what_is_not_masked(secrets: Mapping[str, str]) -> None:
    for variable, value in secrets.items():
        if not Masking([value]):
            told = f"the value of {variable} is too short to be masked in what the job prints"
            print(f"slipway: {told}", file=sys.stderr, flush=True)


def _announcement(task: Task, container: Container, rendezvous: Rendezvous) -> str:
    return (
        f"slipway: {container.current_host}, host {container.node_rank + 1} of {len(container.hosts)}: "
        f"{task.name} by {task.strategy}, {task.processes_per_host} per host, "
        f"rendezvous {rendezvous.address}:{rendezvous.port}"
    )
