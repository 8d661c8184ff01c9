"""Launchers as processes of their own, over a real connection: killed at every step, or at the same time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from launcher.aws.clients import Clients
from launcher.backends.interface import OnProgress, Progress
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.session.prepare_plan import JobSource, prepare, read_job
from tests.backends.sagemaker.conftest import BUCKETS, REGION
from tests.emulator.faults import EMPTY_DONE, EXPIRED, LIMIT, LOST, RESET, THROTTLED, Fault
from tests.emulator.faulty_server import FaultyServer, faulty_server
from tests.emulator.sagemaker import TrainingScript, emulated_training
from tests.session.submission.launches import launch

CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))

LAUNCHER = """
import sys
from pathlib import Path

from launcher.aws.clients import Clients
from launcher.backends.sagemaker import upload as transfers
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.failure_modes.model import Refusal
from launcher.session.prepare_plan import JobSource, prepare, read_job
from launcher.session.submit_job import Start

transfers.PART_BYTES = 5 * 1024 * 1024
plan = prepare(read_job(JobSource(Path(sys.argv[1]))), session_region=None)
make = Clients()
clients = {name: make(name, plan.region) for name in ("sagemaker", "logs", "s3")}
try:
    tell = lambda progress: print(progress.step, file=sys.stderr)
    print(Start(SageMakerBackend(**clients), on_progress=tell).once(plan).name)
except Refusal as refusal:
    sys.exit(str(refusal))
"""
"""What `launch JOB.yaml --yes --detach` does once it knows the cluster."""

ROOT = Path(__file__).parents[3]


class Launchers:
    """Starts launchers of one job file against one server."""

    def __init__(self, server: FaultyServer, script: TrainingScript, file: Path, cache: Path) -> None:
        self.server = server
        self.script = script
        self.file = file
        self._environment = {
            "PATH": os.defpath,
            "HOME": str(cache),
            "XDG_CACHE_HOME": str(cache),
            "PYTHONPATH": str(ROOT),
            "AWS_ENDPOINT_URL": server.url,
            "AWS_ACCESS_KEY_ID": "planted-access-key",
            "AWS_SECRET_ACCESS_KEY": "planted-secret-key",
            "AWS_SESSION_TOKEN": "planted-session-token",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, str(self.file)],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of a launch."""
        process = self.start()
        out, err = process.communicate(timeout=120)
        assert "planted" not in out + err
        return process.returncode, out.strip(), err

    def run_here(self, on_progress: OnProgress) -> str:
        """A launch in this process."""
        plan = prepare(read_job(JobSource(self.file)), session_region=None)
        clients = Clients()
        backend = SageMakerBackend(
            **{name: clients(name, plan.region) for name in ("sagemaker", "logs", "s3")}
        )
        return launch(backend, plan, on_progress)

    @property
    def jobs(self) -> list[str]:
        return [request["TrainingJobName"] for request in self.script.requests]


@pytest.fixture
def launchers(
    write_job: Callable[..., Path],
    manifest: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Launchers]:
    """A job whose code goes in parts and which resumes from a checkpoint of two files."""
    file = write_job(
        cluster="./dev.json",
        checkpoint={"resume_from": "s3://dev-checkpoints/earlier"},
        environment={"MY_SETTING": "planted-in-environment"},
        hyperparameters={"key": "planted-in-hyperparameters"},
    )
    (tmp_path / "dev.json").write_text(json.dumps(manifest))
    (tmp_path / "src" / "weights.bin").write_bytes(os.urandom(6 * 1024 * 1024))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with faulty_server() as server, emulated_training(TrainingScript()) as script:
        s3 = boto3.client("s3", region_name=REGION, endpoint_url=server.url)
        for bucket in BUCKETS:
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
        for name in ("step-1/.metadata", "step-1/__0_0.distcp"):
            s3.put_object(Bucket="dev-checkpoints", Key=f"earlier/{name}", Body=b"saved")
        server.calls.clear()
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        yield Launchers(server, script, file, tmp_path / "cache")


@pytest.mark.few_cases("CopyObject-True", "CreateTrainingJob-True")
@pytest.mark.parametrize(("step", "answered"), CASES["steps"])
def test_a_launcher_killed_at_any_step_leaves_one_job_after_a_new_start(
    launchers: Launchers, step: str, answered: bool
) -> None:
    gate = launchers.server.hold(step, answered=answered)
    killed = launchers.start()
    assert gate.wait(), f"{step} never came: {launchers.server.calls}"
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    created = list(launchers.jobs)
    assert len(created) == (1 if answered and step == "CreateTrainingJob" else 0)
    # What was on its way to AWS is carried out there before or while the launcher starts again.
    gate.release()

    told: list[Progress] = []
    name = launchers.run_here(told.append)
    assert launchers.jobs == [name]
    assert "a launch of digits was interrupted less than a minute ago" in told[0].step
    assert_complete(launchers, name)
    assert list(launchers.file.parent.glob("cache/slipway/launches/*")) == []


def assert_complete(launchers: Launchers, name: str) -> None:
    """All that the job reads is there."""
    (request,) = [each for each in launchers.script.requests if each["TrainingJobName"] == name]
    (channel,) = request["InputDataConfig"]
    bucket, _, prefix = channel["DataSource"]["S3DataSource"]["S3Uri"].removeprefix("s3://").partition("/")
    s3 = boto3.client("s3", region_name=REGION, endpoint_url=launchers.server.url)
    code = s3.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/")["Contents"]
    assert [item["Key"].removeprefix(f"{prefix}/") for item in code] == ["slipway.pyz", "source.tar.gz"]
    copied = s3.list_objects_v2(Bucket="dev-checkpoints", Prefix=f"{name}/")["Contents"]
    assert [item["Key"].removeprefix(f"{name}/step-1/") for item in copied] == [".metadata", "__0_0.distcp"]


def test_launchers_at_the_same_moment_make_a_job_each(launchers: Launchers) -> None:
    processes = []
    for _ in range(2):
        gate = launchers.server.hold("CreateTrainingJob", answered=False)
        processes.append(launchers.start())
        assert gate.wait()
    # Both are about to create their job now, neither knows of the other.
    assert launchers.jobs == []
    launchers.server.open()
    names = [process.communicate(timeout=120)[0].strip() for process in processes]
    assert sorted(launchers.jobs) == sorted(names)
    assert len(set(names)) == 2
    prefixes = {request["CheckpointConfig"]["S3Uri"] for request in launchers.script.requests}
    assert prefixes == {f"s3://dev-checkpoints/{name}" for name in names}
    for name in names:
        assert_complete(launchers, name)


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", [THROTTLED, LOST, RESET, EMPTY_DONE], ids=lambda fault: fault.name)
def test_a_fault_on_the_way_makes_one_job(launchers: Launchers, fault: Fault) -> None:
    launchers.server.rule("CreateTrainingJob", fault)
    code, name, err = launchers.run()
    assert code == 0, err
    assert launchers.jobs == [name]


@pytest.mark.few_cases(every=2)
@pytest.mark.parametrize("fault", [EXPIRED, LIMIT], ids=lambda fault: fault.name)
def test_a_refusal_is_one_clear_message(launchers: Launchers, fault: Fault) -> None:
    launchers.server.rule("CreateTrainingJob", fault)
    code, out, err = launchers.run()
    assert (code, out, launchers.jobs) == (1, "", [])
    assert fault.code in err
    assert "Traceback" not in err
