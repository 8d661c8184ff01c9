"""Runs on a real Slurm over a real sshd, from what has neither its commands nor its shared folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from launcher.backends.interface import (
    BackendError,
    JobQuery,
    JobState,
    NameTakenError,
    Progress,
    UncertainError,
    UnknownJob,
)
from launcher.backends.local.overlay import python_with_requirements
from launcher.backends.slurm.backend import SlurmBackend
from launcher.backends.slurm.commands import SlurmCommands
from launcher.backends.slurm.login_node import LoginSilent
from launcher.diagnosis.model import StopCause, Verdict
from launcher.planning.finished_request import build_resumed_request
from launcher.planning.training_plan import SourcePackage, TrainingPlan
from launcher.session.runs.diagnose_job import outcome_of
from launcher.session.runs.follow_job import Follower, Pace
from launcher.session.submit_job import Start
from tests.backends.slurm.cluster import WAITS, SlurmPlace
from tests.backends.slurm.mini_cluster import MiniCluster, until
from tests.backends.slurm.ssh_server import SshServer, skip_without_sshd, ssh_server
from tests.wheels import make_python, make_wheel, only_from, packages_of

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]

ROOT = Path(__file__).parents[3]

# As libraries name their newest checkpoint: by its whole path.
SAVES_WHEN_ASKED = """
    import os, signal, sys, time
    from pathlib import Path

    here = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])
    latest = here / f"latest-{os.environ['SM_CURRENT_HOST']}"

    def save(number, frame):
        place = here / f"step-{os.environ['SM_CURRENT_HOST']}"
        place.write_text("saved")
        latest.symlink_to(place)
        sys.exit(0)

    signal.signal(signal.SIGTERM, save)
    if latest.exists():
        print("resumed", latest.read_text(), latest.resolve().parents[1].name, flush=True)
        sys.exit(0)
    print("from nothing", flush=True)
    time.sleep(600)
"""

LOSES_THE_CONNECTION = """#!/bin/bash
/usr/bin/sbatch "$@" > /dev/null
above=$PPID
while [ "$(cat /proc/$above/comm)" != sshd ]; do
  above=$(sed 's/.*) . //' "/proc/$above/stat" | cut -d' ' -f1)
done
kill -9 "$above"
"""


@pytest.fixture
def server(slurm: MiniCluster, tmp_path: Path, short_cache: str) -> Iterator[SshServer]:
    skip_without_sshd()
    with ssh_server(tmp_path / "sshd", {"SLURM_CONF": slurm.environment["SLURM_CONF"]}) as server:
        yield server


@pytest.fixture
def place(slurm: MiniCluster, server: SshServer, tmp_path: Path) -> SlurmPlace:
    shared = slurm.shared / tmp_path.name
    shared.mkdir()
    return SlurmPlace(slurm, tmp_path, shared, server.login)


def seen_there(place: SlurmPlace) -> SlurmBackend:
    """The runs as a launcher on the login node sees them."""
    return SlurmBackend(place.shared / "slipway", SlurmCommands(place.slurm.environment))


def test_a_run_completes_and_its_lines_are_read_and_its_checkpoints_stay_there(place: SlurmPlace) -> None:
    plan = place.plan(
        """
        import os
        from pathlib import Path
        data = Path(os.environ["SM_CHANNEL_TRAIN"], "numbers").read_text()
        print("I am", os.environ["SM_CURRENT_HOST"], "with", data, os.environ["WORDS"])
        Path(os.environ["SLIPWAY_CHECKPOINT_DIR"], os.environ["SM_CURRENT_HOST"]).write_text("weights")
        Path(os.environ["SM_MODEL_DIR"], "model").write_text("weights")
        """,
        environment={"WORDS": "it's $HOME and /opt/ml/model"},
        inputs={"train": "s3://bucket/train"},
        slurm={
            "host": "login",
            "partition": "train",
            "shared": str(place.shared),
            "python": sys.executable,
            "inputs": {"train": str(place.shared / "data")},
        },
    )
    (place.shared / "data").mkdir()
    (place.shared / "data" / "numbers").write_text("1 2 3")
    name = place.backend.submit(plan)
    status = place.end_of(name)
    assert (status.state, status.failure_reason) == (JobState.COMPLETED, None)
    folder = place.shared / "slipway" / name
    for host in ("algo-1", "algo-2"):
        said = f"I am {host} with 1 2 3 it's $HOME and {folder}/hosts/{host}/ml/model"
        assert said in place.texts(name, host)
        assert f"slipway: {host} is the node {status.nodes[host]}" in place.texts(name, host)
        assert (folder / "checkpoints" / host).read_text() == "weights"
    assert status.checkpoints == f"sftp://login{folder}/checkpoints"
    mirrored = [each for each in Path(os.environ["XDG_CACHE_HOME"]).rglob("*") if each.is_file()]
    assert not any("weights" in each.read_text(errors="replace") for each in mirrored)
    assert place.backend.has_checkpoint(name)
    assert [job.name for job in place.backend.jobs(JobQuery())] == [name]
    assert len(place.slurm.job_ids(name)) == 1
    # How it ended is written where other machines see it.
    assert json.loads((folder / "status.json").read_text())["state"] == "Completed"


def test_the_rank_that_fails_first_is_named_with_its_node(place: SlurmPlace) -> None:
    plan = place.plan(
        """
        import torch.distributed as dist
        dist.init_process_group("gloo")
        dist.barrier()
        if dist.get_rank() == 3:
            raise ValueError("planted")
        dist.barrier()
        """,
        distribution={"strategy": "torchrun", "processes_per_host": 2},
    )
    name = place.backend.submit(plan)
    status = place.end_of(name)
    assert status.state is JobState.FAILED
    found = outcome_of(place.backend, status).diagnosis
    assert found is not None and found.root_cause is not None
    assert found.verdict is Verdict.FAILED
    assert (found.root_cause.finding.code, found.root_cause.rank) == ("CODE001", 3)
    assert place.backend.failed_nodes(name, "algo-2") == (status.nodes["algo-2"],)


def test_a_run_that_is_stopped_saves_and_is_resumed_from_a_copy_of_that(place: SlurmPlace) -> None:
    name = place.backend.submit(place.plan(SAVES_WHEN_ASKED))
    for host in ("algo-1", "algo-2"):
        until(lambda host=host: place.backend.describe(name) and "from nothing" in place.texts(name, host))
    place.backend.stop(name, "the test")
    status = place.end_of(name)
    assert status.state is JobState.STOPPED
    assert status.stop is not None
    assert (status.stop.cause, status.stop.who) == (StopCause.ASKED, "the test")
    assert seen_there(place).describe(name).stop == status.stop
    request = build_resumed_request(place.backend.request_of(name), name, "digits-again")
    again = place.backend.resume(name, request)
    assert place.end_of(again).state is JobState.COMPLETED
    assert f"resumed saved {again}" in place.texts(again, "algo-1")


def test_who_follows_waits_through_a_lost_connection_and_misses_no_line(
    place: SlurmPlace, server: SshServer
) -> None:
    plan = place.plan(
        """
        import time
        from pathlib import Path
        for number in range(40):
            print("line", number, flush=True)
            time.sleep(0.25)
        """
    )
    name = place.backend.submit(plan)
    lines: list[str] = []
    troubles: list[str | None] = []

    class Shown:
        def status(self, status: Any) -> None: ...

        def lines(self, batch: Any) -> None:
            lines.extend(line.text for line in batch if line.host == "algo-2")
            if "line 3" in lines and not troubles:
                server.stop()

        def trouble(self, what: str | None) -> None:
            troubles.append(what)
            if len([each for each in troubles if each]) == 2:
                server.start()

    status = Follower(place.backend, name, Shown(), Pace(sleep=lambda _: None)).until_end()
    assert status.state is JobState.COMPLETED
    assert [text for text in lines if text.startswith("line")] == [f"line {n}" for n in range(40)]
    assert "no connection to the login node" in str(troubles[0])
    assert troubles[-1] is None


def test_a_job_whose_answer_of_sbatch_is_lost_is_found_by_its_name(
    place: SlurmPlace, server: SshServer
) -> None:
    (server.folder / "bin" / "sbatch").write_text(LOSES_THE_CONNECTION)
    (server.folder / "bin" / "sbatch").chmod(0o755)
    plan = place.plan(WAITS)
    name = place.backend.submit(plan)
    assert place.backend.submit(plan) == name
    assert len(place.slurm.job_ids(name)) == 1
    until(lambda: place.backend.describe(name).phase == "Training")


def test_a_launch_without_a_connection_leaves_nothing_and_the_next_one_submits(
    place: SlurmPlace, server: SshServer
) -> None:
    plan = place.plan("print('trained')")
    server.stop()
    with pytest.raises(LoginSilent, match="login does not answer"):
        place.backend.submit(plan)
    server.start()
    assert place.slurm.job_ids(str(plan.name)) == []
    name = place.backend.submit(plan)
    assert place.end_of(name).state is JobState.COMPLETED
    assert len(place.slurm.job_ids(name)) == 1


def test_launches_of_one_run_from_several_machines_start_one_job(
    place: SlurmPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = [place.plan(WAITS) for _ in range(4)]

    def attempt(plan: TrainingPlan) -> str | None:
        try:
            return Start(place.backend, "over-ssh-18").once(plan).name
        except (UncertainError, NameTakenError):
            return None

    with ThreadPoolExecutor(4) as pool:
        (name,) = {name for name in pool.map(attempt, plans) if name}
    # Another machine has another cache.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    elsewhere = SlurmPlace(place.slurm, tmp_path, place.shared, place.login).backend
    again = Start(elsewhere, "over-ssh-18").once(place.plan(WAITS))
    assert (again.name, again.begun is not None) == (name, True)
    assert len(place.slurm.job_ids(name)) == 1
    elsewhere.stop(name)
    until(lambda: elsewhere.describe(name).state is JobState.STOPPED)


def test_what_the_cluster_refuses_leaves_nothing(place: SlurmPlace) -> None:
    section = {"host": "login", "shared": str(place.shared), "python": sys.executable}
    with pytest.raises(BackendError, match="Invalid partition"):
        place.backend.submit(place.plan(WAITS, slurm={**section, "partition": "absent"}))
    with pytest.raises(BackendError, match=r"there is no Python /absent/bin/python on login"):
        place.backend.submit(place.plan(WAITS, slurm={**section, "python": "/absent"}))
    assert not (place.shared / "slipway").exists() or list((place.shared / "slipway").iterdir()) == []
    with pytest.raises(UnknownJob):
        place.backend.describe("digits-1")


def equipped(place: SlurmPlace, python: Path, requirements: str, script: str, **more: Any) -> TrainingPlan:
    """The plan of a script that requires something, for a Python that has pip and nothing else."""
    source = place.folder / "src"
    source.mkdir(exist_ok=True)
    (source / "requirements.txt").write_text(requirements)
    section = {"host": "login", "partition": "train", "shared": str(place.shared), "python": str(python)}
    environment = {**only_from(place.folder / "wheels"), "GLOO_SOCKET_IFNAME": "lo"}
    return place.plan(script, slurm=section, environment=environment, **more)


@pytest.fixture
def python(place: SlurmPlace) -> Path:
    make_wheel(place.folder / "wheels", "tinyone", "1.2", requires=["tinytwo"])
    make_wheel(place.folder / "wheels", "tinytwo", "2.0")
    return make_python(place.folder / "python")


def environments_of(place: SlurmPlace) -> list[str]:
    """The names of all that lies where environments are made; what is under way begins with a dot."""
    return sorted(each.name for each in (place.shared / "slipway" / "environments").iterdir())


def test_what_a_job_requires_is_installed_on_the_login_node_once(place: SlurmPlace, python: Path) -> None:
    said: list[str] = []

    def submitted(plan: TrainingPlan) -> str:
        return place.backend.submit(plan, lambda progress: said.append(progress.step))

    plan = equipped(place, python, "tinyone\n", "import tinyone, tinytwo; print('has', tinyone.__file__)")
    name = submitted(plan)
    assert place.end_of(name).state is JobState.COMPLETED
    assert said == ["installing 1 package of requirements.txt"]
    (environment,) = {each.partition(".")[0] for each in environments_of(place)}
    found = place.shared / "slipway" / "environments" / environment
    assert any(text.startswith(f"has {found}/lib/") for text in place.texts(name, "algo-2"))
    again = submitted(equipped(place, python, "tinyone\n", "import tinytwo"))
    assert place.end_of(again).state is JobState.COMPLETED
    assert len(said) == 1
    # A launch on the login node has the same one.
    local = python_with_requirements(
        python,
        _package(plan).source,
        place.shared / "slipway" / "environments",
        only_from(place.folder / "wheels"),
    )
    assert local == found / "bin" / "python"
    assert subprocess.run([python, "-c", "import tinyone"], capture_output=True).returncode == 1


def test_two_launches_at_once_install_once(place: SlurmPlace, python: Path) -> None:
    said: list[str] = []
    plans = [equipped(place, python, "tinyone\n", "import tinyone", name=f"job-{n}") for n in range(2)]
    with ThreadPoolExecutor(2) as pool:
        names = list(
            pool.map(lambda plan: place.backend.submit(plan, lambda each: said.append(each.step)), plans)
        )
    assert [place.end_of(name).state for name in names] == [JobState.COMPLETED] * 2
    assert [step for step in said if step.startswith("installing")] == [
        "installing 1 package of requirements.txt"
    ]
    assert [each for each in environments_of(place) if each.startswith(".")] == []


def test_what_cannot_be_installed_is_named_in_pips_words_and_nothing_is_submitted(
    place: SlurmPlace, python: Path
) -> None:
    plan = equipped(place, python, "tinyone\nnosuchthing==3\n", WAITS)
    with pytest.raises(BackendError) as refused:
        place.backend.submit(plan)
    assert str(refused.value).startswith("requirements.txt cannot be installed: nosuchthing==3: ")
    log = next((place.shared / "slipway" / "environments").glob("*.log"))
    assert f"What pip said is in {log} on login." in refused.value.remedy
    assert "`slurm.python`" in refused.value.remedy
    assert [each for each in environments_of(place) if each.startswith(".")] == []
    assert not (place.shared / "slipway" / str(plan.name)).exists()
    assert place.slurm.job_ids(str(plan.name)) == []


def test_an_installation_ends_with_its_connection_and_the_next_launch_makes_it_anew(
    place: SlurmPlace, python: Path, server: SshServer
) -> None:
    pip = packages_of(place.folder / "python") / "pip"
    real = pip.readlink()
    pip.unlink()
    pip.mkdir()
    (pip / "__init__.py").touch()
    started = place.folder / "started"
    waits = f"import os, signal\nopen({str(started)!r}, 'w').write(str(os.getpid()))\nsignal.pause()\n"
    (pip / "__main__.py").write_text(waits)
    plan = equipped(place, python, "tinyone\n", "import tinyone")

    def cut_off(progress: Progress) -> None:
        process = psutil.Process(int(until(lambda: started.exists() and started.read_text())))
        server.cut()
        until(lambda: not process.is_running())

    with pytest.raises(LoginSilent):
        place.backend.submit(plan, cut_off)
    shutil.rmtree(pip)
    pip.symlink_to(real)
    assert place.end_of(place.backend.submit(plan)).state is JobState.COMPLETED
    assert [each for each in environments_of(place) if each.startswith(".")] == []


def _package(plan: TrainingPlan) -> SourcePackage:
    assert plan.package is not None
    return plan.package


def test_the_command_line_launches_lists_looks_at_stops_and_resumes(
    place: SlurmPlace, server: SshServer
) -> None:
    own = place.folder / "bin"
    own.mkdir()
    (own / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {server.folder}/client.conf "$@"\n')
    (own / "ssh").chmod(0o755)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "SLURM_CONF"},
        "PATH": f"{own}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }

    def said(*words: str, code: int = 0) -> Any:
        ran = subprocess.run(
            [sys.executable, "-m", "launcher.cli.app", *words, "--output", "json"],
            env=environment,
            cwd=place.folder,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=200,
        )
        assert ran.returncode == code, f"{ran.stdout}\n{ran.stderr}"
        return json.loads(ran.stdout)

    file = str(place.job(SAVES_WHEN_ASKED))
    found = said(file, "--set", "slurm.partition=trian", "--set", "slurm.shared=/absent", code=1)["findings"]
    messages = " ".join(each["message"] for each in found)
    assert re.search(r"no partition trian; did you mean train\?", messages)
    assert "/absent is not there on login" in messages
    name = said(file, "--detach", "--run-id", "ci-1")["name"]
    assert [job["name"] for job in said("list", "--slurm")["jobs"]] == [name]
    until(lambda: said("status", name)["phase"] == "Training")
    until(lambda: "from nothing" in subprocess.run(
        [sys.executable, "-m", "launcher.cli.app", "logs", name],
        env=environment, cwd=place.folder, capture_output=True, text=True,
    ).stdout)  # fmt: skip
    assert said("stop", name)["asked_to_stop"]
    until(lambda: said("status", name)["state"] == "Stopped")
    assert said("diagnose", name)["verdict"] == "stopped"
    resumed = said("resume", name)
    assert (resumed["state"], resumed["resumed_from"]) == ("Completed", name)
