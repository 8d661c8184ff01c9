"""Following through faults of AWS and the network: nothing lost, nothing twice, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from moto import mock_aws

from launcher.aws.clients import FOLLOWING, Clients
from launcher.backends.interface import JobState, JobStatus, LogLine
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.failure_modes.model import AwsRefusal
from launcher.session.runs.follow_job import Follower, Pace
from tests.emulator.account import use_test_keys
from tests.emulator.faults import (
    DENIED,
    EXPIRED,
    HANG,
    INTERNAL,
    ODD,
    PAGE_500,
    RESET,
    SKEWED,
    SLOW_DOWN,
    THROTTLED,
    Fault,
    inject,
)
from tests.emulator.sagemaker import TrainingScript, emulated_training

REGION = "us-west-2"
NAME = "digits-0unique"
LINES = {f"algo-{host}": [f"{host}: line {number}" for number in range(40)] for host in (1, 2, 3)}
PASSING = [THROTTLED, SLOW_DOWN, INTERNAL, PAGE_500, RESET, HANG, SKEWED, *ODD]


class Recorder:
    def __init__(self) -> None:
        self.lines_shown: list[LogLine] = []
        self.troubles: list[str | None] = []

    def status(self, status: JobStatus) -> None:
        self.last = status

    def lines(self, lines: Sequence[LogLine]) -> None:
        self.lines_shown += lines

    def trouble(self, text: str | None) -> None:
        self.troubles.append(text)


class Followed:
    """A job of three hosts on emulated SageMaker, its clients without retries of their own."""

    def __init__(self, script: TrainingScript) -> None:
        script.logs = LINES
        self.clients = {name: self.client(name) for name in ("sagemaker", "logs", "s3")}
        self.renewals = 0
        self.waits: list[float] = []
        self.shown = Recorder()
        self.backend = SageMakerBackend(**self.clients, renewed=self.renewed)
        self.clients["sagemaker"].create_training_job(
            TrainingJobName=NAME,
            AlgorithmSpecification={"TrainingImage": "image", "TrainingInputMode": "File"},
            RoleArn="arn:aws:iam::111122223333:role/training",
            OutputDataConfig={"S3OutputPath": "s3://bucket/"},
            ResourceConfig={"InstanceType": "ml.m5.xlarge", "InstanceCount": 3, "VolumeSizeInGB": 1},
            StoppingCondition={"MaxRuntimeInSeconds": 60},
        )

    def client(self, name: str) -> Any:
        return Clients()(name, REGION, replace(FOLLOWING, attempts=1))

    def renewed(self) -> tuple[Any, ...]:
        self.renewals += 1
        return tuple(self.client(name) for name in ("sagemaker", "logs", "s3"))

    def faults(self, operation: str, *faults: Fault | None) -> None:
        service = "sagemaker" if "TrainingJob" in operation else "logs"
        inject(self.clients[service], operation, *faults)

    def follow(self, **pace: float) -> JobStatus:
        calm = Pace(end_reads=2, sleep=self.waits.append, **pace)  # type: ignore[arg-type]
        return Follower(self.backend, NAME, self.shown, calm).until_end()

    def assert_all_shown_once(self) -> None:
        for host, texts in LINES.items():
            assert [line.text for line in self.shown.lines_shown if line.host == host] == texts
        times = [line.time for line in self.shown.lines_shown]
        assert times == sorted(times)


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Followed]:
    use_test_keys(monkeypatch)
    # Throttled clients make fewer calls a second: what they wait for is tested with the clients.
    monkeypatch.setattr("botocore.retries.bucket.TokenBucket.acquire", lambda *_, **__: None)
    with mock_aws(), emulated_training(TrainingScript()) as script:
        yield Followed(script)


@pytest.mark.few_cases(every=7)
@pytest.mark.parametrize("operation", ["DescribeTrainingJob", "DescribeLogStreams", "GetLogEvents"])
@pytest.mark.parametrize("fault", PASSING, ids=lambda fault: fault.name)
def test_a_fault_that_passes_loses_nothing(followed: Followed, operation: str, fault: Fault) -> None:
    followed.faults(operation, None, fault, fault, None, fault)
    assert followed.follow().state is JobState.COMPLETED
    followed.assert_all_shown_once()
    assert followed.shown.troubles[0]
    assert followed.shown.troubles[-1] is None


def test_one_stream_of_three_that_is_throttled_comes_later_and_the_others_not_again(
    followed: Followed,
) -> None:
    followed.faults("GetLogEvents", None, THROTTLED, None, None, THROTTLED)
    followed.follow()
    followed.assert_all_shown_once()


def test_a_network_that_is_gone_for_minutes_is_waited_out(followed: Followed) -> None:
    followed.faults("DescribeTrainingJob", None, None, *[RESET] * 12)
    assert followed.follow().state is JobState.COMPLETED
    followed.assert_all_shown_once()
    assert sum(followed.waits) > 180
    assert any("minutes" in (text or "") for text in followed.shown.troubles)


def test_a_network_that_does_not_come_back_ends_with_what_is_true_of_the_job(followed: Followed) -> None:
    followed.faults("DescribeTrainingJob", None, *[RESET] * 1000)
    with pytest.raises(AwsRefusal, match=rf"The job goes on.*launch logs {NAME} --follow"):
        followed.follow(outage=300)
    assert 300 <= sum(followed.waits[1:]) < 400


@pytest.mark.few_cases(every=2)
@pytest.mark.parametrize("operation", ["DescribeTrainingJob", "DescribeLogStreams", "GetLogEvents"])
def test_expired_credentials_are_renewed_and_following_goes_on(followed: Followed, operation: str) -> None:
    followed.faults(operation, None, EXPIRED, EXPIRED, EXPIRED)
    assert followed.follow().state is JobState.COMPLETED
    followed.assert_all_shown_once()
    assert followed.renewals == 1
    assert any("expired" in (text or "") for text in followed.shown.troubles)


def test_credentials_that_nobody_renews_end_with_3_and_leave_the_job(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed.faults("DescribeTrainingJob", None, *[EXPIRED] * 1000)
    monkeypatch.setattr(followed, "client", followed.clients.__getitem__)
    with pytest.raises(AwsRefusal, match="The job goes on") as refused:
        followed.follow(renewal=120)
    assert refused.value.exit_code == 3


def test_a_denied_call_is_no_reason_to_wait(followed: Followed) -> None:
    followed.faults("GetLogEvents", DENIED)
    with pytest.raises(AwsRefusal, match=r"AccessDenied.*The job goes on"):
        followed.follow()
    assert [text for text in followed.shown.troubles if text] == []


def test_a_laptop_that_slept_only_looks_later(followed: Followed) -> None:
    # Only waits count towards the bounds, and a wait that lasted a night was still one wait.
    followed.faults("DescribeTrainingJob", None, RESET, None, RESET)
    assert followed.follow(outage=10).state is JobState.COMPLETED
    followed.assert_all_shown_once()


def test_an_interruption_in_the_middle_of_reading_loses_nothing(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: Callable[..., Any] = followed.backend.read_logs
    presses = [KeyboardInterrupt(), KeyboardInterrupt()]

    def interrupted(name: str, cursor: Any) -> Any:
        batch = read(name, cursor)
        if batch.lines and presses:
            raise presses.pop()
        return batch

    monkeypatch.setattr(followed.backend, "read_logs", interrupted)
    follower = Follower(followed.backend, NAME, followed.shown, Pace(sleep=followed.waits.append))
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            follower.until_end()
    follower.until_end()
    followed.assert_all_shown_once()


@pytest.mark.few_cases(every=4)
@pytest.mark.parametrize("fault", [RESET, HANG, THROTTLED, EXPIRED, *ODD], ids=lambda fault: fault.name)
def test_a_look_waits_for_nothing_that_passes(followed: Followed, fault: Fault) -> None:
    followed.faults("DescribeTrainingJob", *[fault] * 1000)
    with pytest.raises(AwsRefusal) as refused:
        Follower(followed.backend, NAME, followed.shown, Pace(sleep=followed.waits.append)).what_is_there()
    assert refused.value.exit_code == 3
    assert followed.waits == []
