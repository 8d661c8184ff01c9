"""Local runs: where they are kept, what is said of this machine before one, and which of them go."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from launcher.backends.interface import BackendError, JobState
from launcher.backends.local.processes import ProcessId
from launcher.backends.local.python import Interpreter, Machine
from launcher.backends.local.records import JobRecord
from launcher.backends.slurm.login_node import LoginNode
from launcher.backends.slurm.records import SlurmRecord, SlurmRuns
from launcher.backends.slurm.shared_folder import MirroredFolder, mirrored_runs
from launcher.failure_modes.model import Refusal
from launcher.jobs.load_job import load_job
from launcher.session.local_runs import (
    FOLLOWED_SECONDS,
    OldKind,
    Preflight,
    check_machine,
    delete,
    local_home,
    make_local_home,
    plan_cleaning,
)
from launcher.session.prepare_plan import prepare


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder of a project, two below its root."""
    folder = tmp_path / "project" / "training" / "configs"
    folder.mkdir(parents=True)
    return folder


HOMES = {
    "at the root of a repository, whatever lies above": (["project/.git/", ".slipway/"], "project"),
    "at the root of a worktree": (["project/.git"], "project"),
    "the nearest that is there": (
        ["project/.git/", "project/.slipway/", "project/training/.slipway/"], "project/training",
    ),
    "a file of that name is not taken": (["project/training/.slipway"], "project/training/configs"),
}  # fmt: skip


@pytest.mark.parametrize(("there", "home"), HOMES.values(), ids=HOMES)
def test_local_runs_have_one_place_in_a_project(
    project: Path, tmp_path: Path, there: list[str], home: str
) -> None:
    for name in there:
        (tmp_path / name).mkdir() if name.endswith("/") else (tmp_path / name).touch()
    assert local_home(project) == tmp_path / home / ".slipway" / "local"


def test_without_a_repository_a_new_one_is_made_where_the_command_is_called(project: Path) -> None:
    assert local_home(project) == project / ".slipway" / "local"
    make_local_home(project)
    below = project / "deeper"
    below.mkdir()
    assert local_home(below) == project / ".slipway" / "local"


def test_what_anybody_may_have_put_above_does_not_count(project: Path) -> None:
    (project.parent / ".slipway").mkdir()
    project.parent.chmod(0o1777)
    assert local_home(project) == project / ".slipway" / "local"
    # Who calls a command in such a folder means it.
    assert local_home(project.parent) == project.parent / ".slipway" / "local"


def test_what_another_user_made_does_not_count(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.parent / ".slipway").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 1_000_001)
    assert local_home(project) == project / ".slipway" / "local"


def test_git_does_not_see_what_is_made(project: Path, tmp_path: Path) -> None:
    root = tmp_path / "project"
    subprocess.run(["git", "init", "-q", root], check=True)
    home = make_local_home(project)
    home.mkdir()
    (home / "run").touch()
    shown = subprocess.run(
        ["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=True
    )
    assert shown.stdout == ""


def test_what_is_there_is_left_as_it_is(project: Path) -> None:
    (project / ".slipway").mkdir()
    make_local_home(project)
    assert list((project / ".slipway").iterdir()) == []
    (project / ".slipway" / ".gitignore").write_text("mine\n")
    make_local_home(project)
    assert (project / ".slipway" / ".gitignore").read_text() == "mine\n"


def test_a_folder_that_cannot_be_made_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / ".slipway").touch()
    with pytest.raises(BackendError, match="cannot be made: File exists"):
        make_local_home(project)

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(BackendError, match=f"{project}/.slipway, cannot be made: Permission denied"):
        make_local_home(project)


PYTHON = Interpreter(Path("/venv/bin/python"), (3, 12, 1), "2.8.0+cu128", "12.8")
MACHINE = Machine(PYTHON, gpus=tuple("01234567"), cores=8)
CPUS = replace(MACHINE, gpus=())
WITHOUT_TORCH = replace(MACHINE, python=replace(PYTHON, torch=None, cuda=None))

GPU_HOST = {"instance_type": "ml.g5.12xlarge", "instance_count": 1}
CPU_HOST = {"instance_type": "ml.m5.xlarge", "instance_count": 1}

Look = Callable[..., Preflight]


@pytest.fixture
def look(write_job: Callable[..., Path], tmp_path: Path) -> Look:
    def look(
        machine: Machine,
        *,
        script: str = "",
        requirements: str = "",
        processes: int | None = None,
        **changes: Any,
    ) -> Preflight:
        file = write_job(**{"resources": {**GPU_HOST, "instance_count": 2}, **changes})
        (tmp_path / "src" / "train.py").write_text(script)
        (tmp_path / "src" / "requirements.txt").write_text(requirements)
        loaded = load_job(file)
        plan = prepare(loaded, session_region="us-east-1", ignore=["DIST001"])
        assert not plan.refused, plan.findings
        return check_machine(plan, machine, {}, processes)

    return look


def test_what_only_aws_does_is_said_to_be_missing_here(look: Look) -> None:
    (note,) = look(MACHINE, resources={**GPU_HOST, "instance_count": 2, "infra_check": True}).notes
    assert note == "what only AWS does has no effect here: resources.infra_check: no hosts are tested"
    assert look(MACHINE) == Preflight()


def test_a_python_without_torch_is_refused_where_torch_is_needed(look: Look) -> None:
    with pytest.raises(BackendError, match="/venv/bin/python has no torch, and torchrun") as refused:
        look(WITHOUT_TORCH)
    assert "--python PATH" in refused.value.remedy
    assert "/venv/bin/python -m pip install torch" in refused.value.remedy
    none: dict[str, Any] = {"distribution": {"strategy": "none"}, "resources": CPU_HOST}
    with pytest.raises(BackendError, match="the code imports it"):
        look(WITHOUT_TORCH, script="from torch import nn", **none)
    assert look(WITHOUT_TORCH, script="print('without torch')", **none) == Preflight()


def test_a_python_without_torch_will_do_where_the_requirements_bring_it(look: Look) -> None:
    for wanted in ("torch==2.8.0", "pytorch_lightning", "git+https://a.example/x.git"):
        assert look(WITHOUT_TORCH, requirements=wanted) == Preflight(), wanted
    with pytest.raises(BackendError, match="has no torch"):
        look(WITHOUT_TORCH, requirements="einops")


def test_another_minor_version_of_torch_is_said(look: Look) -> None:
    for torch, said in (("2.8.1", False), ("2.13.0+cpu", True), ("2.7.0", True)):
        notes = look(replace(MACHINE, python=replace(PYTHON, torch=torch))).notes
        assert [f"torch {torch}, and the job's image has 2.8" in note for note in notes] == [True] * said


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (CPUS, "there is no GPU on this machine"),
        (replace(MACHINE, gpus=("0", "1")), "there are 2 GPUs on this machine for 8 processes"),
        (replace(MACHINE, python=replace(PYTHON, cuda=None)), "a build without CUDA"),
    ],
)
def test_missing_gpus_are_said_where_the_instance_type_has_some(
    look: Look, machine: Machine, said: str
) -> None:
    [note] = look(machine).notes
    assert said in note
    assert "fails here, and would not on ml.g5.12xlarge" in note
    on_cpus = {"resources": CPU_HOST, "distribution": {"strategy": "torchrun", "processes_per_host": 2}}
    assert look(CPUS, **on_cpus).notes == ()


def test_more_than_two_processes_a_core_are_a_crowd(look: Look) -> None:
    assert look(replace(CPUS, cores=4)).crowd is None
    crowd = look(replace(CPUS, cores=3)).crowd
    assert crowd is not None
    assert crowd.what == "8 processes (2 hosts with 4 each) would start on this machine with 3 cores"
    assert "--processes 1" in crowd.remedy
    assert "--set resources.instance_count=1" in crowd.remedy


def test_only_what_would_help_against_a_crowd_is_advised(look: Look) -> None:
    machine = replace(CPUS, cores=1)
    one_host = look(machine, resources=GPU_HOST).crowd
    assert one_host is not None
    assert "--processes 1" in one_host.remedy
    assert "instance_count" not in one_host.remedy
    torchrun = {"strategy": "torchrun", "processes_per_host": 1}
    alone = look(machine, resources={**CPU_HOST, "instance_count": 3}, distribution=torchrun).crowd
    assert alone is not None
    assert "--processes 1" not in alone.remedy


def test_processes_that_the_strategy_does_not_start_are_refused(look: Look) -> None:
    none = {"strategy": "none", "processes_per_host": 3}
    with pytest.raises(Refusal, match="the strategy none starts 1 per host"):
        look(MACHINE, processes=3, distribution=none, resources=CPU_HOST)


def test_a_channel_without_a_folder_is_refused_before_anything_is_asked(look: Look) -> None:
    with pytest.raises(BackendError, match="--input train=DIR"):
        look(replace(MACHINE, cores=1), inputs={"train": {"s3_uri": "s3://bucket/train"}})


NOW = 1_800_000_000.0
DAY = 86_400.0
GONE = ProcessId(2**22 - 1, 1.0)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / ".slipway" / "local"
    home.mkdir(parents=True)
    return home


def write_run(
    home: Path, name: str, age: float = 0.0, state: JobState = JobState.COMPLETED, **fields: object
) -> Path:
    """A run with 1,000 bytes of checkpoints beside its record."""
    folder = home / name
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "state").write_bytes(bytes(1000))
    given = {"launcher": GONE, "started": NOW - age, "ended": NOW - age, **fields}
    JobRecord(folder, hosts=1, state=state, phase=state.value, **given).write()
    return folder


def write_environment(home: Path, name: str, age: float) -> Path:
    folder = home.parent / "environments" / name
    (folder / "bin").mkdir(parents=True)
    for beside in (".lock", ".log"):
        folder.with_suffix(beside).touch()
    os.utime(folder, (NOW - age, NOW - age))
    return folder


def names(home: Path, keep: int) -> list[str]:
    return [each.name for each in plan_cleaning(home, keep, NOW).goes]


def test_the_newest_runs_stay_whatever_their_names(home: Path) -> None:
    for name, age in (("a", 3.0), ("b", 1.0), ("c", 2.0)):
        write_run(home, name, age)
    assert names(home, 1) == ["c", "a"]
    assert names(home, 3) == []
    found = plan_cleaning(home, 2, NOW)
    assert (found.kept, found.running) == (2, ())
    [old] = found.goes
    assert (old.kind, old.state, old.created) == (OldKind.RUN, "Completed", NOW - 3.0)
    status = (home / "a" / "status.json").stat().st_size
    assert old.size == found.size == 1000 + status


def test_a_run_whose_launcher_lives_is_never_deleted_and_one_whose_was_killed_has_ended(home: Path) -> None:
    write_run(home, "old", 9.0, JobState.IN_PROGRESS, launcher=ProcessId.of_this_process(), ended=None)
    write_run(home, "left", 9.0, JobState.IN_PROGRESS, ended=None)
    found = plan_cleaning(home, 0, NOW)
    assert ([(each.name, each.state) for each in found.goes], found.running) == (
        [("left", "Stopped")],
        ("old",),
    )


def test_a_run_of_which_a_process_lives_is_never_deleted(home: Path) -> None:
    folder = write_run(home, "ended")
    root = folder / "hosts" / "algo-1" / "ml"
    program, inside = "print(flush=True); input()", {**os.environ, "SLIPWAY_ROOT": str(root)}
    waiting = subprocess.Popen([sys.executable, "-c", program], env=inside, stdin=PIPE, stdout=PIPE)
    try:
        waiting.stdout.readline()
        found = plan_cleaning(home, 0, NOW)
        assert (found.goes, found.running) == ((), ("ended",))
    finally:
        waiting.communicate(b"\n")


def test_a_run_that_cannot_be_read_goes_by_its_age(home: Path) -> None:
    folder = write_run(home, "broken")
    (folder / "status.json").write_text("{")
    os.utime(folder, (NOW - 5.0, NOW - 5.0))
    write_run(home, "older", 10.0)
    found = plan_cleaning(home, 1, NOW)
    assert [each.name for each in found.goes] == ["older"]
    assert plan_cleaning(home, 0, NOW).goes[0].state is None


def test_deletion_takes_all_of_it_and_nothing_behind_links(home: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "kept").touch()
    folder = write_run(home, "run")
    (folder / "train").symlink_to(data, target_is_directory=True)
    [old] = plan_cleaning(home, 0, NOW).goes
    delete(old)
    delete(old)
    assert list(home.iterdir()) == []
    assert (data / "kept").exists()
    # A run that is a link itself is left alone.
    write_run(tmp_path / "elsewhere", "run")
    (home / "run").symlink_to(tmp_path / "elsewhere" / "run", target_is_directory=True)
    assert plan_cleaning(home, 0, NOW).goes == ()


@pytest.mark.parametrize("linked", [".slipway", ".slipway/local", ".slipway/environments"])
def test_nothing_is_deleted_behind_a_link_in_place_of_a_folder(tmp_path: Path, linked: str) -> None:
    behind = tmp_path / "behind"
    write_run(behind / "local", "run")
    place = tmp_path / "project" / linked
    place.parent.mkdir(parents=True)
    place.symlink_to(behind / "local" if linked.endswith("local") else behind, target_is_directory=True)
    with pytest.raises(BackendError, match=f"{linked} is a link to {behind}"):
        plan_cleaning(tmp_path / "project" / ".slipway" / "local", 0, NOW)


def test_what_an_interrupted_deletion_left_goes_with_the_next(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(home, "run")
    [old] = plan_cleaning(home, 0, NOW).goes

    def interrupted(folder: Path) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", interrupted)
        with pytest.raises(PermissionError):
            delete(old)
    # No longer a run that is listed or resumed.
    [left] = plan_cleaning(home, 10, NOW).goes
    assert left.kind is OldKind.REMAINS
    delete(left)
    assert list(home.iterdir()) == []


def test_folders_that_are_no_runs_stay(home: Path, tmp_path: Path) -> None:
    assert plan_cleaning(tmp_path / "elsewhere" / ".slipway" / "local", 0, NOW).goes == ()
    (home / "notes").mkdir()
    (home / "status.json").touch()
    (home.parent / "other").mkdir()
    assert names(home, 0) == []


def test_environments_go_that_no_kept_run_uses_and_nobody_changed_of_late(home: Path) -> None:
    used = write_environment(home, "used", 30 * DAY)
    write_environment(home, "new", 6 * DAY)
    write_environment(home, "unused", 8 * DAY)
    write_run(home, "run", python=Path(sys.executable), environment=used)
    assert names(home, 1) == ["unused"]
    # Who keeps no run needs none of them.
    assert names(home, 0) == ["run", "new", "unused", "used"]
    write_run(home, "running", 0.0, JobState.IN_PROGRESS, launcher=ProcessId.of_this_process(), ended=None)
    assert names(home, 0) == ["run"]


def test_nothing_stays_of_an_environment_that_goes_and_one_in_the_making_stays(home: Path) -> None:
    old = write_environment(home, "unused", 8 * DAY)
    [unused] = plan_cleaning(home, 1, NOW).goes
    delete(unused)
    assert list(old.parent.iterdir()) == []
    folder = write_environment(home, "new", 0.0)
    with folder.with_suffix(".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert names(home, 0) == []
    assert names(home, 0) == ["new"]


def write_mirror(runs: SlurmRuns, name: str, age: float, state: JobState = JobState.COMPLETED) -> Path:
    """A mirror with 1,000 bytes of a log beside its record, whose run ended at its submission."""
    folder = runs.home / name
    folder.mkdir(parents=True)
    (folder / "log").write_bytes(bytes(1000))
    ended = NOW - age if state.is_final else None
    SlurmRecord(folder, 1, {}, GONE, state=state, submitted=NOW - age, ended=ended).write()
    return folder


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmRuns:
    """The mirror of /fsx/alice/slipway behind the login node `login`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return MirroredFolder(Path("/fsx/alice/slipway"), LoginNode("login")).runs


def mirrors_that_go(home: Path, keep: int) -> list[str]:
    found = plan_cleaning(home, keep, NOW, mirrors=mirrored_runs()).goes
    return [each.name for each in found if each.kind is OldKind.MIRROR]


def test_mirrors_of_runs_that_ended_go_but_for_the_newest(home: Path, mirror: SlurmRuns) -> None:
    assert mirrored_runs() == []
    elsewhere = MirroredFolder(Path("/fsx/team/slipway"), LoginNode("bob@other")).runs
    old, older = write_mirror(mirror, "old", 2 * DAY), write_mirror(elsewhere, "older", 3 * DAY)
    new = write_mirror(mirror, "new", DAY)
    write_run(home, "local", 4 * DAY)
    assert mirrors_that_go(home, 3) == []
    assert mirrors_that_go(home, 1) == ["old", "older"]
    found = plan_cleaning(home, 1, NOW, mirrors=mirrored_runs())
    assert (found.kept, found.goes[0].state) == (1, "Completed")
    for each in found.goes:
        delete(each)
    assert (old.exists(), older.exists(), new.exists()) == (False, False, True)
    assert mirrors_that_go(home, 0) == ["new"]


def test_a_mirror_stays_whose_run_goes_on_or_is_not_known_to_have_ended(
    home: Path, mirror: SlurmRuns, tmp_path: Path
) -> None:
    write_mirror(mirror, "runs", 30 * DAY, JobState.IN_PROGRESS)
    write_mirror(mirror, "stops", 30 * DAY, JobState.STOPPING)
    (write_mirror(mirror, "unreadable", 30 * DAY) / "status.json").write_text("{")
    (mirror.home / "unknown").mkdir()
    # Somebody may still follow it.
    write_mirror(mirror, "just-ended", FOLLOWED_SECONDS - 1)
    outside = write_mirror(SlurmRuns(tmp_path / "outside"), "linked", 30 * DAY)
    (mirror.home / "linked").symlink_to(outside)
    (mirror.home.parent / "folder").symlink_to(outside.parent)
    assert mirrors_that_go(home, 0) == []


def test_what_is_left_of_a_mirror_goes_with_the_next_cleaning(home: Path, mirror: SlurmRuns) -> None:
    (mirror.home / ".deleting-old-1").mkdir(parents=True)
    [left] = plan_cleaning(home, 10, NOW, mirrors=mirrored_runs()).goes
    assert left.kind is OldKind.REMAINS


def test_very_deep_folders_are_counted_and_said_to_be_too_deep(home: Path) -> None:
    folder = write_run(home, "run")
    deepest = folder
    for _ in range(1_100):
        deepest /= "d"
        deepest.mkdir()
    [old] = plan_cleaning(home, 0, NOW).goes
    assert old.size > 1000
    try:
        delete(old)
        assert list(home.iterdir()) == []
    except OSError as error:
        # As Python's own removal recurses up to 3.12.
        assert "nested too deeply; delete it with: rm -r" in str(error)
    finally:
        subprocess.run(["rm", "-r", "--", *home.iterdir()], check=False)
