"""How a local job begins: what this machine refuses, its folder, and its boots."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.backends.interface import BackendError, OnProgress, UnusablePlan
from launcher.backends.local.hosts import Host, hosts_of
from launcher.backends.local.interpreter import check_can_run
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
from launcher.backends.local.machine import visible_devices
from launcher.backends.local.overlay import python_with_requirements
from launcher.backends.local.processes import ProcessId
from launcher.backends.local.secrets import secrets_here
from launcher.backends.local.state_files import write_state
from launcher.backends.local.status import JobRecord
from launcher.backends.local.store import REQUEST_FILE, JobStore

if TYPE_CHECKING:
    from launcher.jobs.variables import Variables
    from launcher.planning.request_view import RequestView
    from launcher.planning.training_plan import TrainingPlan


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
    request, package = plan.view, plan.package
    if plan.refused or request is None or package is None:
        raise UnusablePlan
    if plan.operation != "CreateTrainingJob":
        raise BackendError(
            "a tuning job is SageMaker's own: nothing here chooses the next hyperparameters.",
            "Run one of its jobs: a job file without `tuning`, with values in `hyperparameters`.",
        )
    folder = store.folder(str(request.name))
    hosts = hosts_of(folder, request.hosts or 1)
    check_can_run(python)
    check_boot_starts(request)
    check_inputs(request, inputs)
    secrets = secrets_here(request, variables)
    earlier = _checkpoints_to_resume(plan, store)
    equipped = python_with_requirements(
        python,
        package.source,
        environments,
        request.environment,
        on_progress,
        withheld=request.secrets,
    )
    commands = {host: boot_command(request, host, equipped) for host in hosts}
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise BackendError(f"there is a local job {request.name} already.", "Use another name.") from None
    except OSError as error:
        raise _no_room(folder, error) from error
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
        # From here on a launcher that is killed leaves a job that failed, and is listed as one.
        record.write()
        write_state(folder / REQUEST_FILE, {"request": plan.request})
        if earlier is not None:
            shutil.copytree(earlier, folder / "checkpoints")
        lay_out(folder, request, package, inputs)
        given = plan.job.get("environment", {})
        environments_of_hosts = _environments(request, hosts, devices, equipped, processes, given)
        job.launch(commands, {host: {**own, **secrets} for host, own in environments_of_hosts.items()})
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise _no_room(folder, error) from error
        raise
    return job


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
    return {
        host: host_environment(
            request,
            host,
            rendezvous,
            python,
            seen,
            {**threads, **debugging_here(request, seen, given)},
        )
        for host, seen in zip(hosts, devices, strict=True)
    }


def _checkpoints_to_resume(plan: TrainingPlan, store: JobStore) -> Path | None:
    """The checkpoints of the job to resume from, or None for a job that starts from nothing."""
    name: str | None = (plan.job.get("checkpoint") or {}).get("resume_from")
    if not name:
        return None
    checkpoints = store.home / name / "checkpoints"
    if not store.holds(name) or not checkpoints.is_dir():
        raise BackendError(
            f"there is no local job {name} to resume from; there are: {store.known()}.",
            "Give the name of a job that ran here in `checkpoint.resume_from`.",
        )
    # As on AWS: who asks to go on does not want to start at step 0.
    if not any(files for _, _, files in os.walk(checkpoints)):
        raise BackendError(
            f"there is no checkpoint in {checkpoints} to resume from.",
            "Launch the job file to start from the beginning; where it has `checkpoint.resume_from`, "
            "correct that or leave it out.",
        )
    return checkpoints


def _no_room(folder: Path, error: OSError) -> BackendError:
    """The refusal of a job whose folder could not be made: a full disk, a read-only folder."""
    return BackendError(
        f"the local run cannot be prepared in {folder}: {error.strerror or error}"
        f"{f' ({error.filename})' if error.filename else ''}.",
        f"Free some of the disk, such as old runs in {folder.parent}, or launch from a folder that you may "
        "write to.",
    )
