"""moto's SageMaker with what it lacks: a life cycle, refused duplicates, failures, stop, logs, lists, tags.

Each DescribeTrainingJob moves a job one step on, so that tests need no clock; `finish` lets it end at once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from unittest import mock

import boto3
from moto.core.exceptions import JsonRESTError
from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.sagemaker.responses import SageMakerResponse

LOG_GROUP = "/aws/sagemaker/TrainingJobs"

_describe = SageMakerResponse.describe_training_job
_create = SageMakerResponse.create_training_job
_LIST_PAGE = 10
"""Summaries of one answer where the caller does not say (ListTrainingJobs, MaxResults)."""


@dataclass(frozen=True)
class Ending:
    """How one emulated job goes; as in `TrainingScript`, and for how many seconds each host is billed."""

    failure_reason: str | None = None
    logs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    stopped_as: str | None = None
    billable_seconds: int = 600


@dataclass
class TrainingScript:
    """How emulated jobs go: what their hosts print, and how they end."""

    logs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    failure_reason: str | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)
    """The requests that were received, as they came."""

    updates: list[dict[str, Any]] = field(default_factory=list)
    """What UpdateTrainingJob was asked."""

    phases: Sequence[str] = ("Downloading", "Training", "Uploading")
    """Between Starting and the end."""

    stopped_as: str | None = None
    """The secondary status with which they are stopped after these phases, such as MaxRuntimeExceeded."""

    last_words: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What their hosts print when they are being stopped."""

    endings: list[Ending] = field(default_factory=list)
    """How jobs go in the order in which they are created; those without an ending go as all others do."""

    moves_when_described: bool = True
    """Off, for jobs that end only when they are told to."""

    _endings: dict[str, Ending] = field(default_factory=dict)
    _steps: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    _states: dict[str, tuple[str, str]] = field(default_factory=dict)
    _transitions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _created: dict[str, datetime] = field(default_factory=dict)
    _printed: set[tuple[str, str]] = field(default_factory=set)

    def create(self, request: dict[str, Any]) -> None:
        name = request["TrainingJobName"]
        if name in self._steps:
            raise JsonRESTError("ResourceInUse", f"Training job names must be unique: {name}")
        if self.endings:
            self._endings[name] = self.endings.pop(0)
        ending = self._ending(name)
        end = "Failed" if ending.failure_reason else "Completed"
        stopped = ending.stopped_as
        ends = [("Stopping", "Stopping"), ("Stopped", stopped)] if stopped else [(end, end)]
        self.requests.append(request)
        self._states[name] = ("InProgress", "Starting")
        self._created[name] = utcnow()
        self._transitions[name] = [_transition("Starting", self._created[name])]
        self._steps[name] = [*(("InProgress", phase) for phase in self.phases), *ends]

    def _ending(self, name: str) -> Ending:
        """How a job goes: as it was told, or as all others do now."""
        return self._endings.get(name) or Ending(self.failure_reason, self.logs, self.stopped_as)

    def add_ended(self, name: str, state: str, created: datetime) -> None:
        """A job of long ago that is only there to be listed."""
        self.requests.append({"TrainingJobName": name})
        self._states[name], self._steps[name] = (state, state), []
        self._created[name] = created
        self._transitions[name] = [_transition(state, created)]

    def describe(self, name: str) -> dict[str, Any]:
        request = self._request(name)
        state, phase = self._states[name]
        transitions = [dict(each) for each in self._transitions[name]]
        if self._steps[name] and self.moves_when_described:
            self._move(name)
        described = {
            "TrainingJobStatus": state,
            "SecondaryStatus": phase,
            "SecondaryStatusTransitions": transitions,
            "CreationTime": self._created[name],
        }
        if pool := self._warm_pool(name):
            described["WarmPoolStatus"] = {"Status": pool}
        if state == "Failed":
            described["FailureReason"] = self._ending(name).failure_reason or ""
        if state in _FINAL and "StoppingCondition" in request:
            longest = request["StoppingCondition"].get("MaxRuntimeInSeconds", 86_400)
            described["BillableTimeInSeconds"] = min(self._ending(name).billable_seconds, longest)
        # moto says of every job that it has ended, and puts a metric of its own beside the job's.
        described["TrainingEndTime"] = transitions[-1]["StartTime"] if state in _FINAL else None
        return {
            **described,
            "Environment": request.get("Environment", {}),
            "AlgorithmSpecification": request.get("AlgorithmSpecification", {}),
            **({"RetryStrategy": request["RetryStrategy"]} if "RetryStrategy" in request else {}),
        }

    def state_of(self, name: str) -> str:
        """How a job is, in the service's word; nothing moves by this."""
        return self._states[name][0]

    def finish(self, name: str) -> None:
        """Let a job go to its end."""
        while self._steps[name]:
            self._move(name)

    def list(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """As the service does: filtered, then sorted, then cut into pages."""
        found = [request["TrainingJobName"] for request in self.requests]
        if "NameContains" in asked:
            found = [name for name in found if asked["NameContains"] in name]
        if "StatusEquals" in asked:
            found = [name for name in found if self._states[name][0] == asked["StatusEquals"]]
        if "CreationTimeAfter" in asked:
            after = asked["CreationTimeAfter"]
            found = [name for name in found if self._created[name].timestamp() > after]
        keys = {
            "Name": lambda name: name,
            "CreationTime": lambda name: self._created[name],
            "Status": lambda name: self._states[name][0],
        }
        found.sort(
            key=keys[asked.get("SortBy", "CreationTime")],
            reverse=asked.get("SortOrder", "Ascending") == "Descending",
        )
        start, size = int(asked.get("NextToken", 0)), asked.get("MaxResults", _LIST_PAGE)
        page = {"TrainingJobSummaries": [self._summary(name) for name in found[start : start + size]]}
        return {**page, "NextToken": str(start + size)} if start + size < len(found) else page

    def stop(self, name: str) -> None:
        if name not in self._states:
            raise JsonRESTError("ResourceNotFound", "Requested resource not found.")
        state = self._states[name][0]
        if state != "InProgress":
            message = f"The request was rejected because the training job is in status {state}."
            raise JsonRESTError("ValidationException", message)
        self._steps[name] = [("Stopping", "Stopping"), ("Stopped", "Stopped")]

    def update(self, asked: dict[str, Any]) -> None:
        if asked.get("ResourceConfig") and self._warm_pool(asked["TrainingJobName"]) == "Terminated":
            raise JsonRESTError("ValidationException", "The warm pool of the training job is Terminated.")
        self.updates.append(asked)

    def _warm_pool(self, name: str) -> str | None:
        """How the hosts are that a job keeps, if it keeps any (SageMaker API reference, WarmPoolStatus)."""
        if not self._request(name).get("ResourceConfig", {}).get("KeepAlivePeriodInSeconds"):
            return None
        asked = [each for each in self.updates if each["TrainingJobName"] == name]
        ended = any(each.get("ResourceConfig", {}).get("KeepAlivePeriodInSeconds") == 0 for each in asked)
        return "Terminated" if ended else "Available" if self._states[name][0] in _FINAL else "InUse"

    def _request(self, name: str) -> dict[str, Any]:
        return next(r for r in self.requests if r["TrainingJobName"] == name)

    def _summary(self, name: str) -> dict[str, Any]:
        state, phase = self._states[name]
        last = self._transitions[name][-1]["StartTime"]
        return {
            "TrainingJobName": name,
            "TrainingJobArn": _arn(name),
            "CreationTime": self._created[name],
            "LastModifiedTime": last,
            "TrainingJobStatus": state,
            "SecondaryStatus": phase,
            **({"TrainingEndTime": last + timedelta(minutes=5)} if state in _FINAL else {}),
        }

    def _move(self, name: str) -> None:
        self._states[name] = self._steps[name].pop(0)
        state, phase = self._states[name]
        now = utcnow()
        self._transitions[name][-1]["EndTime"] = now
        self._transitions[name].append(_transition(phase, now))
        if state in _FINAL:
            self._transitions[name][-1]["EndTime"] = now
        if phase in ("Training", "Stopping") and (name, phase) not in self._printed:
            self._printed.add((name, phase))
            self._print(name, self._ending(name).logs if phase == "Training" else self.last_words)

    def _print(self, name: str, printed: Mapping[str, Sequence[str]]) -> None:
        logs = boto3.client("logs", region_name="us-west-2")
        for host, lines in printed.items():
            stream = f"{name}/{host}-1790000000"
            if not logs.describe_log_groups(logGroupNamePrefix=LOG_GROUP)["logGroups"]:
                logs.create_log_group(logGroupName=LOG_GROUP)
            with suppress(logs.exceptions.ResourceAlreadyExistsException):
                logs.create_log_stream(logGroupName=LOG_GROUP, logStreamName=stream)
            # CloudWatch Logs drops what is older than 14 days without a word, and so does moto.
            now = int(time.time() * 1000)
            events = [{"timestamp": now + n, "message": text} for n, text in enumerate(lines)]
            logs.put_log_events(logGroupName=LOG_GROUP, logStreamName=stream, logEvents=events)


_FINAL = ("Completed", "Failed", "Stopped")


def _arn(name: str) -> str:
    return f"arn:aws:sagemaker:us-west-2:123456789012:training-job/{name}"


def _transition(phase: str, started: datetime) -> dict[str, Any]:
    return {"Status": phase, "StartTime": started, "StatusMessage": f"{phase} the training job"}


@contextmanager
def emulated_training(script: TrainingScript) -> Iterator[TrainingScript]:
    """Within this, training jobs in moto follow the script. Use inside `mock_aws`."""

    def create(response: SageMakerResponse) -> Any:
        script.create(json.loads(response.body))
        return _create(response)

    def describe(response: SageMakerResponse) -> Any:
        described = _describe(response).result
        return ActionResult({**described, **script.describe(described["TrainingJobName"])})

    def list_jobs(response: SageMakerResponse) -> Any:
        return ActionResult(script.list(json.loads(response.body)))

    def stop(response: SageMakerResponse) -> Any:
        script.stop(json.loads(response.body)["TrainingJobName"])
        return ActionResult({})

    def update(response: SageMakerResponse) -> Any:
        asked = json.loads(response.body)
        script.update(asked)
        return ActionResult({"TrainingJobArn": _arn(asked["TrainingJobName"])})

    with (
        mock.patch.object(SageMakerResponse, "create_training_job", create),
        mock.patch.object(SageMakerResponse, "update_training_job", update, create=True),
        mock.patch.object(SageMakerResponse, "describe_training_job", describe),
        mock.patch.object(SageMakerResponse, "list_training_jobs", list_jobs),
        mock.patch.object(SageMakerResponse, "stop_training_job", stop, create=True),
    ):
        yield script
