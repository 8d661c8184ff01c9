"""How a run on Slurm begins: its folder on the shared folder, and one job for it, however often it is asked.

The run's name is its identity. Making its folder decides which launcher prepares it; the job has the same
name, by which one that was submitted is found; and the script itself runs for one job alone.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher.aws.errors import Outage
from launcher.backends.interface import BackendError, NameTakenError, OnProgress, Progress, UncertainError
from launcher.backends.local.files import write_state
from launcher.backends.local.layout import lay_out
from launcher.backends.local.overlay import (
    ARCHIVE_NAME,
    ORDER_NAME,
    PROGRAM,
    ThisMachine,
    Workshop,
    python_with_requirements,
)
from launcher.backends.local.processes import ProcessId
from launcher.backends.local.python import answer_in, check_can_run, packages_of
from launcher.backends.local.records import REQUEST_FILE, STATUS_FILE
from launcher.backends.local.start import name_to_resume, runnable_request, secrets_here
from launcher.backends.slurm.commands import SlurmCommands
from launcher.backends.slurm.login_node import LoginNode, NotInstalled
from launcher.backends.slurm.records import SlurmRecord, batch_host, prefix_on_s3
from launcher.backends.slurm.script import (
    SCRIPT_NAME,
    TOKEN_NAME,
    ScriptParts,
    gpus_of,
    python_of,
    render_script,
)
from launcher.backends.slurm.shared_folder import SharedFolder
from launcher.jobs.job_sections import Slurm
from launcher.jobs.load_job import Variables
from launcher.planning.finished_request import make_host_token
from launcher.planning.request_view import RequestView
from launcher.planning.training_plan import SourcePackage, TrainingPlan


def start_run(
    plan: TrainingPlan,
    section: Slurm,
    shared: SharedFolder,
    commands: SlurmCommands,
    *,
    login: LoginNode | None,
    inputs: Mapping[str, Path],
    variables: Variables | None,
    s3: Callable[[], Any],
    on_progress: OnProgress | None,
) -> SlurmRecord:
    """Prepare a plan's run and submit its job, unless it has been already; the record with the job's id.

    `login` is the login node, where the cluster is behind one; `s3` makes a client of S3. Nothing is left of
    a run that Slurm refused. Raises BackendError where it cannot be prepared or Slurm refuses it,
    UncertainError where nobody can tell whether Slurm took it.
    """
    request, package = runnable_request(plan)
    name = shared.runs.folder(str(request.name)).name
    folder = shared.place / name
    python, given = python_of(section), plan.job.get("environment", {})
    # Before the folder is made: what is wrong here leaves nothing behind.
    own = secrets_here(request, variables)
    parts = ScriptParts(folder, request, section, gpus_of(section, request.instance_type), python, given)
    render_script(parts)
    stored = prefix_on_s3(request)
    origin = _origin_on_s3(plan, shared, stored)
    earlier = shared.checkpoints_to_resume(plan) if origin is None else None
    if section.image is None:
        parts = replace(parts, python=_equipped_python(parts, package, shared.place, login, on_progress))
    found = _claim(shared, name, plan, commands, on_progress)
    if found is not None:
        return found
    with shared.draft(name) as draft:
        if earlier is not None:
            shared.copy_checkpoints(earlier, name)
        if origin is not None and stored is not None:
            # Only for them: AWS's client takes long to import.
            from launcher.backends.sagemaker.resume import copy_newest

            copy_newest(s3(), origin, stored, on_progress)
        record = _prepare(parts, draft, package, inputs, plan)
    record = replace(record, folder=shared.runs.folder(name))
    return _submit(record, shared, commands, own if login is not None else {})


def _origin_on_s3(plan: TrainingPlan, shared: SharedFolder, stored: str | None) -> str | None:
    """The prefix on S3 from which a plan's run goes on; None where it does not, or from the shared folder.

    `stored` is the run's own. Raises BackendError where checkpoints would have to go from one to the other.
    """
    reference = name_to_resume(plan)
    if reference is None:
        return None
    origin: str | None = reference
    if not reference.startswith("s3://"):
        shared.look(reference)
        if not shared.runs.holds(reference):
            return None
        origin = prefix_on_s3(RequestView(shared.runs.request(reference)))
    if (origin is None) is (stored is None):
        return origin
    here, there = "on the shared folder", "on S3"
    was, is_ = (here, there) if origin is None else (there, here)
    raise BackendError(
        f"the checkpoints of {reference} lie {was}, and those of this run are to lie {is_}: it would go on "
        "from nothing.",
        "Give `checkpoint.s3_uri` with `sync: slipway` for S3, or neither for the shared folder, as the "
        "earlier run had it.",
    )


class OnLoginNode:
    """A login node as a workshop (`launcher.backends.local.overlay.Workshop`): its environments lie in a
    folder there."""

    another_python = "`slurm.python`"
    passing = True

    def __init__(self, login: LoginNode, environments: Path) -> None:
        self._login = login
        self._environments = environments

    def ask(self, python: Path, question: str) -> Mapping[str, Any]:
        """As any other."""
        words = ["env", "PYTHONPATH=", "PYTHONHOME=", str(python), "-c", question]
        try:
            ran = self._login.run(words, f"ask {python} what it has")
        except NotInstalled:
            raise BackendError(
                f"there is no Python {python} on {self._login.host}: no node could run the job.",
                "Give in `slurm.python` one that it and all nodes see, or the folder of its environment.",
            ) from None
        return answer_in(python, ran.returncode, ran.stdout, ran.stderr)

    def use(self, folder: Path) -> bool:
        """As any other."""
        marks = ["bash", "-c", 'test -f "$1/complete" && touch "$1"', "bash", str(folder)]
        return self._login.run(marks, f"look at {folder}").returncode == 0

    def work(self, python: Path, given: Path, withheld: Collection[str]) -> Generator[str, None, None]:
        """As any other: its input is what it lives by. The program itself withholds variables there."""
        what = f"install packages on {self._login.host}"
        # Not with the folders above: where the shared folder is not mounted, nothing is made in its place.
        self._login.run(["mkdir", str(self._environments.parent)], what)
        made = self._login.run(["mkdir", str(self._environments)], what)
        if made.returncode != 0 and "File exists" not in made.stderr:
            raise OSError(0, f"{self._login.host} says: {made.stderr.strip() or 'nothing'}")
        place = self._environments / f".order-{secrets.token_hex(8)}"
        self._login.push(given, place)
        own = [f"PYTHONPATH={place / ARCHIVE_NAME}", "PYTHONHOME=", "SLIPWAY_LIFELINE=0"]
        words = ["env", *own, str(python), "-c", PROGRAM, str(place / ORDER_NAME)]
        yield from self._login.follow(words, what)

    def address(self, file: Path) -> str:
        """As any other."""
        return f"{file} on {self._login.host}"


def _equipped_python(
    parts: ScriptParts,
    package: SourcePackage,
    home: Path,
    login: LoginNode | None,
    on_progress: OnProgress | None,
) -> str:
    """The Python that runs the job, with what its requirements ask for in an environment beside the runs."""
    python, environments = Path(parts.python), home / "environments"
    workshop = None if login is None else OnLoginNode(login, environments)
    if workshop is None:
        check_can_run(python)
    elif package.source.requirements is None:
        packages_of(python, workshop.ask)
    if prefix_on_s3(parts.request) is not None:
        _check_boto3(python, package, workshop or ThisMachine())
    equipped = python_with_requirements(
        python,
        package.source,
        environments,
        parts.request.environment,
        on_progress,
        withheld=parts.request.secrets,
        workshop=workshop,
    )
    return str(equipped)


def _check_boto3(python: Path, package: SourcePackage, workshop: Workshop) -> None:
    """Raise BackendError where the boot could not copy checkpoints to S3; it would say so on the nodes."""
    wanted = package.source.requirements
    named = wanted is not None and any(
        each.requirement is None or each.requirement.name.lower() == "boto3" for each in wanted.packages
    )
    if not named and "boto3" not in packages_of(python, workshop.ask).packages:
        raise BackendError(
            f"checkpoints are copied to S3 with boto3, and {python} does not have it: the job would wait for "
            "its nodes, and then end before the script starts.",
            "Add boto3 to requirements.txt, or leave `checkpoint.sync` out: checkpoints then stay on the "
            "shared folder.",
        )


def _claim(
    shared: SharedFolder,
    name: str,
    plan: TrainingPlan,
    commands: SlurmCommands,
    on_progress: OnProgress | None,
) -> SlurmRecord | None:
    """Make the run's folder, which one launcher alone can; the run, where the plan was submitted before.

    Raises NameTakenError where another plan was, UncertainError where a launcher may still be at it.
    """
    for _ in range(2):
        if shared.claim(name):
            return None
        found = _submitted_before(shared, name, plan, commands)
        if found is not None:
            return found
        _clear_broken(shared, name, on_progress)
    raise BackendError(
        f"{shared.place / name} cannot be made: another launcher makes it, too.", "Launch again."
    )


def _submitted_before(
    shared: SharedFolder, name: str, plan: TrainingPlan, commands: SlurmCommands
) -> SlurmRecord | None:
    """The run of that name, where Slurm has its job or it has ended; None of one that never got so far."""
    job, runs = commands.job_named(name), shared.runs
    shared.look(name)
    if not runs.holds(name):
        return None
    record = runs.record(name)
    if job is None and not record.state.is_final:
        return None
    if runs.request(name) != plan.request:
        raise NameTakenError(f"there is a run {name} of another job already.", "Use another name.")
    return record if record.job_id or job is None else replace(record, job_id=job.job_id)


def _clear_broken(shared: SharedFolder, name: str, on_progress: OnProgress | None) -> None:
    """Put aside what a launcher left that ended before it had submitted anything.

    Raises UncertainError where a launcher may still be at it.
    """
    folder = shared.place / name
    if shared.runs.holds(name):
        record = shared.runs.record(name)
        busy = record.job_id is not None or record.is_being_submitted
    else:
        # Not even its status was written: that takes a moment, but for a folder that is slow.
        busy = time.time() - _changed(shared.runs.folder(name)) < _PREPARING_SECONDS
    if busy:
        raise UncertainError(
            f"another launch prepares {folder} at this moment, so that whether its job is there cannot be "
            "seen yet.",
            "Launch again in a minute; no second job is started.",
        )
    if on_progress is not None:
        on_progress(Progress(f"an interrupted launch left {folder}, and nothing on Slurm: making it anew"))
    shared.put_aside(name)


_PREPARING_SECONDS = 60.0


def _changed(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0


def _prepare(
    parts: ScriptParts, folder: Path, package: SourcePackage, inputs: Mapping[str, Path], plan: TrainingPlan
) -> SlurmRecord:
    """Fill the run's folder, or one that is copied there. From its status file on it is listed as a run."""
    request, place = parts.request, None if folder == parts.folder else parts.folder
    record = SlurmRecord(
        folder, parts.hosts, parts.section.model_dump(mode="json"), ProcessId.of_this_process()
    )
    record.write()
    write_state(folder / REQUEST_FILE, {"request": plan.request})
    lay_out(folder, request, package, inputs, interface=None, place=place)
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


def _submit(
    record: SlurmRecord, shared: SharedFolder, commands: SlurmCommands, own: Mapping[str, str]
) -> SlurmRecord:
    try:
        job_id = commands.submit(shared.place / record.name / SCRIPT_NAME, own)
    except UncertainError:
        # The folder stays: a job that is there needs it, and by its name it is found.
        found = _found(record.name, commands)
        if found is None:
            raise
        job_id = found
    except (BackendError, Outage):
        shared.discard(record.name)
        raise
    record = replace(record, job_id=job_id)
    # Without it the job is found by its name.
    with contextlib.suppress(OSError, BackendError, Outage):
        record.write()
        shared.send(record.name, STATUS_FILE)
    return record


def _found(name: str, commands: SlurmCommands) -> str | None:
    try:
        job = commands.job_named(name)
    except (BackendError, Outage):
        return None
    return job.job_id if job is not None else None
