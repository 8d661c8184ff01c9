"""The real CDK command line deploys clusters into moto, and the account is read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.account.questions.ask_storage import fetch_bucket_encryption
from launcher.cluster.specification import NEW_KEY
from launcher.cluster.traffic import LUSTRE_TCP_PORTS, Direction, Passage, PortRange, passage
from tests.account.read_back import read_file_system, refuses_plain_http
from tests.stacks.command_line import REGION, ROOT, Account


@pytest.fixture(params=["dev", "p5-large"])
def account(endpoint: str, tmp_path: Path, request: pytest.FixtureRequest) -> Account:
    account = Account(endpoint, ROOT / "clusters" / f"{request.param}.yaml", tmp_path)
    done = account.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    return account


@pytest.mark.few_cases("dev")
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
    found = [subnet.availability_zone for subnet in subnets]
    assert [each.availability_zone for each in manifest.subnets] == found
    zones = account.client("ec2").describe_availability_zones(ZoneNames=found)["AvailabilityZones"]
    ids = {zone["ZoneName"]: zone["ZoneId"] for zone in zones}
    assert [ids[name] for name in found] == account.spec.availability_zones


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
    assert by_sid["ReadCode"]["Resource"] == f"arn:aws:s3:::{manifest.buckets.code}/code/*"
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


@pytest.mark.exhaustive
def test_a_hyperpod_cluster_finds_the_scripts_of_its_nodes(endpoint: str, tmp_path: Path) -> None:
    account = Account(endpoint, ROOT / "tests" / "stacks" / "clusters" / "hyperpod.yaml", tmp_path)
    done = account.deploy()
    assert done.returncode == 0, done.stdout + done.stderr

    described = account.client("sagemaker").describe_cluster(ClusterName="slipway-hyperpod")
    manifest = account.manifest().hyperpod
    assert manifest is not None
    assert (manifest.cluster_arn, manifest.entry_group) == (described["ClusterArn"], "entry")
    for group in described["InstanceGroups"]:
        scripts = group["LifeCycleConfig"]
        bucket, _, folder = scripts["SourceS3Uri"].removeprefix("s3://").partition("/")
        found = account.client("s3").list_objects_v2(Bucket=bucket, Prefix=folder)["Contents"]
        names = {each["Key"].removeprefix(folder) for each in found}
        assert names == {scripts["OnInitComplete"], "authorized_keys"}
