"""What a cluster takes over is judged in the account before it is deployed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from launcher.aws.clients import Clients
from launcher.cluster.specification import ClusterSpec
from launcher.failure_modes.model import Finding
from launcher.session.clusters.adopted import judge_adopted
from launcher.session.clusters.plan import plan_update
from tests.emulator.account import REGION, EmulatedAccount
from tests.session.clusters.checkout import Checkout
from tests.stacks.synthesis import dev_spec

ZONE = f"{REGION}a"


def taking_over(account: EmulatedAccount, **changes: Any) -> ClusterSpec:
    network = {
        "vpc_id": account.ids["vpc"],
        "subnets": [{"id": account.ids["subnet"], "availability_zone": ZONE}],
        "security_group_id": account.ids["group"],
        **changes,
    }
    file_system = {
        "id": account.ids["file_system"],
        "mount_name": "abcdefgh",
        "subnet_id": account.ids["subnet"],
        "availability_zone": ZONE,
        "security_group_id": account.ids["file_system_group"],
    }
    return dev_spec(
        region=REGION,
        availability_zones=[],
        vpc={"existing": network},
        lustre={"existing": file_system},
    )


def found(spec: ClusterSpec) -> list[tuple[str, bool]]:
    return [(each.code, each.blocks) for each in judged(spec)]


def judged(spec: ClusterSpec) -> tuple[Finding, ...]:
    return judge_adopted(spec, Clients(), is_first=True)


def test_a_network_and_a_file_system_that_serve_are_taken_over(account: EmulatedAccount) -> None:
    assert found(taking_over(account)) == []


def test_a_group_without_a_rule_to_itself_is_refused_as_before_a_job(account: EmulatedAccount) -> None:
    ec2 = account.client("ec2")
    (group,) = ec2.describe_security_groups(GroupIds=[account.ids["group"]])["SecurityGroups"]
    itself = [each for each in group["IpPermissionsEgress"] if each["UserIdGroupPairs"]]
    ec2.revoke_security_group_egress(GroupId=account.ids["group"], IpPermissions=itself)

    assert ("EFA002", True) in found(taking_over(account))


def test_the_plan_names_it_as_an_obstacle(account: EmulatedAccount, tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    network = taking_over(account, security_group_id="sg-00000000000000000").vpc.model_dump(mode="json")
    checkout.wants(availability_zones=[], vpc=network)

    obstacles = plan_update("team", Clients(), folder=tmp_path).obstacles

    assert len(obstacles) == 1
    assert "EFA001 the security group sg-00000000000000000 does not exist in us-west-2" in obstacles[0]
    assert "`launch explain EFA001`" in obstacles[0]


def test_a_group_and_a_subnet_that_are_not_there_are_named(account: EmulatedAccount) -> None:
    nowhere = taking_over(account, security_group_id="sg-00000000000000000")

    assert any("sg-00000000000000000 does not exist" in each.message for each in judged(nowhere))


def test_a_file_system_that_is_not_there_is_refused(account: EmulatedAccount) -> None:
    account.client("fsx").delete_file_system(FileSystemId=account.ids["file_system"])

    assert ("FSX001", True) in found(taking_over(account))


def test_a_cluster_that_takes_over_nothing_is_not_asked_about(account: EmulatedAccount) -> None:
    assert judged(dev_spec()) == ()
