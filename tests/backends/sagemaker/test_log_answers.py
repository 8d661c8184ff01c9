"""Log events as they stand in the answer, and everything else as botocore has it."""

from __future__ import annotations

import io
import json
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError

from launcher.backends.sagemaker.log_answers import take_events_as_they_come

EVENTS = [
    {"timestamp": 7, "message": "caf\u00e9 \U0001f600", "ingestionTime": 9},
    {"timestamp": 8, "message": ""},
]


class _Body(io.BytesIO):
    def stream(self, **_: Any) -> Any:
        yield self.read()


def client(body: bytes, status: int = 200, *, quick: bool = True) -> Any:
    """A client that gets this answer to every call."""
    logs = boto3.client(
        "logs", region_name="us-west-2", aws_access_key_id="testing", aws_secret_access_key="testing"
    )
    logs.meta.events.register(
        "before-send.cloudwatch-logs.*",
        lambda request, **_: AWSResponse(request.url, status, {"x-amzn-RequestId": "1"}, _Body(body)),
    )
    if quick:
        take_events_as_they_come(logs)
    return logs


def read(logs: Any) -> dict[str, Any]:
    answer: dict[str, Any] = logs.get_log_events(logGroupName="group", logStreamName="stream")
    return answer


@pytest.mark.parametrize(
    "answer",
    [
        {"events": EVENTS, "nextForwardToken": "f/1", "nextBackwardToken": "b/1"},
        {"events": [], "nextForwardToken": "f/1"},
        {"nextForwardToken": "f/1"},
        {"events": None},
        [],
    ],
    ids=["full", "empty", "without events", "null", "no object"],
)
def test_an_answer_is_the_same_as_by_botocore(answer: Any) -> None:
    body = json.dumps(answer).encode()
    if not isinstance(answer, dict):
        with pytest.raises(AttributeError):
            read(client(body, quick=False))
        with pytest.raises(AttributeError):
            read(client(body))
        return
    assert read(client(body)) == read(client(body, quick=False))


def test_events_are_not_walked_through() -> None:
    event = {"timestamp": 7, "message": "text", "unknown to botocore": 1}
    assert read(client(json.dumps({"events": [event]}).encode()))["events"] == [event]


def test_an_error_keeps_its_code() -> None:
    body = json.dumps({"__type": "ThrottlingException", "message": "Rate exceeded", "events": []}).encode()
    with pytest.raises(ClientError, match="Rate exceeded") as error:
        read(client(body, 400))
    assert error.value.response["Error"]["Code"] == "ThrottlingException"


def test_what_is_not_json_is_left_to_botocore() -> None:
    assert read(client(b"<html>")).keys() == read(client(b"<html>", quick=False)).keys()


def test_other_calls_are_left_alone() -> None:
    logs = client(json.dumps({"logStreams": [{"logStreamName": "a", "unknown": 1}]}).encode())
    assert logs.describe_log_streams(logGroupName="group")["logStreams"] == [{"logStreamName": "a"}]
