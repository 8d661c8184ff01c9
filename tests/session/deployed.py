"""A cluster in moto's account, deployed stack by stack from its synthesized templates."""

from __future__ import annotations

import json
from typing import Any

import boto3
from moto.core.base_backend import BackendDict

from launcher.cluster.names import PARTS
from tests.emulator import cloudformation
from tests.emulator.cloudformation.stacks import Stack, Stacks
from tests.emulator.kept_services import KeptServices
from tests.stacks.synthesis import Synthesized

ACCOUNT, REGION = "123456789012", "us-west-2"


def client(service: str) -> Any:
    return boto3.client(
        service, region_name=REGION, aws_access_key_id="testing", aws_secret_access_key="testing"
    )


def deploy(app: Synthesized, cluster: str) -> None:
    """What `cdk deploy --all` does, into the account of `mock_aws`, which must be on.

    Into an account in which nothing is yet, by AWS's calls once in a process, from then on from memory.
    """
    cloudformation.install()
    if BackendDict._instances:
        _deploy(app, cluster)
        return
    key = (cluster, *(json.dumps(app.template(part)) for part in PARTS))
    if key not in _DEPLOYED:
        _deploy(app, cluster)
        _DEPLOYED[key] = KeptServices()
    _DEPLOYED[key].restore()


_DEPLOYED: dict[tuple[str, ...], KeptServices] = {}
"""The account by the cluster and the templates that were deployed into it."""


def _deploy(app: Synthesized, cluster: str) -> None:
    client("ssm").put_parameter(
        Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String", Overwrite=True
    )
    assets = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
    if assets not in [each["Name"] for each in client("s3").list_buckets()["Buckets"]]:
        client("s3").create_bucket(Bucket=assets, CreateBucketConfiguration={"LocationConstraint": REGION})
    for part in PARTS:
        stack = getattr(app.stacks, part)
        client("cloudformation").create_stack(
            StackName=stack.stack_name,
            TemplateBody=json.dumps(app.template(part)),
            Tags=[{"Key": "slipway:cluster", "Value": cluster}],
            Capabilities=["CAPABILITY_IAM"],
            EnableTerminationProtection=bool(stack.termination_protection),
        )


def stack_of(name: str) -> Stack:
    """The emulator's own stack, to bring it into a state that it does not come into by itself."""
    return Stacks.of(ACCOUNT, REGION).find(name)
