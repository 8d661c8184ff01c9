"""The second day in short, within the process: a cluster grows, loses parts and goes away."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from launcher.cluster.manifest import Cluster
from launcher.cluster.specification import ClusterSpec
from tests.emulator.cloudformation.kinds.kind import Refused, kind_of
from tests.emulator.cloudformation.kinds.lustre import DataRepositoryAssociation
from tests.stacks.second_day.in_process import Account, Template, wanted_templates
from tests.stacks.synthesis import dev_spec

LUSTRE: dict[str, Any] = {"deployment": "PERSISTENT_2", "throughput": 125, "capacity_gib": 1200}
STORAGE = "slipway-dev-storage"
MANAGED = "slipway-dev-managed"


def cluster(**changes: Any) -> ClusterSpec:
    return dev_spec(**{"lustre": LUSTRE, "queue": {}, "removal_policy": "retain", **changes})


@pytest.fixture
def deployed(account: Account) -> Account:
    assert account.deploy(cluster()).failed is None
    return account


def test_a_second_deployment_changes_nothing(deployed: Account) -> None:
    outcome = deployed.deploy(cluster())

    assert (outcome.actions, outcome.failed) == ({}, None)


def test_a_first_deployment_that_fails_leaves_nothing_that_is_paid_for(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise Refused("BadRequest: FSx cannot read the bucket corpus.")

    monkeypatch.setattr(DataRepositoryAssociation, "create", refuse)
    links = [{"path": "/data", "s3_uri": "s3://corpus"}]
    outcome = account.deploy(cluster(lustre={**LUSTRE, "associations": links}))

    assert outcome.failed == STORAGE
    assert account.client("fsx").describe_file_systems()["FileSystems"] == []
    (only,) = account.client("s3").list_buckets()["Buckets"]
    assert "accesslogs" in only["Name"]
    (stack,) = account.cloudformation.describe_stacks(StackName=STORAGE)["Stacks"]
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"


def test_a_manifest_with_many_secrets_is_deployed(account: Account) -> None:
    """Beyond the 4,096 characters of a standard parameter of Systems Manager."""
    secrets = [f"team/{'x' * 190}{number:02}" for number in range(20)]
    outcome = account.deploy(cluster(secrets=secrets))
    answer = account.client("ssm").get_parameter(Name="/slipway/clusters/dev")["Parameter"]

    assert outcome.failed is None, outcome.reasons
    assert len(answer["Value"]) > 4096
    assert Cluster.model_validate_json(answer["Value"]).secrets == secrets


def test_a_network_that_cannot_be_made_leaves_no_vpc(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise Refused("AddressLimitExceeded: The maximum number of addresses has been reached.")

    before = len(account.client("ec2").describe_vpcs()["Vpcs"])
    monkeypatch.setattr(kind_of("AWS::EC2::EIP"), "create", refuse)

    assert account.deploy(cluster()).failed == "slipway-dev-network"
    assert len(account.client("ec2").describe_vpcs()["Vpcs"]) == before


@pytest.mark.exhaustive
def test_the_file_system_grows_in_place(deployed: Account) -> None:
    before = deployed.physical_id(STORAGE, "AWS::FSx::FileSystem")

    assert deployed.deploy(cluster(lustre={**LUSTRE, "capacity_gib": 2400})).failed is None
    (found,) = deployed.client("fsx").describe_file_systems()["FileSystems"]
    assert (found["FileSystemId"], found["StorageCapacity"]) == (before, 2400)


@pytest.mark.exhaustive
def test_more_hosts_move_no_address(deployed: Account) -> None:
    more = [{"instance_type": "ml.g5.8xlarge", "count": 40}]
    outcome = deployed.deploy(cluster(hosts=more))

    assert outcome.failed is None
    assert set(outcome.actions.values()) <= {"changed"}


@pytest.mark.exhaustive
def test_a_zone_more_is_a_subnet_more(deployed: Account) -> None:
    outcome = deployed.deploy(cluster(availability_zones=["usw2-az1", "usw2-az2"]))

    assert outcome.failed is None
    assert "replaced" not in outcome.actions.values()
    assert len(deployed.client("ec2").describe_subnets()["Subnets"]) >= 3


def test_the_last_zone_goes_in_one_deployment(account: Account) -> None:
    assert account.deploy(cluster(availability_zones=["usw2-az1", "usw2-az2"])).failed is None
    outcome = account.deploy(cluster())

    assert outcome.failed is None, outcome.reasons
    assert {"replaced", "left behind"}.isdisjoint(outcome.actions.values())
    subnets = account.client("ec2").describe_subnets(
        Filters=[{"Name": "availability-zone-id", "Values": ["usw2-az2"]}]
    )["Subnets"]
    assert [each for each in subnets if not each["DefaultForAz"]] == []


def test_lustre_goes_in_one_deployment(deployed: Account) -> None:
    outcome = deployed.deploy(cluster(lustre=None))

    assert outcome.failed is None, outcome.reasons
    # `retain`: the file system and the group that it stands in stay, and leave the stack.
    assert len(deployed.client("fsx").describe_file_systems()["FileSystems"]) == 1
    kept = [id_ for (stack, id_), action in outcome.actions.items() if action == "kept" and stack == STORAGE]
    assert any("FileSystem" in id_ for id_ in kept)
    assert "left behind" not in outcome.actions.values()


@pytest.mark.exhaustive
def test_the_queue_goes_in_one_deployment(deployed: Account) -> None:
    outcome = deployed.deploy(cluster(queue=None))

    assert outcome.failed is None, outcome.reasons
    assert not any("JobQueue" in str(template) for template in deployed.templates().values())


def test_a_cluster_that_lost_its_lustre_can_be_destroyed(deployed: Account) -> None:
    assert deployed.deploy(cluster(lustre=None)).failed is None
    outcome = deployed.destroy()

    assert outcome.failed is None, outcome.reasons
    (kept,) = deployed.client("fsx").describe_file_systems()["FileSystems"]
    assert deployed.client("ec2").describe_subnets(SubnetIds=kept["SubnetIds"])["Subnets"]


def test_a_retained_cluster_can_be_destroyed(deployed: Account) -> None:
    outcome = deployed.destroy()

    assert outcome.failed is None, outcome.reasons
    assert len(deployed.client("fsx").describe_file_systems()["FileSystems"]) == 1


def test_a_controller_comes_stays_when_its_code_is_exchanged_and_goes(account: Account) -> None:
    assert account.deploy(cluster()).failed is None
    came = account.deploy(cluster(managed=True, observability={}))
    (queue,) = [url for url in account.client("sqs").list_queues()["QueueUrls"] if "RunsEvents" in url]
    other = with_other_code(wanted_templates(cluster(managed=True, observability={})))
    exchanged = account.deploy_templates(other)

    assert (came.failed, exchanged.failed) == (None, None), (came.reasons, exchanged.reasons)
    assert exchanged.actions == {(MANAGED, "RunsFunction122DEA95"): "changed"}
    assert queue in account.client("sqs").list_queues()["QueueUrls"]

    gone = account.deploy(cluster(observability={}))
    assert gone.failed is None, gone.reasons
    assert "left behind" not in gone.actions.values()
    assert "QueueUrls" not in account.client("sqs").list_queues()
    groups = account.client("scheduler").list_schedule_groups()["ScheduleGroups"]
    assert [each["Name"] for each in groups] == ["default"]
    answer = account.client("ssm").get_parameter(Name="/slipway/clusters/dev")["Parameter"]
    assert Cluster.model_validate_json(answer["Value"]).controller_arn is None


def with_other_code(templates: dict[str, Template]) -> dict[str, Template]:
    """The templates as they are after a change of the launcher's source."""
    changed = copy.deepcopy(templates)
    function = changed[MANAGED]["Resources"]["RunsFunction122DEA95"]["Properties"]
    function["Code"]["S3Key"] = f"{'0' * 64}.zip"
    function["Environment"]["Variables"]["SLIPWAY_DIGEST"] = "0" * 64
    return changed
