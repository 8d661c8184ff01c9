"""Runs on this machine: where a project keeps them, what the machine lacks, and the deletion of old ones.

They are in one folder, from wherever in the project a command is called. Of the machine facts come in and
sentences go out; what it lacked when a run has failed is said with the diagnosis
(`launcher.session.runs.diagnose_job`). Nothing outside of the project's `.slipway` is ever deleted: where
it, or something in it, is a link to another place, that is left alone.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.backends.interface import BackendError, UnknownJob
from launcher.backends.local.files import UnreadableJob
from launcher.backends.local.overlay import files_beside, is_in_the_making
from launcher.backends.local.processes import busy_jobs
from launcher.backends.local.records import JobStore
from launcher.failure_modes import distribution
from launcher.failure_modes.model import Refusal
from launcher.frozen import frozen

if TYPE_CHECKING:
    from launcher.backends.local.python import Machine
    from launcher.backends.slurm.records import SlurmRuns
    from launcher.planning.request_view import RequestView
    from launcher.planning.training_plan import TrainingPlan

FOLDER = ".slipway"
"""What a project's runs, and what was made for them, are kept in."""

RUNS = "local"
"""The folder in it with the runs, one below the other."""

ENVIRONMENTS = "environments"
"""The folder in it with the Python environments that were made for runs."""

_IGNORED = "# Local runs of Slipway: nothing to commit.\n*\n"


def local_home(start: Path | None = None) -> Path:
    """The folder of the local runs for `start`, by default the current directory; it need not be there.

    The nearest `.slipway` counts, from there upwards, in a git repository at most to its root. Where there is
    none, one is to be made at the repository's root, or at `start` where that is in no repository.
    """
    start = (start or Path.cwd()).absolute()
    for folder in (start, *start.parents):
        if _is_ours(folder, mine=folder == start):
            return folder / FOLDER / RUNS
        if os.path.lexists(folder / ".git"):
            return folder / FOLDER / RUNS
    return start / FOLDER / RUNS


def make_local_home(start: Path | None = None) -> Path:
    """`local_home` with its `.slipway` there; a new one has git ignore what is in it.

    Raises BackendError where it cannot be made.
    """
    home = local_home(start)
    folder = home.parent
    try:
        folder.mkdir()
    except OSError as error:
        if folder.is_dir():
            return home
        raise BackendError(
            f"the folder of the local runs, {folder}, cannot be made: {error.strerror}.",
            "Launch from a folder that you may write to, and in which nothing else has that name.",
        ) from error
    # On a full disk the run itself says so; git shows the folder then.
    with contextlib.suppress(OSError):
        (folder / ".gitignore").write_text(_IGNORED, encoding="utf-8")
    return home


def _is_ours(folder: Path, *, mine: bool) -> bool:
    """Whether a folder has a `.slipway` that this user made.

    One further up that others can write to, such as /tmp, does not count: anybody may have put it there.
    """
    try:
        found = (folder / FOLDER).lstat()
        shared = folder.stat().st_mode & stat.S_IWOTH
    except OSError:
        return False
    if not mine and (shared or found.st_uid != os.getuid()):
        return False
    return (folder / FOLDER).is_dir()


# What this machine lacks for a job, before the job is run on it: facts come in, sentences go out, nothing is
# started.


MOST_PROCESSES_PER_CORE = 2
"""More than so many for each core are asked about: each waits for the others at every step, and each takes
memory of its own."""

BRING_TORCH = frozenset(
    {
        "torch", "torchvision", "torchaudio", "torchdata", "torchmetrics", "torchtitan", "accelerate",
        "deepspeed", "fairscale", "lightning", "peft", "pytorch-lightning", "sentence-transformers", "timm",
        "trl",
    }
)  # fmt: skip
"""Packages that depend on torch, by what they declare on PyPI: pip installs it with them."""

_MINOR = re.compile(r"(\d+)\.(\d+)")


@frozen
class Crowd:
    """More processes than this machine is made for: how many, what comes of it, and how to have fewer."""

    what: str
    consequence: str
    remedy: str


@frozen
class Preflight:
    """What is to be said of this machine, a sentence each, and the crowd that the job would be on it."""

    notes: tuple[str, ...] = ()
    crowd: Crowd | None = None


def override_processes(
    processes: int, overrides: Sequence[str] | None, ignore: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """The overrides and accepted codes with so many processes on each host, whatever accelerators it has.

    Raises Refusal for less than one.
    """
    if processes < 1:
        raise Refusal(f"--processes {processes} is not a number of processes.", "Give 1 or more.")
    count = f"distribution.processes_per_host={processes}"
    accepted = distribution.PROCESSES_DIFFER_FROM_ACCELERATORS.code
    return [*(overrides or ()), count], [*(ignore or ()), accepted]


def check_machine(
    plan: TrainingPlan,
    machine: Machine,
    inputs: Mapping[str, Path],
    processes: int | None = None,
) -> Preflight:
    """Hold a plan that is not refused against this machine; `processes` is what was asked for on each host.

    Raises Refusal where the job cannot run here: without torch where it is needed, with a channel that has
    no folder, with processes that its strategy does not start.
    """
    from launcher.backends.local.layout import check_inputs
    from launcher.planning.images import torch_version

    if plan.view is None or not plan.with_boot or plan.operation != "CreateTrainingJob":
        return Preflight()  # The backend refuses it, and says why.
    if processes is not None and processes != plan.processes_per_host:
        strategy = plan.job["distribution"]["strategy"]
        raise Refusal(
            f"--processes {processes}: the strategy {strategy} starts {plan.processes_per_host} per host.",
            "Leave --processes out.",
        )
    check_inputs(plan.view, inputs)
    notes = list(_gpus(plan, machine))
    why = _why_torch(plan)
    if why is not None and not (machine.python.torch is None and _is_installed_with(plan)):
        _check_torch(machine, why)
        wanted = torch_version(plan.spec) if plan.spec else None
        notes = [*_version(machine, wanted), *notes]
    notes += _without_the_service(plan.view)
    return Preflight(tuple(notes), _crowd(plan, machine))


def _without_the_service(request: RequestView) -> Iterator[str]:
    from launcher.planning.request import options_on_aws_alone

    missing = options_on_aws_alone(request)
    if missing:
        named = "; ".join(f"{field}: {what}" for field, what in missing.items())
        yield f"what only AWS does has no effect here: {named}"


def _why_torch(plan: TrainingPlan) -> str | None:
    """What of the job needs torch; None where nothing is known to."""
    if plan.job["distribution"]["strategy"] == "torchrun":
        return "torchrun, which starts the processes, is a part of it"
    if plan.package is not None and plan.package.source.find_used_names({"torch"}):
        return "the code imports it"
    return None


def _is_installed_with(plan: TrainingPlan) -> bool:
    """Whether torch may come with what the job requires; what only pip can read may bring it, too."""
    wanted = plan.package.source.requirements if plan.package is not None else None
    if wanted is None:
        return False
    named = [each.requirement for each in wanted.packages]
    return bool(wanted.fetched) or any(
        each is None or each.name.lower().replace("_", "-") in BRING_TORCH for each in named
    )


def _check_torch(machine: Machine, why: str) -> None:
    if machine.python.torch is None:
        path = machine.python.path
        raise BackendError(
            f"{path} has no torch, and {why}: the run would end at once.",
            "Give a Python that has it with --python PATH, activate its environment, or install it: "
            f"{path} -m pip install torch",
        )


def _version(machine: Machine, wanted: tuple[int, int] | None) -> Iterator[str]:
    found = _MINOR.match(machine.python.torch or "")
    if found is None or wanted is None or (int(found[1]), int(found[2])) == wanted:
        return
    yield (
        f"the run gets torch {machine.python.torch}, and the job's image has {wanted[0]}.{wanted[1]}: what "
        "differs between them shows only on AWS, or only here"
    )


def _gpus(plan: TrainingPlan, machine: Machine) -> Iterator[str]:
    from launcher.backends.local.layout import share_devices
    from launcher.cluster.instances import instance_facts

    view, per_host = plan.view, plan.processes_per_host or 1
    facts = instance_facts(view.instance_type or "") if view else None
    if view is None or facts is None or not facts.has_gpus:
        return
    hosts = view.hosts or 1
    if not machine.gpus:
        lacking = "there is no GPU on this machine"
    elif not share_devices(machine.gpus, hosts, per_host)[0].get("CUDA_VISIBLE_DEVICES"):
        lacking = f"there are {len(machine.gpus)} GPUs on this machine for {hosts * per_host} processes"
    elif machine.python.torch and machine.python.cuda is None:
        lacking = f"torch {machine.python.torch} is a build without CUDA, so that it sees no GPU"
    else:
        return
    yield (
        f"{lacking}: everything runs on CPUs, over gloo; a script that asks for cuda or nccl fails here, and "
        f"would not on {view.instance_type}"
    )


def _crowd(plan: TrainingPlan, machine: Machine) -> Crowd | None:
    ranks, hosts = plan.world_size, plan.view.hosts if plan.view else None
    if ranks is None or hosts is None or ranks <= MOST_PROCESSES_PER_CORE * machine.cores:
        return None
    remedies = []
    if plan.processes_per_host != 1:
        remedies.append("fewer on each host with --processes 1")
    if hosts > 1:
        remedies.append("fewer hosts with --set resources.instance_count=1")
    cores = "1 core" if machine.cores == 1 else f"{machine.cores} cores"
    each = f"{hosts} hosts with {plan.processes_per_host} each" if hosts > 1 else "1 host"
    return Crowd(
        f"{ranks} processes ({each}) would start on this machine with {cores}",
        "they would wait for each other most of the time, and may fill the memory",
        f"Start {', or '.join(remedies)}; all of them with --yes.",
    )


# Old local runs: which of them go, what that frees, and their deletion.


UNUSED_SECONDS = 7 * 86_400.0
"""An environment that no kept run was started with goes once it was not used for so long, and at once where
no run is kept; it can be made again."""

FOLLOWED_SECONDS = 3600.0
"""For so long after its end somebody may still read what a mirror holds of a run."""

_HALF_DELETED = ".deleting-"
"""How the name of what is being deleted begins: no name of a run does, so that a broken deletion leaves
none that looks whole."""


class OldKind(StrEnum):
    """What it is that goes."""

    RUN = "run"
    ENVIRONMENT = "environment"
    MIRROR = "mirror"
    """Of a run on Slurm behind a login node: records and logs, which all are there as well."""
    REMAINS = "remains"
    """Of an earlier deletion that did not come to its end."""


@frozen
class OldFolder:
    """Something that goes: its folder, what it is, the state of its run, since when it is there, its bytes.

    `created` is in seconds since the epoch. The state of a run that cannot be read is None.
    """

    folder: Path
    kind: OldKind
    state: str | None
    created: float
    size: int

    @property
    def name(self) -> str:
        """The name of the run or of the folder."""
        return self.folder.name


@frozen
class Cleaning:
    """What would go, how many ended runs stay, and which were left alone because they run."""

    goes: tuple[OldFolder, ...]
    kept: int
    running: tuple[str, ...]

    @property
    def size(self) -> int:
        """What that frees, in bytes."""
        return sum(each.size for each in self.goes)


@frozen
class _Run:
    folder: Path
    state: str | None
    created: float
    environments: tuple[Path, ...] = ()
    """What it was started with, and so is resumed with."""


def plan_cleaning(
    home: Path, keep: int, now: float | None = None, *, mirrors: Iterable[SlurmRuns] = ()
) -> Cleaning:
    """What goes of the local runs in `home` but for the newest `keep` that have ended. Deletes nothing.

    So it is with what `mirrors` hold of runs that are known to have ended, with the newest `keep` of their
    own. Raises BackendError where `home` cannot be read, or leads out of its project by a link.
    """
    now = time.time() if now is None else now
    _check_no_link(home)
    store, running, ended = JobStore(home), [], []
    busy = busy_jobs(home)
    for name in store.names():
        folder = store.folder(name)
        if folder.is_symlink():
            continue
        with contextlib.suppress(UnknownJob):  # Deleted since.
            run, is_final = _look_at(store, name)
            if is_final and name not in busy:
                ended.append(run)
            else:
                running.append(run)
    ended.sort(key=lambda run: run.created, reverse=True)
    kept, old = ended[:keep], ended[keep:]
    goes = [OldFolder(run.folder, OldKind.RUN, run.state, run.created, _size(run.folder)) for run in old]
    goes += _remains(home, home.parent / ENVIRONMENTS)
    # Whatever runs may use any of them.
    if not running:
        before = now - UNUSED_SECONDS if keep else now
        goes += _environments(home.parent / ENVIRONMENTS, kept, before)
    goes += _old_mirrors(mirrors, keep, now - FOLLOWED_SECONDS)
    return Cleaning(tuple(goes), len(kept), tuple(run.folder.name for run in running))


def delete(old: OldFolder) -> None:
    """Delete it, in a way that an interruption leaves nothing which looks whole.

    Raises OSError where something of it cannot be deleted; what is left goes with the next cleaning.
    """
    place = old.folder
    if not place.name.startswith(_HALF_DELETED):
        place = place.with_name(f"{_HALF_DELETED}{place.name}-{time.time_ns()}")
        with contextlib.suppress(FileNotFoundError):
            old.folder.rename(place)
    if old.kind is OldKind.ENVIRONMENT:
        for file in files_beside(old.folder):
            file.unlink(missing_ok=True)
    try:
        shutil.rmtree(place)
    except FileNotFoundError:
        return
    except RecursionError:
        raise OSError(f"its folders are nested too deeply; delete it with: rm -r {place}") from None


def _look_at(store: JobStore, name: str) -> tuple[_Run, bool]:
    folder = store.folder(name)
    try:
        record = store.living_record(name)
    except UnreadableJob:
        return _Run(folder, None, _changed(folder)), True
    used = tuple(path for path in (record.environment, record.python) if path is not None)
    return _Run(folder, record.state.value, record.started, used), record.state.is_final


def _old_mirrors(mirrors: Iterable[SlurmRuns], keep: int, before: float) -> Iterator[OldFolder]:
    """Those of runs that had ended before that time; where nothing tells that one has, it stays."""
    ended = []
    for runs in mirrors:
        yield from _remains(runs.home)
        for name in runs.names():
            with contextlib.suppress(UnknownJob, UnreadableJob):
                record = runs.record(name)
                if record.state.is_final and not record.folder.is_symlink():
                    ended.append(record)
    ended.sort(key=lambda record: record.submitted, reverse=True)
    for record in ended[keep:]:
        if (record.ended or record.submitted) < before:
            size = _size(record.folder)
            yield OldFolder(record.folder, OldKind.MIRROR, record.state.value, record.submitted, size)


def _remains(*parents: Path) -> Iterator[OldFolder]:
    for parent in parents:
        for folder in _folders(parent):
            if folder.name.startswith(_HALF_DELETED):
                yield OldFolder(folder, OldKind.REMAINS, None, _changed(folder), _size(folder))


def _environments(parent: Path, kept: list[_Run], before: float) -> Iterator[OldFolder]:
    for folder in _folders(parent):
        used = any(path.is_relative_to(folder) for run in kept for path in run.environments)
        changed = _changed(folder)
        if used or changed > before or folder.name.startswith(_HALF_DELETED):
            continue
        if not is_in_the_making(folder):
            yield OldFolder(folder, OldKind.ENVIRONMENT, None, changed, _size(folder))


def _check_no_link(home: Path) -> None:
    for place in (home.parent, home, home.parent / ENVIRONMENTS):
        if place.is_symlink():
            raise BackendError(
                f"{place} is a link to {os.path.realpath(place)}: nothing is deleted behind it.",
                "Delete there what you do not need.",
            )


def _folders(parent: Path) -> list[Path]:
    """The folders in a folder, none of them a link, in the order of their names."""
    try:
        with os.scandir(parent) as entries:
            return sorted(Path(each.path) for each in entries if each.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _changed(folder: Path) -> float:
    try:
        return folder.lstat().st_mtime
    except OSError:
        return 0.0


def _size(folder: Path) -> int:
    """The bytes of the files below a folder; links count as nothing, and what cannot be read, too."""
    size, open_folders = 0, [str(folder)]
    while open_folders:
        with contextlib.suppress(OSError), os.scandir(open_folders.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        open_folders.append(entry.path)
                    elif stat.S_ISREG((found := entry.stat(follow_symlinks=False)).st_mode):
                        size += found.st_size
    return size
