"""The door to AWS: the region without a call, and errors in words that help."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest
from botocore import exceptions
from botocore.exceptions import ClientError
from moto import mock_aws

from launcher.aws.errors import CredentialsExpired, Outage, answers, aws_errors
from launcher.aws.lookups import fetch_manifest
from launcher.aws.session import fetch_caller, session_region
from launcher.cluster.manifest import Cluster
from launcher.failure_modes.model import AwsRefusal, Refusal


def test_the_region_comes_from_the_environment_and_then_from_the_profile(
    aws_configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert session_region() is None
    aws_configuration.write_text("[default]\nregion = eu-west-1\n[profile team]\nregion = eu-west-3\n")
    # Each that is set wins over those before it.
    assert session_region() == "eu-west-1"
    for name, value, region in (
        ("AWS_PROFILE", "team", "eu-west-3"),
        ("AWS_DEFAULT_REGION", "eu-north-1", "eu-north-1"),
        ("AWS_REGION", "us-east-2", "us-east-2"),
    ):
        monkeypatch.setenv(name, value)
        assert session_region() == region


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (exceptions.NoCredentialsError(), "--local"),
        (exceptions.NoRegionError(), "AWS_REGION"),
        (exceptions.EndpointConnectionError(endpoint_url="https://x"), "network"),
        (exceptions.ClientError({"Error": {"Code": "ExpiredToken", "Message": "old"}}, "X"), "aws sso login"),
        (exceptions.ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "X"), "permission"),
        (exceptions.ClientError({"Error": {"Code": "403", "Message": "Forbidden"}}, "X"), "of the bucket"),
        (exceptions.ClientError({"Error": {"Code": "Odd", "Message": "reason"}}, "X"), "reason"),
    ],
)
def test_each_error_of_aws_says_what_to_do_and_exits_with_3(error: Exception, says: str) -> None:
    with pytest.raises(AwsRefusal) as refused, aws_errors("try it"):
        raise error
    assert says in f"{refused.value.message} {refused.value.remedy}"
    assert "try it" in refused.value.message
    assert refused.value.exit_code == 3


def test_missing_credentials_are_noticed_at_the_first_call() -> None:
    with (
        mock_aws(config={"core": {"mock_credentials": False}}),
        pytest.raises(AwsRefusal, match="credentials"),
    ):
        fetch_caller(boto3.client("sts", region_name="us-west-2"))


@mock_aws
def test_a_cluster_is_read_from_its_parameter(manifest: dict) -> None:
    ssm, name = boto3.client("ssm", region_name="us-west-2"), "/slipway/clusters/dev"
    with pytest.raises(Refusal, match="cdk deploy") as refused:
        fetch_manifest(ssm, "dev")
    assert refused.value.exit_code == 2
    ssm.put_parameter(Name=name, Value="{}", Type="String")
    with pytest.raises(Refusal, match=name):
        fetch_manifest(ssm, "dev")
    cluster = Cluster.model_validate(manifest)
    ssm.put_parameter(Name=name, Value=cluster.model_dump_json(), Type="String", Overwrite=True)
    assert fetch_manifest(ssm, "dev") == cluster


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        pytest.param(400, "ThrottlingException", Outage, id="throttled, by its code"),
        pytest.param(429, "Odd", Outage, id="throttled, by the status alone"),
        pytest.param(500, "Odd", Outage, id="a service's fault, by the status alone"),
        pytest.param(503, "Odd", Outage, id="another"),
        pytest.param(400, "InternalFailure", Outage, id="a service's fault, by its code"),
        pytest.param(403, "RequestTimeTooSkewed", Outage, id="a wrong clock"),
        pytest.param(400, "ExpiredToken", CredentialsExpired, id="expired credentials"),
        pytest.param(400, "Odd", AwsRefusal, id="the caller's mistake"),
        pytest.param(404, "Odd", AwsRefusal, id="nothing there"),
    ],
)
def test_each_answer_is_of_its_kind(status: int, code: str, kind: type[AwsRefusal]) -> None:
    assert type(refusal_of(status, code)) is kind


def test_who_asks_for_fewer_calls_is_known() -> None:
    assert [refusal_of(status, "Odd").throttled for status in (429, 500)] == [True, False]


def refusal_of(status: int, code: str) -> AwsRefusal:
    error = {"Code": code, "Message": "reason"}
    response = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": status}}
    with pytest.raises(AwsRefusal) as refused, answers("try it"):
        raise ClientError(response, "Operation")
    return refused.value
