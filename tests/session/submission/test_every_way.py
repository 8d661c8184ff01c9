"""Submission, queue and resumption, cut off after the job was there and started again: one job each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from botocore.exceptions import ReadTimeoutError

from launcher.backends.interface import Progress, UncertainError
from launcher.backends.queue import QueueBackend
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.planning.training_plan import TrainingPlan
from launcher.session.submit_job import Start, plan_resumption
from tests.backends.sagemaker.conftest import REGION, Emulated
from tests.emulator.batch import EmulatedQueue
from tests.emulator.sagemaker import TrainingScript
from tests.session.submission.launches import entries, launch, names

QUEUE = f"arn:aws:batch:{REGION}:123456789012:job-queue/dev"


class _Killed(BaseException):
    """Ends a launcher at once, as SIGKILL does: nothing that handles errors sees it."""


@dataclass
class _LossyQueue(EmulatedQueue):
    """Does what it is asked, and its answers are lost for a while."""

    lost: tuple[str, ...] = ()

    def _submit(self, asked: dict[str, Any]) -> dict[str, Any]:
        return self._delivered("submit", super()._submit(asked))

    def _list(self, asked: dict[str, Any]) -> dict[str, Any]:
        return self._delivered("list", super()._list(asked))

    def _delivered(self, call: str, answer: dict[str, Any]) -> dict[str, Any]:
        if call in self.lost:
            raise ReadTimeoutError(endpoint_url="https://batch")
        return answer


@pytest.fixture
def queue(script: TrainingScript) -> _LossyQueue:
    return _LossyQueue(QUEUE, boto3.client("sagemaker", region_name=REGION))


@pytest.fixture
def queued(queue: _LossyQueue, backend: SageMakerBackend) -> QueueBackend:
    batch = queue.attach(boto3.client("batch", region_name=REGION))
    return QueueBackend(batch, QUEUE, training=backend, provide=backend.provide)


def killed_after_sending(start: Start, plan: TrainingPlan) -> None:
    def send(each: TrainingPlan) -> str:
        start.backend.submit(each)
        raise _Killed

    with pytest.raises(_Killed):
        start.once(plan, send)


def test_a_killed_launch_through_the_queue_is_gone_on_with(
    aws: Emulated, queued: QueueBackend, queue: _LossyQueue
) -> None:
    first = aws.plan_of()
    killed_after_sending(Start(queued), first)
    told: list[Progress] = []
    assert launch(queued, aws.plan_of(), told.append) == first.name
    assert [job["jobName"] for job in queue.jobs.values()] == [first.name]
    assert f"its job {first.name} is InProgress: going on with it" in told[0].step
    assert entries() == []


def test_a_launch_through_the_queue_that_had_sent_nothing_goes_on_under_its_name(
    aws: Emulated, queued: QueueBackend, queue: _LossyQueue
) -> None:
    def send(each: TrainingPlan) -> str:
        raise _Killed

    first = aws.plan_of()
    with pytest.raises(_Killed):
        Start(queued).once(first, send)
    assert launch(queued, aws.plan_of()) == first.name
    assert [job["jobName"] for job in queue.jobs.values()] == [first.name]


def test_a_launch_that_goes_straight_is_not_the_queued_one(aws: Emulated, queued: QueueBackend) -> None:
    first, second = aws.plan_of(), aws.plan_of()
    killed_after_sending(Start(queued), first)
    assert launch(aws.backend, second) == second.name
    assert launch(queued, aws.plan_of()) == first.name


def test_one_run_through_the_queue_makes_one_job(
    aws: Emulated, queued: QueueBackend, queue: _LossyQueue
) -> None:
    name = launch(queued, aws.plan_of(), run_id="nightly-7")
    assert launch(queued, aws.plan_of(), run_id="nightly-7") == name
    [job] = queue.jobs.values()
    assert (job["jobName"], json.loads(job["serviceRequestPayload"])["TrainingJobName"]) == (name, name)


def test_a_queued_job_whose_answer_was_lost_is_looked_up(
    aws: Emulated, queued: QueueBackend, queue: _LossyQueue
) -> None:
    queue.lost = ("submit",)
    plan = aws.plan_of()
    assert launch(queued, plan) == plan.name
    assert entries() == []


def test_a_queued_job_that_cannot_be_seen_is_named_and_found_by_the_next_start(
    aws: Emulated, queued: QueueBackend, queue: _LossyQueue
) -> None:
    queue.lost = ("submit", "list")
    plan = aws.plan_of()
    with pytest.raises(UncertainError, match=f"{plan.name} is in the queue cannot be seen"):
        launch(queued, plan)
    queue.lost = ()
    assert launch(queued, aws.plan_of()) == plan.name
    assert len(queue.jobs) == 1


def test_the_name_is_told_before_the_note_goes(aws: Emulated) -> None:
    notes: dict[str, int] = {}
    plan = aws.plan_of()
    launch(aws.backend, plan, lambda progress: notes.update({progress.step: len(entries())}))
    assert notes[f"submitted {plan.name}"] == 1
    assert entries() == []


def ended(backend: SageMakerBackend, plan: TrainingPlan) -> str:
    name = launch(backend, plan)
    while not backend.describe(name).state.is_final:
        pass
    bucket = boto3.client("s3", region_name=REGION)
    bucket.put_object(Bucket="dev-checkpoints", Key=f"{name}/step-1.pt", Body=b"saved")
    return name


def test_a_killed_resumption_is_gone_on_with(aws: Emulated) -> None:
    earlier = ended(aws.backend, aws.plan_of(checkpoint={}))
    start = Start(aws.backend)
    first = plan_resumption(start, earlier, REGION)

    def send(plan: TrainingPlan) -> str:
        aws.backend.resume(earlier, plan.request or {})
        raise _Killed

    with pytest.raises(_Killed):
        start.once(first.plan, send)
    again = plan_resumption(start, earlier, REGION)
    assert again.begun is not None
    assert again.run().name == first.name
    assert names(aws.script) == [earlier, first.name]
    assert entries() == []


def test_one_run_resumes_a_job_once(aws: Emulated) -> None:
    earlier = ended(aws.backend, aws.plan_of(checkpoint={}))
    resumed = [plan_resumption(Start(aws.backend, "nightly-7"), earlier, REGION).run().name for _ in range(2)]
    assert resumed[0] == resumed[1]
    assert names(aws.script) == [earlier, resumed[0]]


def test_after_a_finished_resumption_another_one_is_another_job(aws: Emulated) -> None:
    earlier = ended(aws.backend, aws.plan_of(checkpoint={}))
    resumed = [plan_resumption(Start(aws.backend), earlier, REGION).run().name for _ in range(2)]
    assert names(aws.script) == [earlier, *resumed]
    assert len(set(resumed)) == 2
