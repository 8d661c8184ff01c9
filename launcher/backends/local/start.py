"""How a local job begins: what this machine refuses, its folder, its secrets, its boots; or an earlier job
again."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from launcher.backends.interface import BackendError, OnProgress, UnusablePlan
from launcher.backends.local.files import Host, hosts_of, write_state
from launcher.backends.local.job import Grace, LocalJob
from launcher.backends.local.layout import (
    boot_command,
    check_boot_starts,
    check_inputs,
    choose_rendezvous,
    debugging_here,
    host_environment,
    lay_out,
    share_devices,
    share_threads,
)
from launcher.backends.local.overlay import python_with_requirements
from launcher.backends.local.processes import ProcessId
from launcher.backends.local.python import check_can_run, visible_devices
from launcher.backends.local.records import REQUEST_FILE, JobRecord, JobStore, RunFolder
from launcher.failure_modes import storage
from launcher.jobs.load_job import Variables, allowed_variables
from launcher.jobs.script_inputs import RESERVED_CHANNEL
from launcher.planning.finished_request import HOST_TOKEN_VARIABLE, make_host_token
from launcher.planning.request_view import ENTRY_POINT_OPTION, REQUIREMENTS_OPTION, Request, RequestView
from launcher.planning.training_plan import SourcePackage, TrainingPlan
from launcher.source.packaging import SOURCE_NAME, scratch_folder
from launcher.source.tree import SourceTree, read_source
from launcher.text.regular_files import open_regular


def start_job(
    plan: TrainingPlan,
    store: JobStore,
    *,
    inputs: Mapping[str, Path],
    python: Path,
    environments: Path,
    variables: Variables | None,
    grace: Grace,
    on_progress: OnProgress | None,
) -> LocalJob:
    """Start a plan's hosts in a new folder of the store; nothing is left of a job that cannot be started.

    `inputs` are folders for its channels, `python` is what runs it, with what it requires in one of the
    `environments`; `variables` are what its secrets are taken from. Raises BackendError where this machine
    cannot run it.
    """
    request, package = runnable_request(plan)
    folder = store.folder(str(request.name))
    hosts = hosts_of(folder, request.hosts or 1)
    check_can_run(python)
    check_boot_starts(request)
    check_inputs(request, inputs)
    secrets = secrets_here(request, variables)
    earlier = checkpoints_to_resume(plan, store)
    equipped = python_with_requirements(
        python,
        package.source,
        environments,
        request.environment,
        on_progress,
        withheld=request.secrets,
    )
    commands = {host: boot_command(request, host.root, str(equipped)) for host in hosts}
    _make_folder(folder, request)
    processes = plan.job.get("distribution", {}).get("processes_per_host") or 1
    devices = share_devices(visible_devices(os.environ), len(hosts), processes)
    record = JobRecord(
        folder,
        ProcessId.of_this_process(),
        len(hosts),
        python=python,
        environment=None if equipped == python else equipped.parent.parent,
        gpus=bool(devices[0].get("CUDA_VISIBLE_DEVICES")),
    )
    job = LocalJob(record, hosts, max_seconds=request.max_runtime_seconds, grace=grace)
    try:
        _write_files(record, plan, earlier)
        lay_out(folder, request, package, inputs)
        given = plan.job.get("environment", {})
        environments_of_hosts = _environments(request, hosts, devices, equipped, processes, given)
        job.launch(commands, {host: {**own, **secrets} for host, own in environments_of_hosts.items()})
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise no_room(folder, error) from error
        raise
    return job


def runnable_request(plan: TrainingPlan) -> tuple[RequestView, SourcePackage]:
    """The plan's request and its source, where it is one that a machine can run."""
    if plan.refused or plan.view is None or plan.package is None:
        raise UnusablePlan
    if plan.operation != "CreateTrainingJob":
        raise BackendError(
            "a tuning job is SageMaker's own: nothing here chooses the next hyperparameters.",
            "Run one of its jobs: a job file without `tuning`, with values in `hyperparameters`.",
        )
    return plan.view, plan.package


def _make_folder(folder: Path, request: RequestView) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise BackendError(f"there is a local job {request.name} already.", "Use another name.") from None
    except OSError as error:
        raise no_room(folder, error) from error


def _write_files(record: JobRecord, plan: TrainingPlan, earlier: Path | None) -> None:
    """From here on a launcher that is killed leaves a job that failed, and is listed as one."""
    record.write()
    write_state(record.folder / REQUEST_FILE, {"request": plan.request})
    if earlier is not None:
        copy_checkpoints(earlier, record.folder / "checkpoints")


def _environments(
    request: RequestView,
    hosts: list[Host],
    devices: list[dict[str, str]],
    python: Path,
    processes: int,
    given: Mapping[str, str],
) -> dict[Host, dict[str, str]]:
    """The environment of each host's boot; `given` is what the job file says of it."""
    rendezvous = choose_rendezvous(request)
    threads = share_threads(len(hosts) * processes, given)
    token = {HOST_TOKEN_VARIABLE: make_host_token(secrets.token_bytes(32), str(request.name))}
    return {
        host: host_environment(
            request,
            host,
            rendezvous,
            python,
            seen,
            {**threads, **token, **debugging_here(request, seen, given)},
        )
        for host, seen in zip(hosts, devices, strict=True)
    }


def checkpoints_to_resume(plan: TrainingPlan, store: RunFolder) -> Path | None:
    """The checkpoints of the job to resume from, or None for a job that starts from nothing."""
    name = name_to_resume(plan)
    if name is None:
        return None
    checkpoints = store.home / name / "checkpoints"
    if not store.holds(name):
        raise BackendError(
            f"there is no {store.kind} {name} to resume from; there are: {store.known()}.",
            "Give the name of one of them in `checkpoint.resume_from`.",
        )
    # As on AWS: who asks to go on does not want to start at step 0.
    if not any(files for _, _, files in os.walk(checkpoints)):
        raise BackendError(
            f"there is no checkpoint in {checkpoints} to resume from.",
            "Launch the job file to start from the beginning; where it has `checkpoint.resume_from`, "
            "correct that or leave it out.",
        )
    _check_entries(checkpoints)
    return checkpoints


def name_to_resume(plan: TrainingPlan) -> str | None:
    """The name of the job from which a plan's job goes on; None where it starts from nothing."""
    return (plan.job.get("checkpoint") or {}).get("resume_from") or None


def _check_entries(checkpoints: Path) -> None:
    """Raise BackendError for what cannot be copied as it is.

    Links stay links, so they must lead to something within the folder; all else must be a file or a folder.
    """
    within = checkpoints.resolve()
    for folder, folders, files in os.walk(checkpoints):
        for name in (*folders, *files):
            entry = Path(folder, name)
            mode = entry.lstat().st_mode
            if problem := _link_problem(entry, within) if stat.S_ISLNK(mode) else _special_kind(mode):
                raise BackendError(
                    f"{entry} {problem}, so that the checkpoints cannot be copied for the run that goes on.",
                    "Delete it, or put a file in its place; then resume again.",
                )


def _link_problem(link: Path, within: Path) -> str:
    """What a link does that a copy of the folder cannot have; empty where it is fine."""
    target = str(link.readlink())
    try:
        found = link.resolve(strict=True)
    except (OSError, RuntimeError):
        return f"is a link to {target!r}, which leads nowhere"
    return "" if found.is_relative_to(within) else f"is a link to {target!r}, which leads out of the folder"


def copy_checkpoints(earlier: Path, copy: Path) -> None:
    """Copy an earlier job's checkpoints, of which `_check_entries` found nothing wrong.

    Links lead to the same places within the copy.
    """
    shutil.copytree(earlier, copy, symlinks=True)
    within = earlier.resolve()
    for folder, folders, files in os.walk(within):
        for link in (Path(folder, name) for name in (*folders, *files) if Path(folder, name).is_symlink()):
            target = link.readlink()
            named = Path(os.path.normpath(Path(folder, target)))
            if not target.is_absolute() and named.is_relative_to(within):
                continue
            # Such as the folder by its place in the earlier run's host, written out.
            moved = copy / link.relative_to(within)
            moved.unlink()
            moved.symlink_to(os.path.relpath(link.resolve(), folder))


def _special_kind(mode: int) -> str:
    """What an entry is that is neither a file nor a folder; empty for these."""
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return ""
    kinds = ((stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return f"is {next((name for is_one, name in kinds if is_one(mode)), 'a device')}, and no file"


def no_room(folder: Path, error: OSError) -> BackendError:
    """The refusal of a job whose folder could not be made: a full disk, a read-only folder."""
    return BackendError(
        f"the run cannot be prepared in {folder}: {error.strerror or error}"
        f"{f' ({error.filename})' if error.filename else ''}.",
        f"Free some of the disk, such as old runs in {folder.parent}, or launch from a folder that you may "
        "write to.",
    )


HERE_VARIABLE: Final = "SLIPWAY_SECRETS_HERE"
"""By which the boot knows that the values are in its environment already (`slipway/job_secrets.py`)."""


def secrets_here(request: RequestView, variables: Variables | None = None) -> Mapping[str, str]:
    """What the environment of a host's boot has besides, for the secrets that the job names.

    The values are those of the launcher's own variables of the same names, of which a job file may have no
    others than `${NAME}` may stand for; None is this process' environment by the usual rule. Raises
    BackendError for those that are not set, or may not be had.
    """
    named = request.secrets
    if not named:
        return {}
    given = variables or Variables(os.environ, allowed_variables(os.environ, None))
    missing = [name for name in named if not given.values.get(name)]
    if missing:
        exports = " ".join(f"{name}=..." for name in missing)
        raise BackendError(
            f"{storage.SECRET_UNREADABLE.code} the job's secrets {', '.join(missing)} are not set here: a "
            "local run takes them from the environment, not from Secrets Manager; nothing was started.",
            f"Set them before the launch: export {exports}",
        )
    forbidden = [name for name in named if given.allowed is not None and name not in given.allowed]
    if forbidden:
        raise BackendError(
            f"{storage.SECRET_UNREADABLE.code} the job's secrets {', '.join(forbidden)} are not taken from "
            "the environment: in CI (the variable CI is set), or with --allow-env, a job file has only the "
            "variables that it is given; nothing was started.",
            "If the job may have them, add " + " ".join(f"--allow-env {name}" for name in forbidden) + ".",
        )
    return {HERE_VARIABLE: "1", **{name: given.values[name] for name in named}}


@contextmanager
def resumed_plan(folder: Path, request: Request) -> Iterator[tuple[TrainingPlan, dict[str, Path]]]:
    """The plan of a request that goes on from an earlier job's, and the folders of its channels.

    `folder` is the earlier job's. Its code is unpacked for as long as the context lasts. Raises BackendError
    where that is gone.
    """
    data = hosts_of(folder, 1)[0].root / "input" / "data"
    with scratch_folder("resume-") as scratch:
        _unpack(data / RESERVED_CHANNEL / SOURCE_NAME, scratch)
        view = RequestView(request)
        plan = TrainingPlan(
            job={
                "name": str(view.name),
                "checkpoint": {"resume_from": folder.name},
                "distribution": {"processes_per_host": view.processes_per_host},
            },
            region=None,
            request=request,
            package=SourcePackage(_source(scratch, view.boot_options), ""),
            findings=(),
        )
        inputs = {
            channel.name: channel.resolve()
            for channel in data.iterdir()
            if channel.name != RESERVED_CHANNEL and channel.is_dir()
        }
        yield plan, inputs


def _source(folder: Path, options: Mapping[str, str]) -> SourceTree:
    """The code as the boot is told to start it."""
    return read_source(
        folder, options.get(ENTRY_POINT_OPTION, ""), requirements=options.get(REQUIREMENTS_OPTION)
    )


def _unpack(archive: Path, folder: Path) -> None:
    try:
        with open_regular(archive) as file, tarfile.open(fileobj=file) as packed:
            packed.extractall(folder, filter="data")
    except (OSError, tarfile.TarError) as error:
        raise BackendError(
            f"the code of the earlier job cannot be read from {archive}: {error}.",
            "Launch its job file again, with --set checkpoint.resume_from=NAME.",
        ) from error
