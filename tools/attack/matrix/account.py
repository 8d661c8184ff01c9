"""The account of the matrix: a cluster with a queue, a job that runs, one that failed and one to resume."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import boto3
import yaml

from launcher.backends.interface import Backend, Polling
from launcher.cluster.manifest import Cluster, cache_manifest
from launcher.cluster.names import TRAINING_IN_BATCH
from launcher.session.prepare_plan import JobSource, prepare_for, read_job
from tests.emulator import done_once
from tests.emulator.account import INSTANCE_TYPE, REGION, EmulatedAccount, emulated_account
from tests.emulator.batch import EmulatedQueue
from tests.emulator.sagemaker import TrainingScript, emulated_training

CREATED_BY_THE_QUEUE = "AWSBatch"
QUEUE = f"arn:aws:batch:{REGION}:123456789012:job-queue/dev"
RUNNING, FAILED, ENDED = "digits-running", "digits-failed", "digits-ended"
WAITING = "digits-waiting"
"""In the queue; SageMaker does not know it yet."""
REASON = "AlgorithmError: CODE001 rank 3 on algo-2: ValueError: planted (train.py:9), exit code: 1"
LINES = {"algo-1": ["step=1 loss=0.5", "step=2 loss=0.4"], "algo-2": ["ValueError: planted"]}


@dataclass(frozen=True, slots=True)
class Attacked:
    """What the commands are run against, and the folder in which they are."""

    account: EmulatedAccount
    script: TrainingScript
    queue: EmulatedQueue
    folder: Path

    @property
    def manifest(self) -> Cluster:
        """The manifest of the cluster, which has a queue."""
        return Cluster.model_validate({**self.account.manifest(), "queue_arn": QUEUE})

    @property
    def jobs(self) -> list[str]:
        """The names of all jobs that launchers created, those in the queue included; not the queue's own."""
        names = [request["TrainingJobName"] for request in self.script.requests]
        return [
            *(name for name in names if not name.startswith(CREATED_BY_THE_QUEUE)),
            *(job["jobName"] for job in self.queue.jobs.values()),
        ]


def user_environment(folder: Path) -> dict[str, str]:
    """The environment of a user of the account who has nothing else, below the folder."""
    return {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(folder / "no-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "no-credentials"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }


@contextmanager
def attacked_account(folder: Path) -> Iterator[Attacked]:
    """The account in moto, and a folder with a job file; the environment is that of its user."""
    environment = user_environment(folder)
    done_once.install()
    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, environment))
        stack.enter_context(mock.patch.object(Backend, "polling", Polling(5, 0.2)))
        account = stack.enter_context(emulated_account())
        script = stack.enter_context(emulated_training(TrainingScript(logs=LINES)))
        attacked = Attacked(account, script, EmulatedQueue(QUEUE, account.client("sagemaker")), folder)
        manifest = attacked.manifest
        account.client("ssm").put_parameter(
            Name="/slipway/clusters/dev", Value=manifest.model_dump_json(), Type="String"
        )
        cache_manifest(manifest)
        write_job(folder)
        _add_jobs(attacked)
        yield attacked


def write_job(folder: Path, name: str = "digits") -> Path:
    """A job file with its code, for the cluster."""
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "src" / "train.py").write_text("print('trained')\n")
    job = {
        "name": name,
        "cluster": "dev",
        "code": {"source_dir": "src", "entry_point": "train.py"},
        "framework": {"name": "pytorch", "version": "2.8.0", "python": "py312"},
        "resources": {"instance_type": INSTANCE_TYPE, "instance_count": 2},
        "distribution": {"strategy": "torchrun"},
        "metrics": {"loss": "loss=(\\S+)"},
    }
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    return file


def _add_jobs(attacked: Attacked) -> None:
    """Jobs that were launched before, as far on as their names say."""
    for name, reason in ((RUNNING, None), (FAILED, REASON), (ENDED, None)):
        add_job(attacked, name, reason=reason, ended=name != RUNNING)
    attacked.script.failure_reason = None
    attacked.queue.attach(boto3.client("batch", region_name=REGION)).submit_service_job(
        jobName=WAITING,
        jobQueue=QUEUE,
        serviceJobType=TRAINING_IN_BATCH,
        serviceRequestPayload=json.dumps(_request(attacked, WAITING)),
        retryStrategy={"attempts": 1},
        clientToken=WAITING,
    )


def add_job(attacked: Attacked, name: str, *, reason: str | None = None, ended: bool = True) -> None:
    """Create a job from the job file; one that has `ended` left logs and a checkpoint."""
    request = _request(attacked, name)
    sagemaker, script = attacked.account.client("sagemaker"), attacked.script
    script.failure_reason = reason
    sagemaker.create_training_job(**request)
    for _ in range(5 if ended else 2):
        sagemaker.describe_training_job(TrainingJobName=request["TrainingJobName"])
    if ended:
        prefix = request["CheckpointConfig"]["S3Uri"].removeprefix("s3://team-checkpoints/")
        s3 = attacked.account.client("s3")
        for name in ("step-1/.metadata", "step-1/__0_0.distcp"):
            s3.put_object(Bucket="team-checkpoints", Key=f"{prefix}/{name}", Body=b"saved")


def _request(attacked: Attacked, name: str) -> dict[str, Any]:
    """What the job file asks for, under a name."""
    loaded = read_job(JobSource(attacked.folder / "job.yaml"))
    plan = prepare_for(loaded, attacked.manifest, session_region=REGION, unique=name.partition("-")[2])
    request: dict[str, Any] = json.loads(json.dumps(plan.request).replace(str(plan.name), name))
    return request
