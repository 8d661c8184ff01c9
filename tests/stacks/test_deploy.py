"""The real CDK command line deploys the dev cluster into moto, and the account is read back."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from launcher.cluster.manifest import Cluster
from launcher.cluster.specification import load_cluster_file
from tests.emulator import cloudformation

ROOT = Path(__file__).parents[2]
CDK = ROOT / "node_modules" / ".bin" / "cdk"
ACCOUNT, REGION = "123456789012", "us-west-2"
# moto takes a template's address for one of its own only where the bucket's name holds this word.
QUALIFIER = "localhost"
SPEC = load_cluster_file(ROOT / "clusters" / "dev.yaml")


class Account:
    """moto's account, after `cdk deploy`."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )

    def manifest(self) -> Cluster:
        answer = self.client("ssm").get_parameter(Name="/slipway/clusters/dev")
        return Cluster.model_validate_json(answer["Parameter"]["Value"])

    def security_group(self, group_id: str) -> dict[str, Any]:
        return self.client("ec2").describe_security_groups(GroupIds=[group_id])["SecurityGroups"][0]


@pytest.fixture
def endpoint() -> Iterator[str]:
    cloudformation.install()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    # moto's state is the process's: other tests may have left some.
    urllib.request.urlopen(f"{address}/moto-api/reset", data=b"").close()
    yield address
    server.stop()


@pytest.fixture
def account(endpoint: str, tmp_path: Path) -> Account:
    if not CDK.exists():
        pytest.fail(f"{CDK} is missing: run `npm ci`, which installs the AWS CDK command line")
    account = Account(endpoint)
    bootstrap(account)
    command = [
        str(CDK), "deploy", "--all", "--method", "direct", "--require-approval", "never",
        "--output", str(tmp_path / "cdk.out"), "--context", "cluster=dev",
        "--context", f"@aws-cdk/core:bootstrapQualifier={QUALIFIER}",
    ]  # fmt: skip
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.defpath]),
        "HOME": str(tmp_path),
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_EC2_METADATA_DISABLED": "true",
        "CDK_DISABLE_CLI_TELEMETRY": "true",
    }
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return account


def bootstrap(account: Account) -> None:
    """What `cdk bootstrap` leaves behind, as far as a deployment looks at it."""
    account.client("ssm").put_parameter(
        Name=f"/cdk-bootstrap/{QUALIFIER}/version", Value="30", Type="String", Overwrite=True
    )
    account.client("s3").create_bucket(
        Bucket=f"cdk-{QUALIFIER}-assets-{ACCOUNT}-{REGION}",
        CreateBucketConfiguration={"LocationConstraint": REGION},
    )


def test_deployed_cluster(account: Account, subtests: pytest.Subtests) -> None:
    """One test with parts, so that parallel workers do not deploy once each."""
    for check in (
        manifest_names_what_was_provisioned,
        efa_group_has_its_three_rules,
        default_group_is_closed,
        file_system_stands_in_the_training_subnet,
        lustre_ports_are_open_between_hosts_and_servers,
        buckets_refuse_plain_http,
        role_is_for_sagemaker_and_reaches_the_cluster,
    ):
        with subtests.test(check.__name__):
            check(account)


def manifest_names_what_was_provisioned(account: Account) -> None:
    manifest = account.manifest()
    subnets = account.client("ec2").describe_subnets(SubnetIds=[each.id for each in manifest.subnets])[
        "Subnets"
    ]

    assert manifest.name == "dev"
    assert manifest.region == REGION
    assert [subnet["VpcId"] for subnet in subnets] == [manifest.vpc_id]
    assert [subnet["AvailabilityZone"] for subnet in subnets] == SPEC.availability_zones


def efa_group_has_its_three_rules(account: Account) -> None:
    (group_id,) = account.manifest().security_group_ids
    group = account.security_group(group_id)

    def all_traffic(direction: str) -> list[str]:
        return sorted(
            peer
            for permission in group[direction]
            if permission["IpProtocol"] == "-1"
            for peer in [
                *(pair["GroupId"] for pair in permission["UserIdGroupPairs"]),
                *(block["CidrIp"] for block in permission["IpRanges"]),
            ]
        )

    assert all_traffic("IpPermissions") == [group_id]
    assert all_traffic("IpPermissionsEgress") == ["0.0.0.0/0", group_id]


def default_group_is_closed(account: Account) -> None:
    filters = [
        {"Name": "vpc-id", "Values": [account.manifest().vpc_id]},
        {"Name": "group-name", "Values": ["default"]},
    ]
    (group,) = account.client("ec2").describe_security_groups(Filters=filters)["SecurityGroups"]

    assert (group["IpPermissions"], group["IpPermissionsEgress"]) == ([], [])


def file_system_stands_in_the_training_subnet(account: Account) -> None:
    lustre = account.manifest().lustre
    assert lustre is not None and SPEC.lustre is not None
    (found,) = account.client("fsx").describe_file_systems(FileSystemIds=[lustre.id])["FileSystems"]

    assert found["SubnetIds"] == [lustre.subnet_id] == [account.manifest().subnets[0].id]
    assert found["StorageCapacity"] == SPEC.lustre.capacity_gib
    assert found["LustreConfiguration"]["MountName"] == lustre.mount_name


def lustre_ports_are_open_between_hosts_and_servers(account: Account) -> None:
    manifest = account.manifest()
    assert manifest.lustre is not None
    hosts, servers = manifest.security_group_ids[0], manifest.lustre.security_group_id

    def ports(group_id: str, direction: str, peer: str) -> list[tuple[int, int]]:
        return sorted(
            (permission["FromPort"], permission["ToPort"])
            for permission in account.security_group(group_id)[direction]
            if peer in [pair["GroupId"] for pair in permission["UserIdGroupPairs"]]
            and "FromPort" in permission
        )

    lustre = [(988, 988), (1018, 1023)]
    assert ports(servers, "IpPermissions", hosts) == lustre
    assert ports(servers, "IpPermissionsEgress", hosts) == lustre
    assert ports(hosts, "IpPermissions", servers) == lustre


def buckets_refuse_plain_http(account: Account) -> None:
    s3 = account.client("s3")
    for bucket in account.manifest().buckets.model_dump().values():
        policy = json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])
        conditions = [each.get("Condition") for each in policy["Statement"] if each["Effect"] == "Deny"]
        assert {"Bool": {"aws:SecureTransport": "false"}} in conditions


def role_is_for_sagemaker_and_reaches_the_cluster(account: Account) -> None:
    manifest, iam = account.manifest(), account.client("iam")
    name = manifest.role_arn.rpartition("/")[2]
    trust = iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
    policy = iam.get_role_policy(RoleName=name, PolicyName="TrainingJob")["PolicyDocument"]
    # moto gives an inline policy that CloudFormation made back as the text of a Python dict.
    statements = ast.literal_eval(policy)["Statement"]
    by_sid = {statement["Sid"]: statement for statement in statements}

    assert trust["Statement"][0]["Principal"] == {"Service": "sagemaker.amazonaws.com"}
    assert by_sid["ReadCode"]["Resource"] == f"arn:aws:s3:::{manifest.buckets.code}/*"
    assert by_sid["FindFileSystem"]["Resource"].endswith(
        f"file-system/{manifest.lustre and manifest.lustre.id}"
    )
