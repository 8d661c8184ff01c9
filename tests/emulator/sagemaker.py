"""moto's SageMaker with what it lacks: a life cycle, refused duplicates, failures, stop, logs.

Each DescribeTrainingJob moves a job one step on, so that tests need no clock.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import boto3
from moto.core.exceptions import JsonRESTError
from moto.core.responses import ActionResult
from moto.sagemaker.responses import SageMakerResponse

LOG_GROUP = "/aws/sagemaker/TrainingJobs"

_describe = SageMakerResponse.describe_training_job
_create = SageMakerResponse.create_training_job


@dataclass
class TrainingScript:
    """How emulated jobs go: what their hosts print, and how they end."""

    logs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    failure_reason: str | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)
    """The requests that were received, as they came."""

    _steps: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    _states: dict[str, tuple[str, str]] = field(default_factory=dict)

    def create(self, request: dict[str, Any]) -> None:
        name = request["TrainingJobName"]
        if name in self._steps:
            raise JsonRESTError("ResourceInUse", f"Training job names must be unique: {name}")
        end = "Failed" if self.failure_reason else "Completed"
        self.requests.append(request)
        self._states[name] = ("InProgress", "Starting")
        self._steps[name] = [
            *(("InProgress", phase) for phase in ("Downloading", "Training", "Uploading")),
            (end, end),
        ]

    def describe(self, name: str) -> dict[str, Any]:
        request = next(r for r in self.requests if r["TrainingJobName"] == name)
        state, phase = self._states[name]
        if self._steps[name]:
            self._states[name] = self._steps[name].pop(0)
            if self._states[name][1] == "Training":
                self._print(name)
        described = {"TrainingJobStatus": state, "SecondaryStatus": phase}
        if state == "Failed":
            described["FailureReason"] = self.failure_reason or ""
        return {**described, "Environment": request.get("Environment", {})}

    def stop(self, name: str) -> None:
        self._steps[name] = [("Stopping", "Stopping"), ("Stopped", "Stopped")]

    def _print(self, name: str) -> None:
        logs = boto3.client("logs", region_name="us-west-2")
        for host, lines in self.logs.items():
            stream = f"{name}/{host}-1790000000"
            if not logs.describe_log_groups(logGroupNamePrefix=LOG_GROUP)["logGroups"]:
                logs.create_log_group(logGroupName=LOG_GROUP)
            logs.create_log_stream(logGroupName=LOG_GROUP, logStreamName=stream)
            # CloudWatch Logs drops what is older than 14 days without a word, and so does moto.
            now = int(time.time() * 1000)
            events = [{"timestamp": now + n, "message": text} for n, text in enumerate(lines)]
            logs.put_log_events(logGroupName=LOG_GROUP, logStreamName=stream, logEvents=events)


@contextmanager
def emulated_training(script: TrainingScript) -> Iterator[TrainingScript]:
    """Within this, training jobs in moto follow the script. Use inside `mock_aws`."""

    def create(response: SageMakerResponse) -> Any:
        script.create(json.loads(response.body))
        return _create(response)

    def describe(response: SageMakerResponse) -> Any:
        described = _describe(response).result
        return ActionResult({**described, **script.describe(described["TrainingJobName"])})

    def stop(response: SageMakerResponse) -> Any:
        script.stop(json.loads(response.body)["TrainingJobName"])
        return ActionResult({})

    with (
        mock.patch.object(SageMakerResponse, "create_training_job", create),
        mock.patch.object(SageMakerResponse, "describe_training_job", describe),
        mock.patch.object(SageMakerResponse, "stop_training_job", stop, create=True),
    ):
        yield script
