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

import pytest

from launcher.backends.interface import (
    BackendError,
    JobQuery,
    JobState,
    NameTakenError,
    UncertainError,
    UnknownJob,
)
from launcher.backends.slurm.backend import SlurmBackend
from launcher.backends.slurm.commands import SlurmCommands
from launcher.backends.slurm.login_node import LoginSilent
from launcher.diagnosis.model import StopCause, Verdict
from launcher.planning.finished_request import build_resumed_request
from launcher.planning.training_plan import TrainingPlan
from launcher.session.runs.diagnose_job import outcome_of
from launcher.session.runs.follow_job import Follower, Pace
from launcher.session.submit_job import Start
from tests.backends.slurm.cluster import WAITS, SlurmPlace
from tests.backends.slurm.mini_cluster import MiniCluster, until
from tests.backends.slurm.ssh_server import SshServer, skip_without_sshd, ssh_server

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
    (place.folder / "src" / "requirements.txt").write_text("absent-package==1\n")
    with pytest.raises(BackendError, match=r"asks for absent-package==1, which .* does not have"):
        place.backend.submit(place.plan(WAITS))
    assert list((place.shared / "slipway").iterdir()) == []
    with pytest.raises(UnknownJob):
        place.backend.describe("digits-1")


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
