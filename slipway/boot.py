"""The boot: from SageMaker's config files to running ranks, and to a failure that names its cause.

Also what is said where a job ends and its work lies where nothing is kept.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from slipway.container import (
    DEFAULT_ROOT,
    Container,
    Rendezvous,
    Task,
    check_port,
    find_rendezvous,
    parse_task,
    read_container,
    replace_references,
    script_arguments,
    with_cuda_compatibility,
)
from slipway.errors import say
from slipway.failure import STOPPED, BootError, exit_status, give_room_back, take_room, write_failure
from slipway.gate.pass_gate import Surroundings, pass_gate
from slipway.host_assembly import TOKEN_VARIABLE, Assembly, assemble
from slipway.job_secrets import NOTHING_MASKED, Masking, take_secrets
from slipway.processes.process_output import keep_all_output
from slipway.processes.restart_ranks import LastStart, run_ranks
from slipway.processes.supervise import StopRequest
from slipway.processes.torchrun import HostRun
from slipway.requirements import WITHOUT_A_WAY_OUT, install
from slipway.saving.uploads import begin_uploads
from slipway.script import (
    CODE_DIGEST_VARIABLE,
    folder_variables,
    make_folders,
    program_of,
    script_environment,
    unpack_source,
    verify_source,
)
from slipway.watchdog.watch_ranks import with_pipes


def main(arguments: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> int:
    """Run this host's part of the job and return the container's exit code.

    0 for success, the failed rank's code, or 128 and the signal's number. `environment` is the
    container's own; where its SLIPWAY_LOG names a file, all output is kept there instead of being passed on.
    """
    environment = dict(os.environ if environment is None else environment)
    words = sys.argv[1:] if arguments is None else arguments
    log = environment.get("SLIPWAY_LOG")
    with keep_all_output(Path(log)) if log else contextlib.nullcontext():
        return _main(words, environment)


def _main(arguments: Sequence[str], environment: dict[str, str]) -> int:
    stop = StopRequest()
    lifeline = environment.pop("SLIPWAY_LIFELINE", None)
    stop_file = environment.pop("SLIPWAY_STOP_FILE", None)
    task = parse_task(arguments)
    root = Path(environment.get("SLIPWAY_ROOT") or DEFAULT_ROOT)
    failure = root / "output" / "failure"
    masking = NOTHING_MASKED
    take_room(failure)
    try:
        stop.listen(lifeline, stop_file)
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
    say(text)
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
    # The hosts' own: a script that prints its environment would tell it to everybody who reads the log.
    token = environment.get(TOKEN_VARIABLE, "")
    environment = {name: value for name, value in environment.items() if name != TOKEN_VARIABLE}
    unpack_submitted_source(container, environment)
    task, container, environment = resolve_folders(task, container, environment)
    arguments = script_arguments(task, container.hyperparameters)
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
    if task.strategy == "torchrun" and container.node_rank == 0:
        check_port(rendezvous, container.current_host)
    inner = script_environment(
        task, container, environment, archive=package_path(), rendezvous=rendezvous, arguments=arguments
    )
    inner = with_cuda_compatibility(inner)
    print(_announcement(task, container, rendezvous), flush=True)
    host = HostRun(task, container, rendezvous, program, inner, masking, container.logs)
    return run_with_other_hosts(host, assemble(container, rendezvous, environment, token), secrets, stop)


def unpack_submitted_source(container: Container, environment: Mapping[str, str]) -> None:
    """Unpack the script's source where it is what was submitted. Raises BootError where it is not."""
    archive = container.input_data / "code" / "source.tar.gz"
    submitted = environment.get(CODE_DIGEST_VARIABLE)
    # Requests of older launchers do not say, nor do those of jobs that are resumed from theirs.
    if submitted is not None:
        verify_source(archive, submitted)
    unpack_source(archive, container.code)


def run_with_other_hosts(
    host: HostRun, assembly: Assembly, secrets: Mapping[str, str], stop: StopRequest
) -> int:
    """Pass the gate with the other hosts, run the ranks to their end, report that, return the exit code."""
    task, container, started = host.task, host.container, time.time()
    try:
        around = Surroundings(task, container, host.rendezvous, package_path(), host.environment)
        refused = pass_gate(around, assembly, stop)
        if refused is not None:
            return refused
        inner = {**(with_pipes(host.environment) if task.watchdog else host.environment), **secrets}
        # After the gate: on a dead mount this would never return.
        make_folders(inner)
        uploads = begin_uploads(task, inner, assembly, stop)
        try:
            last = run_ranks(replace(host, environment=inner), assembly, stop)
        finally:
            uploads.end()
    finally:
        assembly.close()
    if last.end.ended.exit_code == 0 and stop.at is None:
        last.end.meeting.tell_of_the_end()
        tell_of_lost_work(container, inner, started)
    return report_end(container, last, stop) or uploads.verdict(container.failure_file)


def resolve_folders(
    task: Task, container: Container, environment: Mapping[str, str]
) -> tuple[Task, Container, Mapping[str, str]]:
    """Task, container and environment with the container's folders for `${SM_MODEL_DIR}` and the like.

    Raises BootError (CODE002) for a name that the container does not have.
    """
    known = folder_variables(container, environment)
    hyperparameters = {
        name: replace_references(str(value), known) for name, value in container.hyperparameters.items()
    }
    return (
        replace(task, arguments=tuple(replace_references(word, known) for word in task.arguments)),
        replace(container, hyperparameters=hyperparameters),
        {name: replace_references(value, known) for name, value in environment.items()},
    )


def report_end(container: Container, last: LastStart, stop: StopRequest) -> int:
    """Write the failure file where the script failed by itself, and return the exit code.

    What fails after a stop was asked for is the stop's consequence; what failed before is not, even
    where the stop came first to the end. Where the watchdog ended the ranks, how they ended is the
    consequence of its verdict. What all hosts agreed on counts for all of them.
    """
    ended, verdict, cause = last.end.ended, last.end.verdict, last.end.cause
    if stop.at is not None:
        took = round(max(0.0, ended.time - stop.at))
        asked = f"asked to end by {stop.signal.name}, and ended {took} s later"
        say(f"{STOPPED} {container.current_host}: {asked}")
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
    say(f"{text.splitlines()[0]}")
    write_failure(container.failure_file, text, cause.time)
    return exit_status(cause.exit_code or ended.exit_code)


def package_path() -> Path:
    """What this package was loaded from: the archive, or the folder that holds it."""
    return Path(__file__).resolve().parent.parent


def _tell_what_is_not_masked(secrets: Mapping[str, str]) -> None:
    for variable, value in secrets.items():
        if not Masking([value]):
            told = f"the value of {variable} is too short to be masked in what the job prints"
            say(told)


def _announcement(task: Task, container: Container, rendezvous: Rendezvous) -> str:
    return (
        f"slipway: {container.current_host}, host {container.node_rank + 1} of {len(container.hosts)}: "
        f"{task.name} by {task.strategy}, {task.processes_per_host} per host, "
        f"rendezvous {rendezvous.address}:{rendezvous.port}"
    )


# What a job leaves where nothing is kept: its work, written beside the folders that outlive the hosts.


LOST_WORK_MODE = "CKPT007"

MOST_ENTRIES = 20_000
"""Files and folders that are looked at, in all; where there are more, nothing is said."""

MOST_SECONDS = 2.0

_WORK_SUFFIXES = (".pt", ".pth", ".ckpt", ".safetensors", ".bin", ".distcp", ".h5", ".keras", ".onnx")
"""How saved models and checkpoints are called; they count from _SMALLEST bytes on."""

_SMALLEST = 1_000
_LARGE_TOGETHER = 1_000_000
"""Bytes from which other files count, all of them together."""

_NO_WORK_SUFFIXES = (
    ".gz",
    ".tgz",
    ".tar",
    ".zip",
    ".zst",
    ".parquet",
    ".arrow",
    ".csv",
    ".log",
    ".lock",
    ".pyc",
    ".so",
)
"""What is downloaded, built or logged rather than trained."""

_OWN_FOLDERS = ("slipway", "flight_recorder")
"""Below /opt/ml/output/data: the ranks' output, and where PyTorch's flight recorder writes."""

_NO_WORK_FOLDERS = ("__pycache__", ".git", ".cache", "data", "dataset", "datasets", "wandb")
"""Where scripts keep what they could have again; only files called as a model's count there."""


class _File(NamedTuple):
    path: str
    size: int
    is_work: bool
    """Whether it is called as a model's or a checkpoint's file, and not tiny."""
    may_be_work: bool


class Incomplete(Exception):
    """There is more than can be looked at in the time."""


def tell_of_lost_work(container: Container, environment: Mapping[str, str], since: float) -> None:
    """Say, after a success, which files hold work and die with the host, where nothing at all was kept.

    `environment` is the script's, `since` when it was started, in seconds since the epoch. The first host
    alone speaks: a job's other hosts save nothing as a rule.
    """
    if container.node_rank != 0:
        return
    budget = Budget()
    try:
        if any(True for _ in _files_written(_kept_folders(container, environment), since, budget)):
            return
        lost = [file for file in _files_written([container.code], since, budget) if file.may_be_work]
        scratch = [*_scratch_folders(container, environment)]
    except (OSError, Incomplete):
        return
    with contextlib.suppress(OSError, Incomplete):  # What was found by then is lost all the same.
        lost.extend(file for file in _files_written(scratch, since, budget) if file.is_work)
    work = [file for file in lost if file.is_work]
    if work or sum(file.size for file in lost) > _LARGE_TOGETHER:
        say(f"{LOST_WORK_MODE} {_lost_work_sentence(work or lost, container.code)}")


class Budget:
    """How much may be looked at still: Incomplete is raised where that is used up."""

    def __init__(self, entries: int = MOST_ENTRIES, seconds: float = MOST_SECONDS) -> None:
        self._entries, self._until = entries, time.monotonic() + seconds

    def spend(self) -> None:
        """Count one entry. Raises Incomplete."""
        self._entries -= 1
        if self._entries < 0 or time.monotonic() > self._until:
            raise Incomplete


def _kept_folders(container: Container, environment: Mapping[str, str]) -> list[Path]:
    """The folders that outlive the host."""
    names = ("SM_MODEL_DIR", "SM_OUTPUT_DATA_DIR", "SLIPWAY_CHECKPOINT_DIR")
    return [*(Path(environment[name]) for name in names), container.root / "checkpoints"]


_SCRATCH = re.compile(r"(?:/tmp|/dev/shm)/\w[\w.+/-]{0,200}")
_NOT_THE_JOBS = (
    "SLIPWAY_",
    "SM_",
    "TORCH_",
    "PATH",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "LD_",
    "DYLD_",
    "HOME",
    "TMPDIR",
    "PWD",
    "OLDPWD",
    "_",
)
"""How the variables begin that a machine has, or that are made for the script."""


def _scratch_folders(container: Container, environment: Mapping[str, str]) -> set[Path]:
    """The folders of what nobody keeps. A machine that is not the container has them for others too: there
    only those that the code names, or the job in its variables and hyperparameters."""
    if container.root == Path(DEFAULT_ROOT):
        return {Path("/tmp"), Path("/dev/shm")}
    told = [file.read_text("utf-8", "replace") for file in sorted(container.code.rglob("*.py"))[:200]]
    told += [text for name, text in environment.items() if not name.startswith(_NOT_THE_JOBS)]
    told += map(str, container.hyperparameters.values())
    named = {Path(match[0]) for text in told for match in _SCRATCH.finditer(text)}
    root = container.root
    return {each for each in named if root not in each.parents and each not in (root, *root.parents)}


def _files_written(folders: Sequence[Path], since: float, budget: Budget) -> Iterator[_File]:
    """The files below the folders that were written since then, ours left out."""
    waiting = [(folder, True) for folder in folders if folder.is_dir()]
    while waiting:
        folder, has_work = waiting.pop()
        for entry in os.scandir(folder):
            budget.spend()
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                if not (
                    folder.name == "data" and folder.parent.name == "output" and entry.name in _OWN_FOLDERS
                ):
                    waiting.append((Path(entry.path), has_work and entry.name not in _NO_WORK_FOLDERS))
            elif stat.S_ISREG(status.st_mode) and status.st_mtime >= since:
                is_work = entry.name.endswith(_WORK_SUFFIXES) and status.st_size >= _SMALLEST
                may_be_work = is_work or (has_work and not entry.name.endswith(_NO_WORK_SUFFIXES))
                yield _File(entry.path, status.st_size, is_work, may_be_work)


def _lost_work_sentence(files: Sequence[_File], code: Path) -> str:
    largest = max(files, key=lambda file: file.size)
    name = os.path.relpath(largest.path, code) if largest.path.startswith(f"{code}/") else largest.path
    count = "1 file" if len(files) == 1 else f"{len(files)} files"
    return (
        f"nothing was saved where it is kept; what the script wrote elsewhere, {count} "
        f"({_bytes_in_words(sum(file.size for file in files))}) such as {name}, dies with the host. Write to "
        "SM_MODEL_DIR, SLIPWAY_CHECKPOINT_DIR or SM_OUTPUT_DATA_DIR"
    )


def _bytes_in_words(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
