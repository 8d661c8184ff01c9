"""What may pass the endpoints of a network without NAT: an endpoint's own policy lets anybody reach anything.

Foreign credentials, or a foreign bucket that is open to the world, would be a way out for data; the role of
the jobs does not bind who brings credentials of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam

from launcher.cluster.names import ECR_LAYERS

_PULLING = [
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:GetAuthorizationToken",
    "ecr:GetDownloadUrlForLayer",
]


def let_pass_to_buckets(endpoint: ec2.GatewayVpcEndpoint, *, data_buckets: Sequence[str]) -> None:
    """Let through to S3 what is about buckets of this account, named buckets to read, and layers of images.

    The cluster's own buckets get their names after the network, so the account stands for them. ECR hands
    out signed addresses of layers in a bucket of AWS's. Source: Amazon S3 user guide,
    example-bucket-policies-vpc-endpoint; ECR user guide, vpc-endpoints (minimum S3 bucket permissions).
    """
    stack = cdk.Stack.of(endpoint)

    def bucket(name: str) -> str:
        return stack.format_arn(service="s3", region="", account="", resource=name)

    _add(
        endpoint,
        "BucketsOfTheAccount",
        ["s3:*"],
        ["*"],
        {"StringEquals": {"aws:ResourceAccount": stack.account}},
    )
    if data_buckets:
        arns = [bucket(name) for name in data_buckets]
        _add(
            endpoint,
            "DataBuckets",
            ["s3:GetBucketLocation", "s3:GetObject", "s3:ListBucket"],
            [*arns, *(f"{arn}/*" for arn in arns)],
        )
    layers = bucket(ECR_LAYERS.format(region=stack.region))
    _add(endpoint, "LayersOfImages", ["s3:GetObject"], [f"{layers}/*"])


def let_pass_the_account(endpoint: ec2.InterfaceVpcEndpoint, *, images: bool) -> None:
    """Let through whom the account knows; with `images` anybody who pulls, but nobody else who pushes.

    SageMaker may pull images of AWS's with credentials of its own. Source: AWS PrivateLink guide,
    vpc-endpoints-access; SageMaker API reference, AlgorithmSpecification.
    """
    account = {"StringEquals": {"aws:PrincipalAccount": cdk.Stack.of(endpoint).account}}
    _add(endpoint, "PrincipalsOfTheAccount", ["*"], ["*"], account)
    if images:
        _add(endpoint, "PullImages", _PULLING, ["*"])


def _add(
    endpoint: ec2.VpcEndpoint,
    sid: str,
    actions: list[str],
    resources: list[str],
    conditions: dict[str, dict[str, str]] | None = None,
) -> None:
    endpoint.add_to_policy(
        iam.PolicyStatement(
            sid=sid,
            principals=[iam.AnyPrincipal()],
            actions=actions,
            resources=resources,
            conditions=conditions,
        )
    )
