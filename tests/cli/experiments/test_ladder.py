"""`launch ladder`: real runs here, emulated jobs on AWS."""

from __future__ import annotations

import json
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.backends.local.python import Interpreter, Machine
from launcher.cli.experiments import ladder
from tests.backends.workplace import SHORT
from tests.cli.conftest import RunLaunch, WriteJob
from tests.cli.test_launch_local import processes_of, start
from tests.emulator.account import EmulatedAccount
from tests.emulator.sagemaker import TrainingScript, emulated_training

FIXED_PORT = """
import os, pathlib, socket, threading
mine = socket.socket()
mine.bind(("127.0.0.1", int(pathlib.Path("port.txt").read_text())))
print("step=1 loss=1.0", flush=True)
if "algo-2" in os.environ["SM_HOSTS"]:
    threading.Event().wait(60)
"""

REPORTS_FOR_EVER = """
import itertools, sys, threading
for step in itertools.count():
    print(f"step={step} loss=1.0", flush=True)
    threading.Event().wait(0.05)
"""


@pytest.fixture
def job(write_job: WriteJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A job file with this script, without a rendezvous: each host is a process of its own."""
    monkeypatch.chdir(tmp_path)

    def write(script: str, **changes: Any) -> Path:
        hosts = {"instance_type": "ml.m5.xlarge", "instance_count": 2}
        file = write_job(**{"resources": hosts, "distribution": {"strategy": "none"}, **changes})
        (tmp_path / "src" / "train.py").write_text(script)
        return file

    return write


def climbed(out: str) -> dict[str, Any]:
    return {each["name"]: each for each in json.loads(out)["rungs"]}


def test_a_script_that_is_never_done_is_stopped_and_holds(
    run_launch: RunLaunch, job: Callable[..., Path]
) -> None:
    code, out, _ = run_launch(
        "ladder", job(REPORTS_FOR_EVER), "--up-to", "1-here", "--steps", "2", "--output", "json"
    )
    document = json.loads(out)
    [rung] = document["rungs"]
    assert code == 0
    assert rung["result"] == "held"
    assert rung["said"] == "stopped by the ladder after 2 reports of progress"
    assert rung["usd_at_limit"] == 0
    assert document["few_steps"] is None
    assert document["verdict"] == "It holds up to 1-here: 1 process here."
    assert document["next"].endswith("--from n-here --steps 2")


def test_without_torch_here_the_way_to_begin_on_aws_is_said(
    run_launch: RunLaunch, job: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Machine(Interpreter(Path(sys.executable), (3, 12, 1), None, None), gpus=(), cores=2)
    monkeypatch.setattr("launcher.backends.local.python.this_machine", lambda python, environment: here)
    code, _, err = run_launch("ladder", job("import torch"))
    assert code == 2
    assert "has no torch" in err
    assert "Or begin on the job's hosts: --from 1-host." in err


def test_a_port_that_two_processes_take_holds_with_one(
    run_launch: RunLaunch, job: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launcher.backends.local.backend.Grace", lambda: SHORT)
    file = job(FIXED_PORT)
    with socket.create_server(("127.0.0.1", 0)) as free:
        (tmp_path / "src" / "port.txt").write_text(str(free.getsockname()[1]))
    code, out, _ = run_launch("ladder", file, "--up-to", "n-here", "--output", "json")
    rungs = climbed(out)
    assert code == 1
    assert [rung["result"] for rung in rungs.values()] == ["held", "broke"]
    assert "the rendezvous port is in use already" in rungs["n-here"]["finding"]["message"]
    assert (
        "something between ranks: a collective that not all of them reach, or a port"
        in json.loads(out)["verdict"]
    )


@pytest.mark.exhaustive
def test_ctrl_c_ends_the_rung_and_the_ladder(job: Callable[..., Path], tmp_path: Path) -> None:
    run = start(tmp_path, "ladder", str(job(REPORTS_FOR_EVER)), "--up-to", "n-here", "--steps", "100000")
    assert run.stdout is not None
    line = ""
    while "step=" not in line:
        line = run.stdout.readline()
        assert line, "the rung ended before it had begun"
    run.send_signal(signal.SIGINT)
    printed, _ = run.communicate(timeout=120)
    assert run.returncode == 130
    assert "1-here interrupted" in printed
    assert "Traceback" not in printed
    assert "rung 2" not in printed
    assert processes_of(tmp_path) == []


class BreaksOn(TrainingScript):
    """Jobs with so many hosts fail."""

    def __init__(self, hosts: int) -> None:
        super().__init__(logs={"algo-1": ["step=1 loss=0.5"]})
        self._hosts = hosts

    def create(self, request: dict[str, Any]) -> None:
        reason = "AlgorithmError: NCCL002 rank 8 on algo-2: no route, exit code: 1"
        self.failure_reason = reason if request["ResourceConfig"]["InstanceCount"] == self._hosts else None
        super().create(request)


@pytest.fixture
def breaks_on_two(cloud: EmulatedAccount) -> Iterator[BreaksOn]:
    with emulated_training(BreaksOn(2)) as script:
        yield script


def test_the_first_rung_that_breaks_on_aws_ends_the_ladder(
    run_launch: RunLaunch, write_job: WriteJob, breaks_on_two: BreaksOn
) -> None:
    resources = {"instance_type": "ml.p4d.24xlarge", "instance_count": 4}
    file = write_job(cluster="dev", resources=resources, limits={"max_retries": 3})
    code, out, _ = run_launch("ladder", file, "--from", "1-host", "--yes", "--output", "json")
    rungs = climbed(out)
    sizes = [request["ResourceConfig"]["InstanceCount"] for request in breaks_on_two.requests]
    limits = {each["StoppingCondition"]["MaxRuntimeInSeconds"] for each in breaks_on_two.requests}
    assert code == 1
    assert sizes == [1, 2]
    assert limits == {1500}
    assert [rung["result"] for rung in rungs.values()] == ["held", "broke", None]
    assert rungs["2-hosts"]["finding"]["code"] == "NCCL002"
    assert rungs["2-hosts"]["usd_at_limit"] > rungs["1-host"]["usd_at_limit"] > 0
    assert "the network between hosts" in json.loads(out)["verdict"]


def test_a_ladder_that_ci_runs_again_creates_no_second_job(
    run_launch: RunLaunch, write_job: WriteJob, breaks_on_two: BreaksOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUILDKITE_BUILD_ID", "one")
    file = write_job(cluster="dev")
    names = []
    for _ in range(2):
        _, out, _ = run_launch("ladder", file, "--from", "1-host", "--yes", "--output", "json")
        names.append([rung["job_name"] for rung in climbed(out).values()])
    assert names[0] == names[1]
    assert [request["TrainingJobName"] for request in breaks_on_two.requests] == names[0]


def test_with_nobody_to_ask_nothing_is_bought(
    run_launch: RunLaunch, write_job: WriteJob, breaks_on_two: BreaksOn
) -> None:
    code, out, _ = run_launch("ladder", write_job(cluster="dev"), "--from", "1-host")
    assert code == 2
    assert breaks_on_two.requests == []
    assert "nobody can be asked: --yes" in out


@pytest.mark.few_cases("answers1-started1")
@pytest.mark.parametrize(("answers", "started"), [([False], []), ([True, False], [1])])
def test_each_rung_that_costs_money_is_asked_about(
    run_launch: RunLaunch,
    write_job: WriteJob,
    breaks_on_two: BreaksOn,
    monkeypatch: pytest.MonkeyPatch,
    answers: list[bool],
    started: list[int],
) -> None:
    asked: list[str] = []

    def answer(question: str) -> bool:
        asked.append(question)
        return answers[len(asked) - 1]

    monkeypatch.setattr(ladder, "is_asking_possible", lambda yes, output: True)
    monkeypatch.setattr(ladder, "confirm", answer)
    code, _, _ = run_launch("ladder", write_job(cluster="dev"), "--from", "1-host")
    assert code == 0
    assert [request["ResourceConfig"]["InstanceCount"] for request in breaks_on_two.requests] == started
    assert "1 × ml.p4d.24xlarge, 8 processes" in asked[0]
    assert "USD an hour" in asked[0]


def test_what_the_account_lacks_refuses_a_rung(
    run_launch: RunLaunch, write_job: WriteJob, cloud: EmulatedAccount, breaks_on_two: BreaksOn
) -> None:
    cloud.quotas["ml.p4d.24xlarge for training job usage"] = 1.0
    code, out, _ = run_launch(
        "ladder", write_job(cluster="dev"), "--from", "1-host", "--yes", "--output", "json"
    )
    rungs = climbed(out)
    assert code == 1
    assert [rung["result"] for rung in rungs.values()] == ["held", "refused"]
    assert len(breaks_on_two.requests) == 1
    assert "would break 2-hosts" in json.loads(out)["verdict"]
