"""Every backend as a place where jobs print, fail or wait as a test wants: what a contract needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import boto3
import yaml
from moto import mock_aws

from launcher.backends.interface import Backend
from launcher.backends.local.backend import LocalBackend
from launcher.backends.queue import QueueBackend
from launcher.backends.sagemaker.backend import SageMakerBackend, provide
from launcher.cluster.manifest import Cluster
from launcher.jobs.load_job import load_job
from launcher.planning.training_plan import TrainingPlan
from launcher.session.prepare_plan import prepare_for
from tests.backends.slurm.cluster import SlurmPlace
from tests.backends.slurm.mini_cluster import mini_cluster, skip_without_slurm
from tests.backends.workplace import SHORT, Workplace
from tests.emulator.batch import EmulatedQueue
from tests.emulator.sagemaker import TrainingScript, emulated_training

REGION = "us-west-2"
QUEUE = f"arn:aws:batch:{REGION}:123456789012:job-queue/dev"
SERVICES = ("sagemaker", "logs", "s3")
WHAT_HAPPENED = "AlgorithmError: CODE001 rank 0 on algo-1: ValueError: planted (train.py:9), exit code: 1"

Lines = Mapping[str, Sequence[str]]


@dataclass
class Place:
    """A backend, plans for it, and the names of all that it has created.

    `plan` takes a job's name and the lines of its hosts; the job `ends`, `fails` or `waits` to be stopped.
    """

    backend: Backend
    plan: Callable[[str, Lines, str], TrainingPlan]
    created: Callable[[], list[str]]


@contextmanager
def sagemaker_place(folder: Path, manifest: dict[str, Any]) -> Iterator[Place]:
    """Training jobs in moto."""
    with _emulation() as script:
        clients = dict(zip(SERVICES, _clients(), strict=True))
        yield Place(
            SageMakerBackend(**clients, renewed=_clients),
            _Emulated(script, folder, manifest).plan,
            lambda: [request["TrainingJobName"] for request in script.requests],
        )


@contextmanager
def queue_place(folder: Path, manifest: dict[str, Any]) -> Iterator[Place]:
    """The same behind an emulated queue of AWS Batch."""
    with _emulation() as script:
        queue = EmulatedQueue(QUEUE, _client("sagemaker"))
        clients = dict(zip(SERVICES, _clients(), strict=True))
        backend = QueueBackend(
            queue.attach(_client("batch")),
            QUEUE,
            training=SageMakerBackend(**clients, renewed=_clients),
            provide=lambda plan, tell: provide(clients["sagemaker"], clients["s3"], plan, tell),
            renewed=lambda: queue.attach(_client("batch")),
        )
        yield Place(
            backend,
            _Emulated(script, folder, manifest).plan,
            lambda: [job["jobName"] for job in queue.jobs.values()],
        )


@contextmanager
def local_place(folder: Path, manifest: dict[str, Any]) -> Iterator[Place]:
    """Real processes on this machine; none may be left."""
    workplace = Workplace(folder)

    def plan(name: str, lines: Lines, end: str) -> TrainingPlan:
        return workplace.plan(_script(lines, end), name=f"{name}-0unique", hosts=len(lines))

    with LocalBackend(workplace.home, grace=SHORT) as backend:
        yield Place(backend, plan, backend.job_names)
    assert workplace.processes() == []


@contextmanager
def slurm_place(folder: Path, manifest: dict[str, Any]) -> Iterator[Place]:
    """Jobs on a real Slurm, which is started for them."""
    skip_without_slurm()
    with mini_cluster(folder / "c", nodes=2) as slurm:
        cluster = SlurmPlace(slurm, folder, slurm.shared)

        def plan(name: str, lines: Lines, end: str) -> TrainingPlan:
            resources = {"instance_type": "ml.m5.xlarge", "instance_count": len(lines)}
            file = cluster.job(_script(lines, end), name=name, resources=resources)
            return prepare_for(load_job(file), None, session_region=REGION, unique="0unique")

        yield Place(cluster.backend, plan, cluster.backend.job_names)


PLACES = {"sagemaker": sagemaker_place, "queue": queue_place, "local": local_place, "slurm": slurm_place}


def _script(lines: Lines, end: str) -> str:
    return f"""
        import json, os, time
        for line in json.loads({json.dumps(dict(lines))!r})[os.environ["SM_CURRENT_HOST"]]:
            print(line, flush=True)
        if {end == "waits"}:
            time.sleep(600)
        if {end == "fails"}:
            raise ValueError("planted")
    """


@dataclass
class _Emulated:
    """Jobs as the emulation is told to let them go; one that waits is simply not looked at."""

    script: TrainingScript
    folder: Path
    manifest: dict[str, Any]

    def plan(self, name: str, lines: Lines, end: str) -> TrainingPlan:
        self.script.logs = lines
        self.script.failure_reason = WHAT_HAPPENED if end == "fails" else None
        (self.folder / "src").mkdir(exist_ok=True)
        (self.folder / "src" / "train.py").write_text("print('trained')\n")
        job = {
            "name": name,
            "code": {"source_dir": "src", "entry_point": "train.py"},
            "framework": {"name": "pytorch", "version": "2.8.0", "python": "py312"},
            "resources": {"instance_type": "ml.p4d.24xlarge", "instance_count": len(lines)},
            "distribution": {"strategy": "torchrun"},
        }
        (self.folder / "job.yaml").write_text(yaml.safe_dump(job))
        cluster = Cluster.model_validate(self.manifest)
        loaded = load_job(self.folder / "job.yaml")
        return prepare_for(loaded, cluster, session_region=REGION, unique="0unique")


@contextmanager
def _emulation() -> Iterator[TrainingScript]:
    credentials = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    with (
        mock.patch.dict("os.environ", credentials),
        mock_aws(),
        emulated_training(TrainingScript()) as script,
    ):
        location = {"LocationConstraint": REGION}
        _client("s3").create_bucket(Bucket="dev-code", CreateBucketConfiguration=location)
        yield script


def _client(service: str) -> Any:
    return boto3.client(service, region_name=REGION)


def _clients() -> tuple[Any, ...]:
    return tuple(map(_client, SERVICES))
