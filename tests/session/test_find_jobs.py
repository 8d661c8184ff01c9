"""A job by its name: nothing but its own place stands between a person and a job that costs money."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from launcher.aws.clients import Clients
from launcher.backends.interface import JobState, UnknownJob
from launcher.cluster.manifest import Cluster, cache_manifest
from launcher.failure_modes.model import AwsRefusal
from launcher.session.find_jobs import find_job, stop_job
from tests.cli.test_jobs import NAME, REGION, account, create, stopped
from tests.emulator.batch import EmulatedQueue
from tests.emulator.sagemaker import TrainingScript

__all__ = ["account"]

QUEUE = f"arn:aws:batch:{REGION}:123456789012:job-queue/dev"


class ClientsThatAre(Clients):
    """The launcher's clients; those of a service answer the operations as `refusing` tells."""

    def __init__(self, refusing: dict[str, str]) -> None:
        super().__init__()
        self._refusing = refusing

    def __call__(self, service: str, *arguments: Any, **named: Any) -> Any:
        client = super().__call__(service, *arguments, **named)
        for operation, code in self._refusing.items():
            client.meta.events.register_first(f"before-call.*.{operation}", _refusal(operation, code))
        return client


def _refusal(operation: str, code: str) -> Callable[..., None]:
    def refuse(**_: Any) -> None:
        error = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
        raise ClientError(error, operation)

    return refuse


@pytest.fixture
def known_queue(account: TrainingScript, manifest: dict[str, Any]) -> None:
    cache_manifest(Cluster.model_validate({**manifest, "queue_arn": QUEUE}))


DENIED_LOOK = {"DescribeTrainingJob": "AccessDeniedException"}
STOPPED_ALL_THE_SAME = [
    *(({"ListServiceJobs": code}, JobState.IN_PROGRESS)
      for code in ("ClientException", "AccessDeniedException", "ServerException")),
    (DENIED_LOOK, None),
]  # fmt: skip
"""What is refused, of a queue or of the job, and the state that is known of the job."""


@pytest.mark.parametrize(("refusing", "state"), STOPPED_ALL_THE_SAME)
def test_a_job_is_stopped_whatever_may_not_be_looked_at(
    account: TrainingScript, known_queue: None, tmp_path: Path, refusing: dict[str, str], state: object
) -> None:
    answer = stop_job(NAME, ClientsThatAre(refusing), REGION, tmp_path)
    assert (answer.asked, answer.state) == (True, state)
    assert stopped(account)


def test_a_queue_that_does_not_answer_is_what_is_told_of_a_job_that_only_it_may_have(
    account: TrainingScript, known_queue: None, tmp_path: Path
) -> None:
    message = "The queue of the cluster dev could not be asked"
    with pytest.raises(AwsRefusal, match=message):
        stop_job("waiting-1", ClientsThatAre({"ListServiceJobs": "ServerException"}), REGION, tmp_path)
    clients = ClientsThatAre({"ListServiceJobs": "AccessDeniedException"})
    with pytest.raises(AwsRefusal, match=message) as refused:
        find_job("nothing-of-the-kind", clients, REGION, tmp_path)
    assert "there is no training job nothing-of-the-kind" in refused.value.message
    assert refused.value.exit_code == 3


def test_what_refuses_to_stop_a_job_is_what_is_told(account: TrainingScript, tmp_path: Path) -> None:
    clients = ClientsThatAre({**DENIED_LOOK, "StopTrainingJob": "AccessDeniedException"})
    with pytest.raises(AwsRefusal, match="refused to stop the training job"):
        stop_job(NAME, clients, REGION, tmp_path)


def test_a_name_that_no_place_has_is_unknown(queued: EmulatedQueue, tmp_path: Path) -> None:
    with pytest.raises(UnknownJob, match="there is no training job nothing-of-the-kind"):
        find_job("nothing-of-the-kind", QueuedClients(queued, {}), REGION, tmp_path)


class QueuedClients(ClientsThatAre):
    """And a queue that answers."""

    def __init__(self, queue: EmulatedQueue, refusing: dict[str, str]) -> None:
        super().__init__(refusing)
        self._queue = queue

    def __call__(self, service: str, *arguments: Any, **named: Any) -> Any:
        client = super().__call__(service, *arguments, **named)
        return self._queue.attach(client) if service == "batch" else client


@pytest.fixture
def queued(account: TrainingScript, known_queue: None) -> Iterator[EmulatedQueue]:
    queue = EmulatedQueue(QUEUE, boto3.client("sagemaker", region_name=REGION), room=False)
    batch = queue.attach(boto3.client("batch", region_name=REGION))
    batch.submit_service_job(
        jobName="waiting-1",
        jobQueue=QUEUE,
        serviceJobType="SAGEMAKER_TRAINING",
        serviceRequestPayload=json.dumps({"TrainingJobName": "waiting-1"}),
        clientToken="waiting-1",
    )
    yield queue


@pytest.mark.parametrize("refusing", [{}, DENIED_LOOK])
def test_a_queued_job_is_stopped_whatever_sagemaker_says(
    queued: EmulatedQueue, tmp_path: Path, refusing: dict[str, str]
) -> None:
    answer = stop_job("waiting-1", QueuedClients(queued, refusing), REGION, tmp_path)
    assert answer.asked
    [job] = queued.jobs.values()
    assert job["isTerminated"]


def test_a_queued_job_is_found_without_a_region_in_its_own(queued: EmulatedQueue, tmp_path: Path) -> None:
    found = find_job("waiting-1", QueuedClients(queued, {}), None, tmp_path)
    assert found.backend.name == "queue"


def test_sagemaker_is_asked_before_any_queue(
    account: TrainingScript, known_queue: None, tmp_path: Path
) -> None:
    found = find_job(NAME, ClientsThatAre({"ListServiceJobs": "ServerException"}), REGION, tmp_path)
    assert found.backend.name == "sagemaker"
    create(TrainingJobName="other-1")
    assert find_job("other-1", Clients(), REGION, tmp_path).name == "other-1"
