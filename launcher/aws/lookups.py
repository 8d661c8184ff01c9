"""What a launch looks up by name: the manifest of a cluster, the request of a job, and whose a bucket is.

A bucket that was deleted leaves its name to anybody, so that each call about the cluster's buckets says whose
they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from launcher.aws.errors import aws_errors
from launcher.cluster.names import manifest_parameter_name
from launcher.failure_modes.model import AwsRefusal, Refusal

if TYPE_CHECKING:
    from launcher.cluster.manifest import Cluster


def fetch_manifest(ssm: Any, name: str) -> Cluster:
    """Read the manifest of a cluster with an SSM client.

    Raises Refusal where there is no such cluster or its manifest is broken, AwsRefusal where AWS
    refuses.
    """
    # Here: who only looks at jobs reads no manifest, and goes without pydantic.
    from pydantic import ValidationError

    from launcher.cluster.manifest import Cluster

    parameter = manifest_parameter_name(name)
    with aws_errors(f"read the cluster manifest {parameter}"):
        try:
            text = ssm.get_parameter(Name=parameter)["Parameter"]["Value"]
        except ssm.exceptions.ParameterNotFound:
            region = ssm.meta.region_name
            raise Refusal(
                f"no cluster named {name} is provisioned in {region}: there is no SSM parameter {parameter}.",
                f"Provision it with `cdk deploy --all -c cluster={name}`, or correct `cluster` or `region`.",
            ) from None
    try:
        return Cluster.model_validate_json(text)
    except ValidationError as error:
        raise Refusal(
            f"the SSM parameter {parameter} holds no cluster manifest: {error.errors()[0]['msg']}.",
            f"Deploy the cluster again with `cdk deploy --all -c cluster={name}`.",
        ) from error


def fetch_request(sagemaker: Any, job_name: str) -> dict[str, Any]:
    """What CreateTrainingJob was called with, as far as DescribeTrainingJob shows it (it shows no tags).

    Raises AwsRefusal where there is no such job, or AWS refuses.
    """
    with aws_errors(f"describe the training job {job_name}"):
        return request_in(sagemaker, sagemaker.describe_training_job(TrainingJobName=job_name))


def request_in(sagemaker: Any, described: Mapping[str, Any]) -> dict[str, Any]:
    """What CreateTrainingJob was called with, of an answer of DescribeTrainingJob."""
    members = sagemaker.meta.service_model.operation_model("CreateTrainingJob").input_shape.members
    return {name: described[name] for name in members if name in described}


def fetch_tags(sagemaker: Any, job_name: str) -> list[dict[str, str]]:
    """The tags of a training job, in the API's words. Raises AwsRefusal where AWS refuses."""
    with aws_errors(f"list the tags of the training job {job_name}"):
        arn = sagemaker.describe_training_job(TrainingJobName=job_name)["TrainingJobArn"]
        pages = sagemaker.get_paginator("list_tags").paginate(ResourceArn=arn)
        return [tag for page in pages for tag in page["Tags"]]


@contextmanager
def expected_owners(s3: Any, owners: Mapping[str, str]) -> Iterator[None]:
    """Within this, S3 refuses the client's calls about these buckets where another account owns them.

    `owners` are accounts by the names of their buckets; the transfers of boto3, which know no expectation for
    the place that they copy from, are told too. A refusal that may come of it says so.
    """

    def expect(params: dict[str, Any], model: Any, **_: Any) -> None:
        known = model.input_shape.members
        owner = owners.get(params.get("Bucket", ""))
        if owner is not None and "ExpectedBucketOwner" in known:
            params["ExpectedBucketOwner"] = owner
        source = params.get("CopySource")
        owner = owners.get(source.get("Bucket", "")) if isinstance(source, Mapping) else None
        if owner is not None and "ExpectedSourceBucketOwner" in known:
            params["ExpectedSourceBucketOwner"] = owner

    s3.meta.events.register("provide-client-params.s3", expect)
    try:
        with naming_owners(owners):
            yield
    finally:
        s3.meta.events.unregister("provide-client-params.s3", expect)


@contextmanager
def naming_owners(owners: Mapping[str, str]) -> Iterator[None]:
    """Let a denial also name another owner as its cause: S3 does not tell that from a missing permission."""
    from botocore.exceptions import ClientError

    try:
        yield
    except AwsRefusal as refusal:
        cause = refusal.__cause__
        answer = cause.response.get("ResponseMetadata", {}) if isinstance(cause, ClientError) else {}
        if not owners or answer.get("HTTPStatusCode") != 403:
            raise
        buckets = " and ".join(f"{name} to the account {owner}" for name, owner in owners.items())
        hint = (
            f"Or a bucket of this name belongs to somebody else: the launcher expects {buckets}. Deploy the "
            "cluster again where one of its buckets was deleted."
        )
        raise type(refusal)(f"{refusal.message} {hint}", refusal.remedy) from cause
