"""What answers in place of AWS, or in part: an outage, never a crash and never a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from moto import mock_aws

from launcher.account.questions.ask_storage import fetch_bucket, fetch_prefix
from launcher.aws.clients import Clients
from launcher.aws.errors import Outage, answers, aws_errors
from launcher.aws.lookups import fetch_manifest, fetch_request
from launcher.aws.session import fetch_caller
from launcher.backends.interface import JobQuery
from launcher.backends.sagemaker.backend import list_jobs
from launcher.backends.sagemaker.logs import LogStreams
from launcher.failure_modes.model import AwsRefusal, Unreachable
from tests.emulator.account import use_test_keys
from tests.emulator.faults import (
    EMPTY,
    ODD,
    OTHER_JSON,
    PAGE_500,
    PORTAL,
    PORTAL_XHTML,
    REDIRECT,
    Fault,
    Faults,
    inject,
    no_backoff,
)

CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))

REGION = "us-west-2"

CALLS: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "query": ("sts", "GetCallerIdentity", lambda sts: sts.get_caller_identity()),
    "ec2": ("ec2", "DescribeSubnets", lambda ec2: ec2.describe_subnets()),
    "rest-xml": ("s3", "ListObjectsV2", lambda s3: s3.list_objects_v2(Bucket="bucket")),
    "headers only": ("s3", "HeadBucket", lambda s3: s3.head_bucket(Bucket="bucket")),
    "a stream": ("s3", "GetObject", lambda s3: s3.get_object(Bucket="bucket", Key="key")),
    "json": ("ssm", "GetParameter", lambda ssm: ssm.get_parameter(Name="name")),
    "json with required members": (
        "sagemaker", "DescribeTrainingJob", lambda made: made.describe_training_job(TrainingJobName="job"),
    ),
    "nothing to answer": (
        "sagemaker", "StopTrainingJob", lambda made: made.stop_training_job(TrainingJobName="job"),
    ),
    "rest-json": ("batch", "ListServiceJobs", lambda batch: batch.list_service_jobs(jobQueue="queue")),
}  # fmt: skip


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clients]:
    use_test_keys(monkeypatch)
    with mock_aws(), no_backoff():
        yield Clients()


def told(clients: Clients, protocol: str, *faults: Fault) -> tuple[Any, Callable[[Any], Any], Faults]:
    """A client of a protocol whose next answers are these, and what asks it."""
    service, operation, call = CALLS[protocol]
    client = clients(service, REGION)
    return client, call, inject(client, operation, *faults)


@pytest.mark.few_cases(every=5)
@pytest.mark.parametrize("fault", ODD, ids=lambda fault: fault.name)
@pytest.mark.parametrize("protocol", CALLS)
def test_an_odd_answer_is_no_answer_of_aws(clients: Clients, protocol: str, fault: Fault) -> None:
    client, call, _ = told(
        clients, protocol, *[fault] * 100
    )  # S3's clients try again where the body is no XML

    with pytest.raises(Unreachable, match=r"try it: .* not AWS") as refused, aws_errors("try it"):
        call(client)
    assert refused.value.exit_code == 3
    with pytest.raises(Outage), answers("try it"):
        call(client)


@pytest.mark.parametrize("protocol", CALLS)
def test_a_page_with_500_is_tried_again_and_then_an_outage(clients: Clients, protocol: str) -> None:
    client, call, faults = told(clients, protocol, *[PAGE_500] * 100)

    with pytest.raises(Outage, match="500"), answers("try it"):
        call(client)
    assert faults.calls == 6


@pytest.mark.parametrize("fault", [EMPTY, OTHER_JSON, PORTAL_XHTML], ids=lambda fault: fault.name)
def test_an_empty_listing_is_not_taken_for_an_empty_place(clients: Clients, fault: Fault) -> None:
    s3 = clients("s3", REGION)
    s3.create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": REGION})
    inject(s3, "ListObjectsV2", *[fault] * 6)

    with pytest.raises(Unreachable):
        fetch_prefix(s3, "s3://bucket/data")


@pytest.mark.parametrize(
    ("identity", "said"),
    [("<Arn>a</Arn>", "it has no Account"), ("<Account>1</Account><Arn>me</Arn>", "'me' is no ARN")],
)
def test_half_an_identity_and_one_that_is_no_arn_are_outages(
    clients: Clients, identity: str, said: str
) -> None:
    sts = clients("sts", REGION)
    body = f"<A><GetCallerIdentityResult>{identity}</GetCallerIdentityResult></A>".encode()
    inject(sts, "GetCallerIdentity", Fault("odd", 200, body=body))

    with pytest.raises(Unreachable, match=said):
        fetch_caller(sts)


def test_a_member_that_is_missing_while_following_is_waited_for(clients: Clients) -> None:
    sagemaker = clients("sagemaker", REGION)
    inject(sagemaker, "DescribeTrainingJob", Fault("half", 200, body=b'{"TrainingJobName": "job"}'))

    with pytest.raises(Outage), answers("try it"):
        sagemaker.describe_training_job(TrainingJobName="job")["TrainingJobStatus"]


PAGES = [
    Fault(f"{name} {status}", status, body=body)
    for status in (400, 403, 404)
    for name, body in (
        ("a page", PORTAL.body),
        ("a well-formed page", PORTAL_XHTML.body),
        ("nothing", b""),
        ("other JSON", b'{"message": "blocked by the proxy"}'),
        ("text", b"Forbidden"),
    )
]


@pytest.mark.few_cases(every=5)
@pytest.mark.parametrize("page", [*PAGES, REDIRECT], ids=lambda fault: fault.name)
@pytest.mark.parametrize("protocol", CALLS)
def test_a_proxys_page_is_no_refusal_of_aws(clients: Clients, protocol: str, page: Fault) -> None:
    client, call, _ = told(clients, protocol, *[page] * 100)

    with pytest.raises(Unreachable, match=str(page.status)), aws_errors("try it"):
        call(client)
    with pytest.raises(Outage), answers("try it"):
        call(client)


@pytest.mark.parametrize(("protocol", "code"), CASES["refusals"])
def test_a_refusal_with_a_code_is_awss_whether_the_model_knows_it_or_not(
    clients: Clients, protocol: str, code: str
) -> None:
    client, call, _ = told(clients, protocol, Fault(code, 400, code, "not you"))

    with (
        pytest.raises(AwsRefusal, match=f"AWS refused to try it: {code}: not you") as refused,
        aws_errors("try it"),
    ):
        call(client)
    assert not isinstance(refused.value, Unreachable)


@pytest.mark.parametrize("page", [*PAGES, REDIRECT], ids=lambda fault: fault.name)
def test_a_proxys_page_does_not_say_that_there_is_no_bucket(clients: Clients, page: Fault) -> None:
    s3 = clients("s3", REGION)
    inject(s3, "HeadBucket", *[page] * 100)

    with pytest.raises(Unreachable):
        fetch_bucket(s3, "bucket")


def test_an_answer_without_a_body_is_s3s_where_it_has_a_request_id(clients: Clients) -> None:
    s3 = clients("s3", REGION)
    answer = Fault("not there", 404, headers={"x-amz-request-id": "4442587FB7D0A2F9"})
    inject(s3, "HeadBucket", answer)

    assert fetch_bucket(s3, "bucket") is None
    assert fetch_bucket(s3, "bucket-that-moto-does-not-have") is None


LISTS = CASES["lists"]


@pytest.mark.parametrize("shape", LISTS)
def test_an_odd_shape_within_a_list_is_an_outage(clients: Clients, shape: str) -> None:
    sagemaker = clients("sagemaker", REGION)
    body = f'{{"TrainingJobSummaries": {LISTS[shape]}}}'
    inject(sagemaker, "ListTrainingJobs", Fault(shape, 200, body=body.encode()))

    with pytest.raises((Unreachable, Outage)):
        list_jobs(sagemaker, JobQuery())


@pytest.mark.parametrize("event", CASES["events"])
def test_an_odd_log_event_is_an_outage(clients: Clients, event: str) -> None:
    logs = clients("logs", REGION)
    streams = b'{"logStreams": [{"logStreamName": "job/algo-1-1"}]}'
    inject(logs, "DescribeLogStreams", Fault("one stream", 200, body=streams))
    body = f'{{"events": [{event}], "nextForwardToken": "f/1", "nextBackwardToken": "b/1"}}'
    inject(logs, "GetLogEvents", *[Fault("odd event", 200, body=body.encode())] * 6)

    with pytest.raises(Outage):
        LogStreams(logs, "job").read({})


@pytest.mark.parametrize("body", CASES["structures"])
def test_an_odd_shape_within_a_structure_is_an_outage(clients: Clients, body: str) -> None:
    sagemaker = clients("sagemaker", REGION)
    inject(sagemaker, "DescribeTrainingJob", *[Fault("odd", 200, body=body.encode())] * 6)

    with pytest.raises(Unreachable):
        fetch_request(sagemaker, "job")


def test_a_member_that_a_service_leaves_out_is_no_fault_until_it_is_asked_for(clients: Clients) -> None:
    batch = clients("batch", REGION)
    body = b'{"jobSummaryList": [{"jobId": "1", "jobName": "waits", "serviceJobType": "SAGEMAKER_TRAINING"}]}'
    inject(batch, "ListServiceJobs", Fault("short", 200, body=body))

    (job,) = batch.list_service_jobs(jobQueue="queue")["jobSummaryList"]
    assert (job["jobName"], job.get("startedAt")) == ("waits", None)
    with pytest.raises(Unreachable, match="it has no startedAt"):
        job["startedAt"]


def test_a_portal_in_place_of_the_manifest_is_named(clients: Clients) -> None:
    ssm = clients("ssm", REGION)
    inject(ssm, "GetParameter", OTHER_JSON)

    with pytest.raises(Unreachable, match="/slipway/clusters/dev"):
        fetch_manifest(ssm, "dev")
