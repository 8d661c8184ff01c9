"""The real CDK command line deploys clusters into moto, and the account is read back."""

from __future__ import annotations

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

from launcher.account.network import NetworkState
from launcher.account.questions.storage import fetch_bucket_encryption
from launcher.cluster.manifest import Cluster
from launcher.cluster.security_groups import Direction, Passage, PortRange, SecurityGroup, passage
from launcher.cluster.specification import NEW_KEY, ClusterSpec, load_cluster_file
from launcher.cluster.training_network import LUSTRE_TCP_PORTS
from tests.account.read_back import read_file_system, read_network, refuses_plain_http
from tests.emulator import cloudformation

ROOT = Path(__file__).parents[2]
CDK = ROOT / "node_modules" / ".bin" / "cdk"
ACCOUNT, REGION = "123456789012", "us-west-2"
# moto takes a template's address for one of its own only where the bucket's name holds this word.
QUALIFIER = "localhost"


class Account:
    """moto's account, after `cdk deploy` of a cluster."""

    def __init__(self, endpoint: str, cluster: str) -> None:
        self.endpoint = endpoint
        self.spec: ClusterSpec = load_cluster_file(ROOT / "clusters" / f"{cluster}.yaml")

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )

    def manifest(self) -> Cluster:
        answer = self.client("ssm").get_parameter(Name=f"/slipway/clusters/{self.spec.name}")
        return Cluster.model_validate_json(answer["Parameter"]["Value"])

    def network(self) -> NetworkState:
        manifest = self.manifest()
        groups = [
            *manifest.security_group_ids,
            *([manifest.lustre.security_group_id] if manifest.lustre else []),
        ]
        return read_network(self.client("ec2"), [each.id for each in manifest.subnets], groups)

    def security_group(self, group_id: str) -> SecurityGroup:
        found = self.network().group(group_id)
        assert found is not None
        return found


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


@pytest.fixture(params=["dev", "p5-large"])
def account(endpoint: str, tmp_path: Path, request: pytest.FixtureRequest) -> Account:
    if not CDK.exists():
        pytest.fail(f"{CDK} is missing: run `npm ci`, which installs the AWS CDK command line")
    account = Account(endpoint, request.param)
    bootstrap(account)
    command = [
        str(CDK), "deploy", "--all", "--method", "direct", "--require-approval", "never",
        "--output", str(tmp_path / "cdk.out"), "--context", f"cluster={request.param}",
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
        buckets_are_encrypted_with_the_key_of_the_cluster,
        role_is_for_sagemaker_and_reaches_the_cluster,
        queue_and_topic_are_there_where_asked_for,
    ):
        with subtests.test(check.__name__):
            check(account)


def manifest_names_what_was_provisioned(account: Account) -> None:
    manifest = account.manifest()
    subnets = account.network().subnets

    assert manifest.name == account.spec.name
    assert manifest.region == REGION
    assert {subnet.vpc_id for subnet in subnets} == {manifest.vpc_id}
    assert [each.availability_zone for each in manifest.subnets] == account.spec.availability_zones
    assert [subnet.availability_zone for subnet in subnets] == account.spec.availability_zones


def efa_group_has_its_three_rules(account: Account) -> None:
    (group_id,) = account.manifest().security_group_ids
    group = account.security_group(group_id)

    def all_traffic(direction: Direction) -> list[str]:
        open_ = (each for each in group.towards(direction) if each.all_traffic)
        return sorted(peer for each in open_ for peer in (*each.groups, *each.ipv4))

    assert all_traffic("ingress") == [group_id]
    assert all_traffic("egress") == ["0.0.0.0/0", group_id]


def default_group_is_closed(account: Account) -> None:
    filters = [
        {"Name": "vpc-id", "Values": [account.manifest().vpc_id]},
        {"Name": "group-name", "Values": ["default"]},
    ]
    (group,) = account.client("ec2").describe_security_groups(Filters=filters)["SecurityGroups"]

    assert (group["IpPermissions"], group["IpPermissionsEgress"]) == ([], [])


def file_system_stands_in_the_training_subnet(account: Account) -> None:
    lustre = account.manifest().lustre
    wanted = account.spec.lustre
    assert lustre is not None and wanted is not None
    found = read_file_system(account.client("fsx"), account.client("ec2"), lustre.id)

    assert found is not None and found.serves
    assert found.subnet_id == lustre.subnet_id == account.manifest().subnets[0].id
    assert found.availability_zone == lustre.availability_zone
    assert found.capacity_gib == wanted.capacity_gib
    assert found.mount_name == lustre.mount_name
    assert found.deployment == wanted.deployment
    assert found.kms_key_arn == account.manifest().kms_key_arn


def lustre_ports_are_open_between_hosts_and_servers(account: Account) -> None:
    manifest = account.manifest()
    assert manifest.lustre is not None
    hosts, servers = manifest.security_group_ids[0], manifest.lustre.security_group_id

    def between(group: str, direction: Direction, ports: PortRange, peer: str) -> Passage:
        return passage([account.security_group(group)], direction, ports, peer_groups=[peer])

    for ports in LUSTRE_TCP_PORTS:
        assert between(servers, "ingress", ports, hosts) is Passage.OPEN
        assert between(servers, "egress", ports, hosts) is Passage.OPEN
        assert between(hosts, "ingress", ports, servers) is Passage.OPEN


def buckets_refuse_plain_http(account: Account) -> None:
    for bucket in account.manifest().buckets.model_dump().values():
        assert refuses_plain_http(account.client("s3"), bucket)


def buckets_are_encrypted_with_the_key_of_the_cluster(account: Account) -> None:
    manifest, s3 = account.manifest(), account.client("s3")
    assert (manifest.kms_key_arn is not None) == (account.spec.encryption == NEW_KEY)
    for bucket in manifest.buckets.model_dump().values():
        assert fetch_bucket_encryption(s3, bucket).kms_key_arn == manifest.kms_key_arn


def role_is_for_sagemaker_and_reaches_the_cluster(account: Account) -> None:
    manifest, iam = account.manifest(), account.client("iam")
    name = manifest.role_arn.rpartition("/")[2]
    trust = iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
    policy = iam.get_role_policy(RoleName=name, PolicyName="TrainingJob")["PolicyDocument"]
    by_sid = {statement["Sid"]: statement for statement in policy["Statement"]}

    assert trust["Statement"][0]["Principal"] == {"Service": "sagemaker.amazonaws.com"}
    assert by_sid["ReadCode"]["Resource"] == f"arn:aws:s3:::{manifest.buckets.code}/*"
    assert by_sid["FindFileSystem"]["Resource"] == "*"  # FSx knows no resources of it
    subnets = by_sid["UseInterfaces"]["Condition"]["ArnEquals"]["ec2:Subnet"]
    subnets = [subnets] if isinstance(subnets, str) else subnets
    assert [arn.rpartition("/")[2] for arn in subnets] == [subnet.id for subnet in manifest.subnets]


def queue_and_topic_are_there_where_asked_for(account: Account) -> None:
    manifest = account.manifest()

    assert (manifest.queue_arn is not None) == (account.spec.queue is not None)
    assert (manifest.topic_arn is not None) == (account.spec.observability is not None)
    if manifest.topic_arn:
        topic = account.client("sns").get_topic_attributes(TopicArn=manifest.topic_arn)["Attributes"]
        assert topic["KmsMasterKeyId"]
