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


def test_the_region_comes_from_the_environment_first(
    aws_configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws_configuration.write_text("[default]\nregion = eu-west-1\n")
    assert session_region() == "eu-west-1"
    monkeypatch.setenv("AWS_REGION", "us-east-2")
    assert session_region() == "us-east-2"


def test_the_regions_own_variable_wins_over_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    assert session_region() == "eu-west-1"
    monkeypatch.setenv("AWS_REGION", "us-east-2")
    assert session_region() == "us-east-2"


def test_the_region_of_a_named_profile_is_used(
    aws_configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws_configuration.write_text("[profile team]\nregion = eu-west-3\n")
    monkeypatch.setenv("AWS_PROFILE", "team")
    assert session_region() == "eu-west-3"


def test_without_any_configuration_there_is_no_region() -> None:
    assert session_region() is None


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
    ssm = boto3.client("ssm", region_name="us-west-2")
    cluster = Cluster.model_validate(manifest)
    ssm.put_parameter(Name="/slipway/clusters/dev", Value=cluster.model_dump_json(), Type="String")
    assert fetch_manifest(ssm, "dev") == cluster


@mock_aws
def test_an_unknown_cluster_says_how_to_provision_it() -> None:
    with pytest.raises(Refusal, match="cdk deploy") as refused:
        fetch_manifest(boto3.client("ssm", region_name="us-west-2"), "dve")
    assert refused.value.exit_code == 2


@mock_aws
def test_a_broken_manifest_names_its_parameter() -> None:
    ssm = boto3.client("ssm", region_name="us-west-2")
    ssm.put_parameter(Name="/slipway/clusters/dev", Value="{}", Type="String")
    with pytest.raises(Refusal, match="/slipway/clusters/dev"):
        fetch_manifest(ssm, "dev")


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


@pytest.mark.parametrize(("status", "throttled"), [(429, True), (500, False)])
def test_who_asks_for_fewer_calls_is_known(status: int, throttled: bool) -> None:
    refusal = refusal_of(status, "Odd")
    assert isinstance(refusal, Outage)
    assert refusal.throttled is throttled


def refusal_of(status: int, code: str) -> AwsRefusal:
    response = {
        "Error": {"Code": code, "Message": "reason"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    with pytest.raises(AwsRefusal) as refused, answers("try it"):
        raise ClientError(response, "Operation")
    return refused.value
