"""The way out of a network without NAT: interface endpoints to the services a training job calls."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from launcher.cluster.names import ECR_LAYERS
from launcher.cluster.traffic import HTTPS_PORT
from launcher.failure_modes import network
from launcher.failure_modes.model import FailureMode

PREVENTS: tuple[FailureMode, ...] = (network.NO_WAY_OUT,)

_SERVICES = {
    "EcrApi": ec2.InterfaceVpcEndpointAwsService.ECR,
    "EcrDocker": ec2.InterfaceVpcEndpointAwsService.ECR_DOCKER,
    "Logs": ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS,
    "Monitoring": ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_MONITORING,
    "Sts": ec2.InterfaceVpcEndpointAwsService.STS,
    "SageMakerApi": ec2.InterfaceVpcEndpointAwsService.SAGEMAKER_API,
    "Ssm": ec2.InterfaceVpcEndpointAwsService.SSM,
}
_IMAGES = ("EcrApi", "EcrDocker")
_FSX = ec2.InterfaceVpcEndpointAwsService.FSX
_SECRETS = ec2.InterfaceVpcEndpointAwsService.SECRETS_MANAGER
_SHELL = ec2.InterfaceVpcEndpointAwsService.SSM_MESSAGES
_KMS = ec2.InterfaceVpcEndpointAwsService.KMS


class ServiceEndpoints(Construct):
    """Interface endpoints for images, logs, metrics, credentials and SageMaker, open to the hosts.

    Credentials of other accounts do not pass them, except to pull images.

    S3 is not among them: `TrainingNetwork` has its gateway endpoint. Source: SageMaker developer
    guide, train-vpc; ECR user guide, vpc-endpoints (both ecr.api and ecr.dkr are needed to pull).

    Attributes:
        security_group: the group in front of the endpoints.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        vpc: ec2.IVpc,
        subnets: Sequence[ec2.ISubnet],
        clients: ec2.ISecurityGroup,
        kms: bool = False,
        fsx: bool = False,
        secrets: bool = False,
        remote_debug: bool = False,
    ) -> None:
        """Create the endpoints and the security group in front of them.

        Args:
            scope: the parent construct.
            id: the construct's id.
            vpc: the VPC; it must have DNS support and DNS host names on.
            subnets: where the endpoints stand, at most one subnet per availability zone.
            clients: the group of the hosts that call the services; it gets a rule that leads here.
            kms: whether the hosts use a key of the account.
            fsx: whether there is a file system to describe.
            secrets: whether jobs read secrets of AWS Secrets Manager.
            remote_debug: whether jobs may let a shell into their containers.
        """
        super().__init__(scope, id)
        self.security_group = ec2.SecurityGroup(
            self,
            "SecurityGroup",
            vpc=vpc,
            description="Service endpoints: HTTPS from the training hosts",
            allow_all_outbound=False,
        )
        https = ec2.Port.tcp(HTTPS_PORT)
        self.security_group.add_ingress_rule(clients, https, "HTTPS from the training hosts")
        clients.add_egress_rule(self.security_group, https, "HTTPS to the service endpoints")
        services = {
            **_SERVICES,
            **({"Kms": _KMS} if kms else {}),
            **({"Fsx": _FSX} if fsx else {}),
            **({"SecretsManager": _SECRETS} if secrets else {}),
            **({"SsmMessages": _SHELL} if remote_debug else {}),
        }
        for name, service in services.items():
            endpoint = ec2.InterfaceVpcEndpoint(
                self,
                name,
                vpc=vpc,
                service=service,
                subnets=ec2.SubnetSelection(subnets=list(subnets)),
                security_groups=[self.security_group],
                open=False,
                private_dns_enabled=True,
            )
            let_pass_the_account(endpoint, images=name in _IMAGES)


# What may pass the endpoints of a network without NAT: an endpoint's own policy lets anybody reach anything.
#
# Foreign credentials, or a foreign bucket that is open to the world, would be a way out for data; the role of
# the jobs does not bind who brings credentials of their own.


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
