"""What answers in place of AWS, or in part: an outage, never a crash and never a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from moto import mock_aws

from launcher.account.questions.storage import fetch_prefix
from launcher.aws.clients import Clients
from launcher.aws.cluster_manifest import fetch_manifest
from launcher.aws.errors import Unreachable, aws_errors
from launcher.aws.faults import Outage, answers
from launcher.aws.session import fetch_caller
from tests.emulator.faults import EMPTY, ODD, OTHER_JSON, PAGE_500, PORTAL_XHTML, Fault, inject, no_backoff

REGION = "us-west-2"

CALLS: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "query": ("sts", "GetCallerIdentity", lambda sts: sts.get_caller_identity()),
    "ec2": ("ec2", "DescribeSubnets", lambda ec2: ec2.describe_subnets()),
    "rest-xml": ("s3", "ListObjectsV2", lambda s3: s3.list_objects_v2(Bucket="bucket")),
    "headers only": ("s3", "HeadBucket", lambda s3: s3.head_bucket(Bucket="bucket")),
    "a stream": ("s3", "GetObject", lambda s3: s3.get_object(Bucket="bucket", Key="key")),
    "json": ("ssm", "GetParameter", lambda ssm: ssm.get_parameter(Name="name")),
    "json with required members": (
        "sagemaker",
        "DescribeTrainingJob",
        lambda sagemaker: sagemaker.describe_training_job(TrainingJobName="job"),
    ),
    "nothing to answer": (
        "sagemaker",
        "StopTrainingJob",
        lambda sagemaker: sagemaker.stop_training_job(TrainingJobName="job"),
    ),
    "rest-json": ("batch", "ListServiceJobs", lambda batch: batch.list_service_jobs(jobQueue="queue")),
}


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clients]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with mock_aws(), no_backoff():
        yield Clients()


@pytest.mark.parametrize("fault", ODD, ids=lambda fault: fault.name)
@pytest.mark.parametrize("protocol", CALLS)
def test_an_odd_answer_is_no_answer_of_aws(clients: Clients, protocol: str, fault: Fault) -> None:
    service, operation, call = CALLS[protocol]
    client = clients(service, REGION)
    inject(client, operation, *[fault] * 100)  # S3's clients try again where the body is no XML

    with pytest.raises(Unreachable, match=r"try it: .* not AWS") as refused, aws_errors("try it"):
        call(client)
    assert refused.value.exit_code == 3
    with pytest.raises(Outage), answers("try it"):
        call(client)


@pytest.mark.parametrize("protocol", CALLS)
def test_a_page_with_500_is_tried_again_and_then_an_outage(clients: Clients, protocol: str) -> None:
    service, operation, call = CALLS[protocol]
    client = clients(service, REGION)
    faults = inject(client, operation, *[PAGE_500] * 100)

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


def test_a_member_that_is_asked_for_and_not_there_is_an_outage(clients: Clients) -> None:
    sts = clients("sts", REGION)
    arn_alone = b"<A><GetCallerIdentityResult><Arn>a</Arn></GetCallerIdentityResult></A>"
    inject(sts, "GetCallerIdentity", Fault("half", 200, body=arn_alone))

    with pytest.raises(Unreachable, match="it has no Account"):
        fetch_caller(sts)


def test_a_member_that_is_missing_while_following_is_waited_for(clients: Clients) -> None:
    sagemaker = clients("sagemaker", REGION)
    inject(sagemaker, "DescribeTrainingJob", Fault("half", 200, body=b'{"TrainingJobName": "job"}'))

    with pytest.raises(Outage), answers("try it"):
        sagemaker.describe_training_job(TrainingJobName="job")["TrainingJobStatus"]


def test_a_portal_in_place_of_the_manifest_is_named(clients: Clients) -> None:
    ssm = clients("ssm", REGION)
    inject(ssm, "GetParameter", OTHER_JSON)

    with pytest.raises(Unreachable, match="/slipway/clusters/dev"):
        fetch_manifest(ssm, "dev")
