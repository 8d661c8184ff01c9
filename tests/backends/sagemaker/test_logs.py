"""Reading many streams: merged by time, page by page, from any cursor, with few calls."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError
from botocore.hooks import HierarchicalEmitter

from launcher.backends.interface import JobState, JobStatus, LogLine
from launcher.backends.sagemaker import logs as logs_module
from launcher.backends.sagemaker.logs import LogStreams, take_events_as_they_come


class _Exceptions:
    class ResourceNotFoundException(Exception):
        pass


class Service:
    """CloudWatch Logs with pages of its own size; counts the calls."""

    exceptions = _Exceptions
    meta = SimpleNamespace(events=HierarchicalEmitter())

    def __init__(self, page: int = 10_000) -> None:
        self.page = page
        self.streams: dict[str, list[tuple[int, str]]] = {}
        self.calls: list[str] = []
        self.empty_pages: set[tuple[str, int]] = set()
        self.cut: dict[str, int] = {}

    def put(self, host: str, *events: tuple[int, str], started: int = 1) -> None:
        self.streams.setdefault(f"job/{host}-{started}", []).extend(events)

    def get_paginator(self, operation: str) -> Any:
        self.calls.append(operation)
        return self

    def paginate(self, **_: Any) -> list[dict[str, Any]]:
        return [{"logStreams": [{"logStreamName": name} for name in self.streams]}]

    def get_log_events(self, limit: int, **asked: Any) -> dict[str, Any]:
        stream, token = asked["logStreamName"], asked.get("nextToken", "f/0")
        self.calls.append(stream)
        start = int(token.split("/")[1])
        if (stream, start) in self.empty_pages and not token.endswith("/again"):
            return {"events": [], "nextForwardToken": f"f/{start}/again"}
        found = self.streams[stream][start : start + min(limit, self.cut.get(stream, self.page))]
        events = [{"timestamp": time, "message": text} for time, text in found]
        return {"events": events, "nextForwardToken": f"f/{start + len(found)}" if found else token}


def reader(service: Service, clock: Callable[[], float] = lambda: 0.0) -> LogStreams:
    return LogStreams(service, "job", clock=clock)


def all_of(source: LogStreams, cursor: Any = None) -> list[LogLine]:
    lines: list[LogLine] = []
    cursor = cursor or {}
    while True:
        batch = source.read(cursor)
        if not batch.lines:
            return lines
        lines += batch.lines
        cursor = batch.cursor


def filled(hosts: int, lines: int, page: int = 10_000) -> Service:
    service = Service(page)
    for host in range(1, hosts + 1):
        service.put(f"algo-{host}", *((1000 * n + host, f"{host}:{n}") for n in range(lines)))
    return service


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs_module, "_HELD_LINES", 60)
    monkeypatch.setattr(logs_module, "_BATCH_LINES", 20)


def test_streams_of_many_pages_are_merged_in_the_order_of_time(small_pages: None) -> None:
    service = filled(hosts=5, lines=200)
    lines = all_of(reader(service))
    assert [line.text for line in lines] == [f"{host}:{n}" for n in range(200) for host in range(1, 6)]


def test_streams_of_different_speed_are_merged_in_the_order_of_time(small_pages: None) -> None:
    service = Service()
    service.put("algo-1", *((n, f"fast {n}") for n in range(500)))
    service.put("algo-2", *((n * 100, f"slow {n}") for n in range(5)))
    service.put("algo-3", *((400 + n, f"late {n}") for n in range(300)))
    times = [line.time for line in all_of(reader(service))]
    assert times == sorted(times)
    assert len(times) == 805


def test_lines_of_one_millisecond_keep_their_order() -> None:
    service = Service()
    texts = [f"traceback {n}" for n in range(50)]
    service.put("algo-1", *((7, text) for text in texts))
    assert [line.text for line in all_of(reader(service))] == texts


def test_reading_goes_on_from_any_cursor_in_another_process(small_pages: None) -> None:
    service = filled(hosts=3, lines=100)
    first, cursor, lines = reader(service), {}, []
    for _ in range(3):
        batch = first.read(cursor)
        lines, cursor = [*lines, *batch.lines], batch.cursor
    lines += all_of(reader(service), cursor)
    assert [line.text for line in lines] == [f"{host}:{n}" for n in range(100) for host in range(1, 4)]


def test_reading_goes_on_also_where_pages_have_become_smaller(small_pages: None) -> None:
    service = filled(hosts=2, lines=100)
    batch = reader(service).read({})
    service.page = 3
    lines = [*batch.lines, *all_of(reader(service), batch.cursor)]
    assert sorted(line.text for line in lines) == sorted(f"{h}:{n}" for n in range(100) for h in (1, 2))


def test_an_empty_page_is_not_the_end_of_a_stream() -> None:
    service = filled(hosts=1, lines=10)
    service.empty_pages.add(("job/algo-1-1", 0))
    assert len(all_of(reader(service))) == 10


def test_a_page_that_is_cut_by_its_bytes_is_not_the_end_of_a_stream() -> None:
    service = Service(page=4_000)
    service.put("algo-1", *((n, "\u20ac" * 50) for n in range(8_000)))
    service.put("algo-2", *((n, "short") for n in range(0, 8_000, 4)))
    times = [line.time for line in all_of(reader(service))]
    assert len(times) == 10_000
    assert times == sorted(times)


def test_a_page_that_is_cut_before_it_is_full_is_not_the_end_of_a_stream(small_pages: None) -> None:
    service = filled(hosts=1, lines=60)
    service.put("algo-2", *((n, f"cut {n}") for n in range(15)))
    service.cut["job/algo-2-1"] = 5
    lines = all_of(reader(service))
    assert [line.text for line in lines if line.host == "algo-2"] == [f"cut {n}" for n in range(15)]
    assert len(lines) == 75


def test_reading_begins_anew_where_an_empty_cursor_is_given(small_pages: None) -> None:
    service = filled(hosts=2, lines=40)
    service.put("algo-3", (1, "short"))
    source = reader(service)
    source.read({})
    lines = all_of(source)
    assert len(lines) == 81
    assert [line.time for line in lines] == sorted(line.time for line in lines)


def test_a_quiet_job_costs_one_call_a_stream_and_no_look_for_streams() -> None:
    service = filled(hosts=4, lines=10)
    source = reader(service)
    source.note_status(JobStatus("job", JobState.IN_PROGRESS, "Training", hosts=4))
    cursor = source.read({}).cursor
    service.calls.clear()
    assert source.read(cursor).lines == []
    assert sorted(service.calls) == sorted(service.streams)


def test_a_host_that_starts_late_or_is_replaced_is_found() -> None:
    service = filled(hosts=1, lines=2)
    now = [0.0]
    source = reader(service, lambda: now[0])
    source.note_status(JobStatus("job", JobState.IN_PROGRESS, "Training", hosts=2))
    cursor = source.read({}).cursor
    service.put("algo-2", (5, "late"))
    now[0] = 5
    batch = source.read(cursor)
    service.put("algo-2", (9, "replaced"), started=2)
    now[0] = 70
    again = source.read(batch.cursor)
    seen = [(line.host, line.text) for line in (*batch.lines, *again.lines)]
    assert seen == [("algo-2", "late"), ("algo-2", "replaced")]


def test_the_last_look_finds_a_stream_that_came_at_the_end() -> None:
    service = filled(hosts=1, lines=1)
    source = reader(service)
    source.note_status(JobStatus("job", JobState.IN_PROGRESS, "Training", hosts=2))
    cursor = source.read({}).cursor
    service.put("algo-2", (5, "the traceback"))
    source.note_status(JobStatus("job", JobState.FAILED, "Failed", hosts=2))
    assert [line.text for line in source.read(cursor).lines] == ["the traceback"]


def test_what_the_agent_of_a_remote_shell_prints_is_not_the_jobs() -> None:
    service = Service()
    service.put("algo-1", (1, "step 1"))
    service.streams["job/algo-1-1/ssm"] = [(1, "ERROR the agent cannot reach ssmmessages")]
    assert [(line.host, line.text) for line in all_of(reader(service))] == [("algo-1", "step 1")]


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
        for quick in (False, True):
            with pytest.raises(AttributeError):
                read(client(body, quick=quick))
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
