"""How a run on Slurm begins: its folder on the shared folder, and one job for it, however often it is asked.

The run's name is its identity. Making its folder decides which launcher prepares it; the job has the same
name, by which one that was submitted is found; and the script itself runs for one job alone.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from launcher.backends.interface import BackendError, NameTakenError, OnProgress, Progress, UncertainError
from launcher.backends.local.files import write_state
from launcher.backends.local.layout import lay_out
from launcher.backends.local.overlay import python_with_requirements
from launcher.backends.local.processes import ProcessId
from launcher.backends.local.python import check_can_run
from launcher.backends.local.records import REQUEST_FILE
from launcher.backends.local.start import (
    checkpoints_to_resume,
    copy_checkpoints,
    no_room,
    runnable_request,
    secrets_here,
)
from launcher.backends.slurm.commands import SlurmCommands, SlurmSilent
from launcher.backends.slurm.records import SlurmRecord, SlurmRuns, batch_host
from launcher.backends.slurm.script import (
    SCRIPT_NAME,
    TOKEN_NAME,
    ScriptParts,
    gpus_of,
    python_of,
    render_script,
)
from launcher.jobs.job_sections import Slurm
from launcher.jobs.load_job import Variables
from launcher.planning.finished_request import make_host_token
from launcher.planning.request_view import RequestView
from launcher.planning.training_plan import SourcePackage, TrainingPlan


def start_run(
    plan: TrainingPlan,
    section: Slurm,
    runs: SlurmRuns,
    commands: SlurmCommands,
    *,
    inputs: Mapping[str, Path],
    variables: Variables | None,
    on_progress: OnProgress | None,
) -> SlurmRecord:
    """Prepare a plan's run and submit its job, unless it has been already; the record with the job's id.

    Nothing is left of a run that Slurm refused. Raises BackendError where it cannot be prepared or Slurm
    refuses it, UncertainError where nobody can tell whether Slurm took it.
    """
    request, package = runnable_request(plan)
    folder = runs.folder(str(request.name))
    python, given = python_of(section), plan.job.get("environment", {})
    # Before the folder is made: what is wrong here leaves nothing behind.
    secrets_here(request, variables)
    parts = ScriptParts(folder, request, section, gpus_of(section, request.instance_type), python, given)
    render_script(parts)
    earlier = checkpoints_to_resume(plan, runs)
    if section.image is None:
        parts = replace(parts, python=_equipped_python(parts, package, runs.home, on_progress))
    found = _claim(runs, folder, plan, commands, on_progress)
    if found is not None:
        return found
    try:
        record = _prepare(parts, package, inputs, plan, earlier)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise no_room(folder, error) from error
        raise
    return _submit(record, commands)


def _equipped_python(
    parts: ScriptParts, package: SourcePackage, home: Path, on_progress: OnProgress | None
) -> str:
    """The Python that runs the job, with what its requirements ask for in an environment beside the runs."""
    python = Path(parts.python)
    check_can_run(python)
    equipped = python_with_requirements(
        python,
        package.source,
        home / "environments",
        parts.request.environment,
        on_progress,
        withheld=parts.request.secrets,
    )
    return str(equipped)


def _claim(
    runs: SlurmRuns,
    folder: Path,
    plan: TrainingPlan,
    commands: SlurmCommands,
    on_progress: OnProgress | None,
) -> SlurmRecord | None:
    """Make the run's folder, which one launcher alone can; the run, where the plan was submitted before.

    Raises NameTakenError where another plan was, UncertainError where a launcher may still be at it.
    """
    for _ in range(2):
        try:
            runs.home.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700)
        except FileExistsError:
            found = _submitted_before(runs, folder, plan, commands)
            if found is not None:
                return found
            _clear_broken(runs, folder, on_progress)
        except OSError as error:
            raise no_room(folder, error) from error
        else:
            return None
    raise BackendError(f"{folder} cannot be made: another launcher makes it, too.", "Launch again.")


def _submitted_before(
    runs: SlurmRuns, folder: Path, plan: TrainingPlan, commands: SlurmCommands
) -> SlurmRecord | None:
    """The run of that name, where Slurm has its job or it has ended; None of one that never got so far."""
    job = commands.job_named(folder.name)
    if not runs.holds(folder.name):
        return None
    record = runs.record(folder.name)
    if job is None and not record.state.is_final:
        return None
    if runs.request(folder.name) != plan.request:
        raise NameTakenError(f"there is a run {folder.name} of another job already.", "Use another name.")
    return record if record.job_id or job is None else replace(record, job_id=job.job_id)


def _clear_broken(runs: SlurmRuns, folder: Path, on_progress: OnProgress | None) -> None:
    """Put aside what a launcher left that ended before it had submitted anything.

    Raises UncertainError where a launcher may still be at it.
    """
    if runs.holds(folder.name):
        record = runs.record(folder.name)
        busy = record.job_id is not None or record.is_being_submitted
    else:
        # Not even its status was written: that takes a moment, but for a folder that is slow.
        busy = time.time() - _changed(folder) < _PREPARING_SECONDS
    if busy:
        raise UncertainError(
            f"another launch prepares {folder} at this moment, so that whether its job is there cannot be "
            "seen yet.",
            "Launch again in a minute; no second job is started.",
        )
    if on_progress is not None:
        on_progress(Progress(f"an interrupted launch left {folder}, and nothing on Slurm: making it anew"))
    aside = folder.with_name(f".broken-{folder.name}-{time.time_ns()}")
    with contextlib.suppress(FileNotFoundError):
        folder.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)


_PREPARING_SECONDS = 60.0


def _changed(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0


def _prepare(
    parts: ScriptParts,
    package: SourcePackage,
    inputs: Mapping[str, Path],
    plan: TrainingPlan,
    earlier: Path | None,
) -> SlurmRecord:
    """Fill the run's folder. From its status file on it is listed as a run."""
    folder, request = parts.folder, parts.request
    record = SlurmRecord(
        folder, parts.hosts, parts.section.model_dump(mode="json"), ProcessId.of_this_process()
    )
    record.write()
    write_state(folder / REQUEST_FILE, {"request": plan.request})
    if earlier is not None:
        copy_checkpoints(earlier, folder / "checkpoints")
    lay_out(folder, request, package, inputs, interface=None)
    batch_host(folder).folder.mkdir()
    batch_host(folder).log.touch()
    _write_token(folder / TOKEN_NAME, request)
    (folder / SCRIPT_NAME).write_text(render_script(parts), encoding="utf-8")
    return record


def _write_token(file: Path, request: RequestView) -> None:
    token = make_host_token(secrets.token_bytes(32), str(request.name))
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(token)


def _submit(record: SlurmRecord, commands: SlurmCommands) -> SlurmRecord:
    folder = record.folder
    try:
        job_id = commands.submit(folder / SCRIPT_NAME)
    except UncertainError:
        # The folder stays: a job that is there needs it, and by its name it is found.
        found = _found(record.name, commands)
        if found is None:
            raise
        job_id = found
    except (BackendError, SlurmSilent):
        shutil.rmtree(folder, ignore_errors=True)
        raise
    record = replace(record, job_id=job_id)
    # Without it the job is found by its name.
    with contextlib.suppress(OSError):
        record.write()
    return record


def _found(name: str, commands: SlurmCommands) -> str | None:
    try:
        job = commands.job_named(name)
    except (BackendError, SlurmSilent):
        return None
    return job.job_id if job is not None else None
