"""The manifest of a provisioned cluster, from its SSM parameter."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from launcher.aws.errors import aws_errors
from launcher.cluster.manifest import Cluster, manifest_parameter_name
from launcher.failure_modes.refusal import Refusal


def fetch_manifest(ssm: Any, name: str) -> Cluster:
    """Read the manifest of a cluster with an SSM client.

    Raises Refusal where there is no such cluster or its manifest is broken, AwsRefusal where AWS
    refuses.
    """
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
