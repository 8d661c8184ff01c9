"""A whole emulated account, in which a job of two hosts has all that it needs; tests then break it.

The network is that of an isolated cluster: a private subnet with a way out over a NAT gateway, the
endpoints of S3 and ECR, a group for the job, one for the endpoints and one for the file system.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from string import Template
from typing import Any
from unittest import mock

import boto3
import pytest
from moto import mock_aws
from moto.core.responses import ActionResult
from moto.sts.responses import TokenResponse

from launcher.cluster.manifest import Cluster
from tests.emulator.kept_services import KeptServices
from tests.emulator.lustre import emulated_lustre
from tests.emulator.policy_simulation import emulated_simulation
from tests.emulator.running_jobs import emulated_search
from tests.emulator.service_quotas import emulated_quotas

REGION = "us-west-2"
ACCOUNT = "123456789012"
INSTANCE_TYPE = "ml.p4d.24xlarge"
REPOSITORY, TAG = "pytorch-training", "2.8.0-gpu-py312-cu129-ubuntu22.04-sagemaker"
TAGS = (TAG, "2.8.0-gpu-py312")
"""The long tag, and the short one by which jobs name a framework."""
BUCKETS = ("team-code", "team-data", "team-checkpoints", "team-output")
ANYWHERE = [{"CidrIp": "0.0.0.0/0"}]


@dataclass
class EmulatedAccount:
    """What is in the account; changing the containers, or the resources over boto3, breaks it."""

    quotas: dict[str, float] = field(default_factory=dict)
    """Values that apply to the account, by the quota's name."""
    default_quotas: dict[str, float] = field(default_factory=dict)
    running_jobs: list[dict[str, Any]] = field(default_factory=list)
    lifecycles: dict[str, str] = field(default_factory=dict)
    """FSx's word by the id of a file system; AVAILABLE for others."""
    associations: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    caller: str = f"arn:aws:sts::{ACCOUNT}:assumed-role/team/alice"
    """Who STS says is calling; the role `team` may launch."""
    ids: dict[str, str] = field(default_factory=dict)
    """Ids by name: vpc, subnet, group, endpoint_group, file_system_group, file_system, interface."""

    @property
    def role_arn(self) -> str:
        """The execution role."""
        return f"arn:aws:iam::{ACCOUNT}:role/training"

    @property
    def image(self) -> str:
        """The training image, in AWS's own registry."""
        return f"763104351884.dkr.ecr.{REGION}.amazonaws.com/{REPOSITORY}:{TAG}"

    def client(self, service: str) -> Any:
        """A client of the account, for the test's own use."""
        return _client(service)

    def close_egress(self) -> None:
        """Take away what the job's group sends to itself."""
        group = self.ids["group"]
        itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
        self.client("ec2").revoke_security_group_egress(GroupId=group, IpPermissions=itself)

    def manifest(self) -> dict[str, Any]:
        """The manifest of a cluster that is made of this."""
        return self._told("manifest")

    def request(self, **changes: Any) -> dict[str, Any]:
        """A CreateTrainingJob request that names all of this; keyword arguments replace its fields."""
        request = {**self._told("request"), **changes}
        return {key: value for key, value in request.items() if value is not None}

    def _told(self, what: str) -> dict[str, Any]:
        named = {"role": self.role_arn, "image": self.image, "region": REGION, "type": INSTANCE_TYPE}
        mount_name = self.ids["file_system"].removeprefix("fs-")
        told: dict[str, Any] = json.loads(TEXTS.substitute(self.ids, **named, mount_name=mount_name))[what]
        return told


TEXTS = Template(Path(__file__).with_suffix(".json").read_text("utf-8"))
"""The manifest, a request and the manifest of an image, with the names of what is in the account."""

ROLE_SERVICES = ("s3", "ecr", "logs", "cloudwatch", "ec2", "fsx", "kms")


def use_test_keys(patch: pytest.MonkeyPatch, region: str | None = None) -> None:
    """Credentials that no real account has, in the environment; with a region where one is given."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        patch.setenv(name, "testing")
    if region is not None:
        patch.setenv("AWS_REGION", region)


@contextmanager
def emulated_account() -> Iterator[EmulatedAccount]:
    """An account in which everything is as the job of `request` and `manifest` needs it."""
    account = EmulatedAccount()
    with ExitStack() as stack:
        stack.enter_context(mock_aws())
        stack.enter_context(emulated_quotas(account.quotas, account.default_quotas))
        stack.enter_context(emulated_search(account.running_jobs))
        stack.enter_context(emulated_lustre(account.lifecycles, account.associations))
        stack.enter_context(emulated_simulation())
        stack.enter_context(_emulated_caller(account))
        _furnish(account)
        account.quotas[f"{INSTANCE_TYPE} for training job usage"] = 8.0
        account.default_quotas[f"{INSTANCE_TYPE} for training job usage"] = 0.0
        yield account


def provision(account: EmulatedAccount, **changes: Any) -> None:
    """Let the account have the cluster `dev`, with these changes to its manifest."""
    cluster = Cluster.model_validate({**account.manifest(), **changes})
    account.client("ssm").put_parameter(
        Name="/slipway/clusters/dev", Value=cluster.model_dump_json(), Type="String", Overwrite=True
    )


def _furnish(account: EmulatedAccount) -> None:
    """Put into the account what a job needs: by AWS's calls once in a process, from then on from memory.

    The forty calls take thirty times as long.
    """
    if not _FURNITURE:
        _network(account)
        _file_system(account)
        _storage(account)
        create_role(account, "training", {"Service": "sagemaker.amazonaws.com"})
        allow(account, "training", *(f"{service}:*" for service in ROLE_SERVICES))
        create_role(account, "team", {"AWS": f"arn:aws:iam::{ACCOUNT}:root"})
        allow(account, "team", "iam:PassRole", "sagemaker:*")
        _image(account)
        _FURNITURE.append((KeptServices(), dict(account.ids)))
    ((services, ids),) = _FURNITURE
    services.restore()
    account.ids.update(ids)


_FURNITURE: list[tuple[KeptServices, dict[str, str]]] = []
"""What `_furnish` has made, with its ids; empty until then."""


@cache
def _client(service: str) -> Any:
    """Made once for all tests of a process: a large one takes some tenths of a second."""
    return boto3.client(service, region_name=REGION)


def create_role(account: EmulatedAccount, name: str, principal: dict[str, str], path: str = "/") -> str:
    """A role that the principal takes on; returns its ARN."""
    statement = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": principal}
    made = account.client("iam").create_role(
        RoleName=name, Path=path, AssumeRolePolicyDocument=json.dumps({"Statement": [statement]})
    )
    return str(made["Role"]["Arn"])


def allow(account: EmulatedAccount, role: str, *actions: str) -> None:
    """Let a role do these actions and no others."""
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    account.client("iam").put_role_policy(RoleName=role, PolicyName="job", PolicyDocument=document)


@contextmanager
def _emulated_caller(account: EmulatedAccount) -> Iterator[None]:
    def identity(response: TokenResponse) -> ActionResult:
        return ActionResult({"Account": ACCOUNT, "UserId": "AIDA:alice", "Arn": account.caller})

    with mock.patch.object(TokenResponse, "get_caller_identity", identity):
        yield


def _network(account: EmulatedAccount) -> None:
    ec2, ids = account.client("ec2"), account.ids
    ids["vpc"] = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    made = ec2.create_subnet(VpcId=ids["vpc"], CidrBlock="10.0.0.0/22", AvailabilityZone=f"{REGION}a")
    ids["subnet"] = made["Subnet"]["SubnetId"]
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    nat = ec2.create_nat_gateway(SubnetId=ids["subnet"], AllocationId=address)["NatGateway"]["NatGatewayId"]
    table = ec2.create_route_table(VpcId=ids["vpc"])["RouteTable"]["RouteTableId"]
    ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", NatGatewayId=nat)
    ec2.associate_route_table(RouteTableId=table, SubnetId=ids["subnet"])
    ids["route_table"] = table
    ids["group"] = _group(account, "job")
    _open_to_itself(account, ids["group"])
    ids["endpoint_group"] = _group(account, "endpoints")
    https = [{"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "IpRanges": ANYWHERE}]
    ec2.authorize_security_group_ingress(GroupId=ids["endpoint_group"], IpPermissions=https)
    s3 = f"com.amazonaws.{REGION}.s3"
    ec2.create_vpc_endpoint(
        VpcId=ids["vpc"], ServiceName=s3, VpcEndpointType="Gateway", RouteTableIds=[table]
    )
    ec2.create_vpc_endpoint(
        VpcId=ids["vpc"],
        ServiceName=f"com.amazonaws.{REGION}.ecr.api",
        VpcEndpointType="Interface",
        SubnetIds=[ids["subnet"]],
        SecurityGroupIds=[ids["endpoint_group"]],
        PrivateDnsEnabled=True,
    )


def _file_system(account: EmulatedAccount) -> None:
    ec2, ids = account.client("ec2"), account.ids
    ids["file_system_group"] = _group(account, "lustre")
    for first, last in ((988, 988), (1018, 1023)):
        for peer in (ids["group"], ids["file_system_group"]):
            _allow(account, "file_system_group", peer, IpProtocol="tcp", FromPort=first, ToPort=last)
        ports = {"IpProtocol": "tcp", "FromPort": first, "ToPort": last}
        servers = [{**ports, "UserIdGroupPairs": [{"GroupId": ids["file_system_group"]}]}]
        ec2.authorize_security_group_ingress(GroupId=ids["group"], IpPermissions=servers)
    made = account.client("fsx").create_file_system(
        FileSystemType="LUSTRE",
        StorageCapacity=1200,
        StorageType="SSD",
        SubnetIds=[ids["subnet"]],
        SecurityGroupIds=[ids["file_system_group"]],
        LustreConfiguration={"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250},
    )
    ids["file_system"] = made["FileSystem"]["FileSystemId"]
    interface = ec2.create_network_interface(
        SubnetId=ids["subnet"],
        Groups=[ids["file_system_group"]],
        Description=f"Interface of file system {ids['file_system']}",
    )
    ids["interface"] = interface["NetworkInterface"]["NetworkInterfaceId"]


def _storage(account: EmulatedAccount) -> None:
    s3 = account.client("s3")
    for name in BUCKETS:
        s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    for number in range(3):
        s3.put_object(Bucket="team-data", Key=f"train/part-{number}", Body=b"data")


def _image(account: EmulatedAccount) -> None:
    """moto does not tell registries apart: AWS's own is this account's."""
    ecr = account.client("ecr")
    ecr.create_repository(repositoryName=REPOSITORY)
    for tag in TAGS:
        ecr.put_image(
            repositoryName=REPOSITORY, imageManifest=json.dumps(account._told("image")), imageTag=tag
        )


def _group(account: EmulatedAccount, name: str) -> str:
    made = account.client("ec2").create_security_group(
        GroupName=name, Description=name, VpcId=account.ids["vpc"]
    )
    return str(made["GroupId"])


def _open_to_itself(account: EmulatedAccount, group: str) -> None:
    """All traffic between the members, both ways, and out to any address.

    moto drops an egress rule for a group where there is one for any address; the other way round it
    keeps both.
    """
    ec2 = account.client("ec2")
    itself = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
    anywhere = {"IpProtocol": "-1", "IpRanges": ANYWHERE}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[itself])
    ec2.revoke_security_group_egress(GroupId=group, IpPermissions=[anywhere])
    ec2.authorize_security_group_egress(GroupId=group, IpPermissions=[itself])
    ec2.authorize_security_group_egress(GroupId=group, IpPermissions=[anywhere])


def _allow(account: EmulatedAccount, group: str, peer: str, **ports: Any) -> None:
    """Let traffic pass between a group's members and those of another, both ways."""
    permission = [{**ports, "UserIdGroupPairs": [{"GroupId": peer}]}]
    ec2, id_ = account.client("ec2"), account.ids[group]
    ec2.authorize_security_group_ingress(GroupId=id_, IpPermissions=permission)
    ec2.authorize_security_group_egress(GroupId=id_, IpPermissions=permission)
