"""AWS Batch's queues of SageMaker training jobs, which moto does not know.

Each DescribeServiceJob moves a job one step on, as the emulated training jobs do. The emulation answers a
client in place of the network, after botocore has checked what was asked; or what comes over a network.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError

PAGE_JOBS = 2
NAMES = ("SubmitServiceJob", "ListServiceJobs", "DescribeServiceJob", "TerminateServiceJob")
OPERATIONS = {f"/v1/{name.lower()}": name for name in NAMES}
"""The operations by their paths."""
STATUS_OF = {"InProgress": "RUNNING", "Completed": "SUCCEEDED", "Failed": "FAILED", "Stopped": "FAILED"}


@dataclass
class EmulatedQueue:
    """One queue; `room` says whether a job may leave it. `training` is boto3's client for SageMaker."""

    arn: str
    training: Any
    room: bool = True
    shares: bool = False
    retry_on: str = "InternalServerError"
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def attach(self, client: Any) -> Any:
        """Let a client of AWS Batch talk to this queue; returns the client."""
        self.answer(client.meta.events)
        return client

    def answer(self, events: Any) -> None:
        """Answer the clients whose events these are; those of a session are all that it makes after this."""
        for operation, answer in self._answers().items():
            events.register(f"provide-client-params.batch.{operation}", self._remember)
            events.register(f"before-call.batch.{operation}", _answering(self, answer))

    def over_http(self, path: str, body: bytes) -> tuple[int, dict[str, Any]] | None:
        """Status and document of the answer to a call as it comes over the network; None for other calls."""
        if path not in OPERATIONS:
            return None
        answer = self._answers()[OPERATIONS[path]]
        try:
            return 200, answer(json.loads(body))
        except ClientError as refused:
            error = refused.response["Error"]
            return 400, {"__type": error["Code"], "message": error["Message"]}

    def _answers(self) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
        answers = (self._submit, self._list, self._describe, self._terminate)
        return dict(zip(OPERATIONS.values(), answers, strict=True))

    def _remember(self, params: dict[str, Any], **_: Any) -> None:
        self._asked = params

    def _submit(self, asked: dict[str, Any]) -> dict[str, Any]:
        if bool(asked.get("shareIdentifier")) != self.shares:
            raise _refused("SubmitServiceJob", "a share goes with a fair-share queue, and only with one")
        for job in self.jobs.values():
            if job["clientToken"] == asked["clientToken"]:
                raise _refused("SubmitServiceJob", "a request with this client token was received")
        job_id = str(uuid.uuid4())
        self.jobs[job_id] = {**asked, "jobId": job_id, "status": "SUBMITTED", "attempts": []}
        self.jobs[job_id]["createdAt"] = 1_790_000_000_000 + len(self.jobs)
        return {"jobId": job_id, "jobName": asked["jobName"]}

    def _list(self, asked: dict[str, Any]) -> dict[str, Any]:
        condition = asked["filters"][0]
        value = condition["values"][0]
        if condition["name"] == "JOB_NAME":
            found = [job for job in self.jobs.values() if job["jobName"].lower() == value.lower()]
        else:
            found = [job for job in self.jobs.values() if job["createdAt"] > int(value)]
        found.sort(key=lambda job: job["createdAt"], reverse=True)
        start = int(asked.get("nextToken", 0))
        page = {"jobSummaryList": [_summary(job) for job in found[start : start + PAGE_JOBS]]}
        more = start + PAGE_JOBS < len(found)
        return {**page, "nextToken": str(start + PAGE_JOBS)} if more else page

    def _describe(self, asked: dict[str, Any]) -> dict[str, Any]:
        job = self.jobs[asked["jobId"]]
        if not job.get("isTerminated") and job["status"] not in ("SUCCEEDED", "FAILED"):
            self._move(job)
        return job

    def _terminate(self, asked: dict[str, Any]) -> dict[str, Any]:
        job = self.jobs[asked["jobId"]]
        job |= {"isTerminated": True, "status": "FAILED", "statusReason": asked["reason"]}
        if job["attempts"]:
            # It may have ended just now.
            with suppress(ClientError):
                self.training.stop_training_job(TrainingJobName=_training_name(job["attempts"][-1]))
        return {}

    def _move(self, job: dict[str, Any]) -> None:
        if not job["attempts"]:
            if not self.room:
                job["status"] = "RUNNABLE"
                return
            self._start(job)
            return
        name = _training_name(job["attempts"][-1])
        described = self.training.describe_training_job(TrainingJobName=name)
        state = described["TrainingJobStatus"]
        reason = described.get("FailureReason", "")
        more = len(job["attempts"]) < job["retryStrategy"]["attempts"]
        if state == "Failed" and reason.startswith(self.retry_on) and more:
            self._start(job)
            return
        job["status"] = STATUS_OF.get(state, "RUNNING")
        if state == "Failed":
            job["statusReason"] = f"Received status from SageMaker: {reason}"

    def _start(self, job: dict[str, Any]) -> None:
        request = json.loads(job["serviceRequestPayload"])
        # Batch's service-linked role may create no other names.
        request["TrainingJobName"] = f"AWSBatch{request['TrainingJobName'][:20]}{uuid.uuid4().hex}"
        arn = self.training.create_training_job(**request)["TrainingJobArn"]
        job["attempts"].append({"serviceResourceId": {"name": "TrainingJobArn", "value": arn}})
        job["latestAttempt"] = job["attempts"][-1]
        job["status"] = "SCHEDULED"


def _summary(job: dict[str, Any]) -> dict[str, Any]:
    keys = ("jobId", "jobName", "status", "serviceJobType", "createdAt", "isTerminated")
    return {key: job[key] for key in keys if key in job}


def _training_name(attempt: dict[str, Any]) -> str:
    return str(attempt["serviceResourceId"]["value"].rpartition("/")[2])


def _answering(queue: EmulatedQueue, answer: Any) -> Any:
    def handle(**_: Any) -> tuple[AWSResponse, dict[str, Any]]:
        return AWSResponse("", 200, {}, None), answer(queue._asked)

    return handle


def _refused(operation: str, message: str) -> ClientError:
    return ClientError({"Error": {"Code": "ClientException", "Message": message}}, operation)
