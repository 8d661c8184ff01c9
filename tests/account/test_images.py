"""Images in ECR: what their URIs say, and whether the registry has them."""

from __future__ import annotations

import boto3
import pytest
from botocore.stub import Stubber

from launcher.account.images import Image, parse_image_uri
from launcher.account.questions.instances import fetch_image
from launcher.failure_modes.refusal import AwsRefusal

REGISTRY = "763104351884.dkr.ecr.us-west-2.amazonaws.com"
DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("uri", "parts"),
    [
        (f"{REGISTRY}/pytorch-training:2.8", ("us-west-2", "pytorch-training", "2.8", None)),
        (f"{REGISTRY}/team/own", ("us-west-2", "team/own", "latest", None)),
        (f"{REGISTRY}/own@{DIGEST}", ("us-west-2", "own", None, DIGEST)),
        (f"{REGISTRY}/own:1@{DIGEST}", ("us-west-2", "own", "1", DIGEST)),
        ("763104351884.dkr.ecr.cn-north-1.amazonaws.com.cn/own:1", ("cn-north-1", "own", "1", None)),
        ("763104351884.dkr-ecr.eu-west-1.on.aws/own:1", ("eu-west-1", "own", "1", None)),
        ("763104351884.dkr.ecr-fips.us-east-1.amazonaws.com/own:1", ("us-east-1", "own", "1", None)),
    ],
)
def test_uri_of_ecr_is_read(uri: str, parts: tuple[str | None, ...]) -> None:
    found = parse_image_uri(uri)

    assert found is not None
    assert (found.region, found.repository, found.tag, found.digest) == parts
    assert found.account == "763104351884"


@pytest.mark.parametrize("uri", ["pytorch/pytorch:2.8", "public.ecr.aws/team/own:1", "ghcr.io/team/own"])
def test_image_of_another_registry_is_none(uri: str) -> None:
    assert parse_image_uri(uri) is None


@pytest.mark.parametrize(
    ("code", "exists"), [("ImageNotFound", False), ("ImageTagDoesNotMatchDigest", False), (None, True)]
)
def test_ecr_tells_whether_it_has_the_image(code: str | None, exists: bool) -> None:
    reference = parse_image_uri(f"{REGISTRY}/own:1")
    ecr = boto3.client("ecr", "us-west-2", aws_access_key_id="x", aws_secret_access_key="x")
    answer = {"failures": [{"failureCode": code}]} if code else {"images": [{"imageId": {"imageTag": "1"}}]}
    assert reference is not None
    with Stubber(ecr) as stubbed:
        stubbed.add_response("batch_get_image", answer)
        assert fetch_image(ecr, reference) == Image(reference.uri, exists, "us-west-2")


def test_repository_that_does_not_exist_has_no_image() -> None:
    reference = parse_image_uri(f"{REGISTRY}/own:1")
    ecr = boto3.client("ecr", "us-west-2", aws_access_key_id="x", aws_secret_access_key="x")
    assert reference is not None
    with Stubber(ecr) as stubbed:
        stubbed.add_client_error("batch_get_image", "RepositoryNotFoundException")
        assert not fetch_image(ecr, reference).exists


def test_image_that_cannot_be_handed_out_is_no_missing_one() -> None:
    reference = parse_image_uri(f"{REGISTRY}/own:1")
    ecr = boto3.client("ecr", "us-west-2", aws_access_key_id="x", aws_secret_access_key="x")
    assert reference is not None
    with Stubber(ecr) as stubbed, pytest.raises(AwsRefusal, match="KmsError"):
        stubbed.add_response("batch_get_image", {"failures": [{"failureCode": "KmsError"}]})
        fetch_image(ecr, reference)
