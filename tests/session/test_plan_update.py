"""What an update would do to a cluster, and what it takes over, judged before it is deployed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from moto.core.exceptions import JsonRESTError
from moto.sagemaker.responses import SageMakerResponse

from launcher.aws.clients import Clients
from launcher.cluster.names import PARTS
from launcher.cluster.specification import ClusterSpec
from launcher.failure_modes.model import AwsRefusal, Finding, Refusal
from launcher.provisioning.updates import Fate, StackFate
from launcher.session.plan_update import ClusterPlan, judge_adopted, plan_update, synthesize
from tests.emulator.account import REGION, EmulatedAccount
from tests.session.checkout import TEAM, Checkout, deploy, hold_stack
from tests.stacks.synthesis import ROOT, cluster, dev_spec

CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))

GROWN = {"lustre": {**TEAM["lustre"], "capacity_gib": 4800}}
FASTER = {"lustre": {**TEAM["lustre"], "throughput": 250}}


@pytest.fixture
def checkout(tmp_path: Path, account: EmulatedAccount) -> Checkout:
    return Checkout(tmp_path)


def planned(checkout: Checkout, **options: Any) -> ClusterPlan:
    return plan_update("team", Clients(), folder=checkout.folder, **options)


def test_nothing_deployed_is_a_first_deployment(checkout: Checkout) -> None:
    checkout.wants()
    plan = planned(checkout)

    assert plan.is_first and plan.changes_something
    with_something = [each.fate for each in plan.stacks if each.resources]
    assert set(with_something) == {StackFate.NEW}
    assert (plan.fields, plan.obstacles) == (None, ())
    assert plan.command == "npx cdk deploy --all -c cluster=team"


def test_what_is_deployed_already_changes_nothing(checkout: Checkout) -> None:
    deploy(checkout.wants())
    plan = planned(checkout)

    assert not plan.changes_something
    assert (plan.fields, plan.jobs, plan.notes, plan.obstacles) == ((), None, (), ())


def test_growth_in_place_is_allowed(checkout: Checkout) -> None:
    deploy(checkout.wants())
    checkout.wants(**GROWN)
    plan = planned(checkout)

    assert [each.field for each in plan.fields or ()] == ["lustre.capacity_gib"]
    changed = {each.type: each.fate for stack in plan.stacks for each in stack.resources}
    assert changed["AWS::FSx::FileSystem"] is Fate.CHANGED
    assert set(changed.values()) == {Fate.CHANGED}
    assert plan.obstacles == ()


def test_replaced_data_stand_in_the_way_until_asked_for(checkout: Checkout) -> None:
    deploy(checkout.wants())
    checkout.wants(**FASTER)
    refused, asked = planned(checkout), planned(checkout, replace_data=True)

    assert any(each.startswith("`lustre.throughput` replaces data") for each in refused.obstacles)
    assert any("data are lost or left behind" in each for each in refused.obstacles)
    assert not any("data" in each.partition(":")[2] for each in asked.obstacles if "export" not in each)
    assert asked.command.endswith("-c replace_data=true")


def test_what_aws_refuses_stands_in_the_way_whatever_is_asked_for(checkout: Checkout) -> None:
    deploy(checkout.wants(**GROWN))
    checkout.wants()

    (obstacle,) = planned(checkout, replace_data=True).obstacles
    assert obstacle == "`lustre.capacity_gib`: AWS refuses the change: FSx does not shrink a file system."


def test_a_cluster_of_an_earlier_version_is_compared_by_its_templates(checkout: Checkout) -> None:
    deploy(checkout.wants(), without_file=True)
    checkout.wants(**FASTER)
    plan = planned(checkout)

    assert plan.fields is None
    assert any("not known with which cluster file" in each for each in plan.notes)
    assert any("data are lost or left behind" in each for each in plan.obstacles)


def test_the_jobs_of_the_cluster_that_would_be_hit_are_named(
    checkout: Checkout, account: EmulatedAccount
) -> None:
    account.running_jobs += [
        {"TrainingJobName": "ours", "Tags": [{"Key": "slipway:cluster", "Value": "team"}]},
        {"TrainingJobName": "another-team-s", "RoleArn": "arn:aws:iam::123456789012:role/other"},
    ]
    deploy(checkout.wants())
    checkout.wants(vpc={**TEAM["vpc"], "nat": False})

    assert [(job.name, job.place) for job in planned(checkout).jobs or ()] == [("ours", "running")]


def test_jobs_that_cannot_be_seen_are_said(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_: SageMakerResponse) -> None:
        raise JsonRESTError("AccessDeniedException", "not authorized to perform: sagemaker:Search")

    monkeypatch.setattr(SageMakerResponse, "search", denied)
    deploy(checkout.wants(observability={}))
    checkout.wants()
    plan = planned(checkout)

    assert plan.jobs is None
    assert any(each.startswith("Whether jobs of the cluster run could not be seen") for each in plan.notes)


@pytest.mark.parametrize("status", ["UPDATE_IN_PROGRESS", "UPDATE_ROLLBACK_FAILED"])
def test_a_stack_that_cannot_be_updated_now_stands_in_the_way(checkout: Checkout, status: str) -> None:
    synthesized = checkout.wants()
    hold_stack("slipway-team-network", synthesized.template("network"), status)

    (obstacle,) = planned(checkout).obstacles
    assert obstacle.startswith(f"slipway-team-network is {status}")


def test_the_stacks_of_a_cluster_with_a_longer_name_are_not_its_own(checkout: Checkout) -> None:
    synthesized = checkout.wants()
    hold_stack("slipway-team-two-network", synthesized.template("network"))
    hold_stack("slipway-team-access", synthesized.template("access"), "ROLLBACK_COMPLETE")

    assert planned(checkout).is_first


@pytest.mark.parametrize(("settings", "said"), CASES["apps"])
def test_an_app_that_cannot_be_synthesized_is_told(
    checkout: Checkout, settings: str | None, said: str
) -> None:
    checkout.wants()
    file = checkout.folder / "cdk.json"
    file.unlink()
    if settings is not None:
        file.write_text(settings)

    with pytest.raises(Refusal, match=said):
        planned(checkout)


def test_a_mistake_in_the_cluster_file_is_told_before_aws_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "clusters").mkdir()
    (tmp_path / "clusters" / "team.yaml").write_text("name: team\nregion: us-west-2\n")

    with pytest.raises(Refusal, match=r"team\.yaml:1:1: SPEC003 `hosts` is missing"):
        planned(Checkout(tmp_path))


def test_without_credentials_it_is_aws_that_refuses(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    checkout.wants()

    with pytest.raises(AwsRefusal, match="no AWS credentials were found"):
        planned(checkout)


ZONE = f"{REGION}a"


def taking_over(account: EmulatedAccount, **changes: Any) -> ClusterSpec:
    network = {
        "vpc_id": account.ids["vpc"],
        "subnets": [{"id": account.ids["subnet"], "availability_zone": ZONE}],
        "security_group_id": account.ids["group"],
        **changes,
    }
    existing = {"vpc": {"existing": network}, "lustre": {"existing": account.manifest()["lustre"]}}
    return dev_spec(region=REGION, availability_zones=[], **existing)


def found(spec: ClusterSpec) -> list[tuple[str, bool]]:
    return [(each.code, each.blocks) for each in judged(spec)]


def judged(spec: ClusterSpec) -> tuple[Finding, ...]:
    return judge_adopted(spec, Clients(), is_first=True)


def test_a_network_and_a_file_system_that_serve_are_taken_over(account: EmulatedAccount) -> None:
    assert found(taking_over(account)) == []
    # A cluster that takes over nothing is not asked about.
    assert judged(dev_spec()) == ()


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


def test_a_file_system_that_is_not_there_is_refused(account: EmulatedAccount) -> None:
    account.client("fsx").delete_file_system(FileSystemId=account.ids["file_system"])

    assert ("FSX001", True) in found(taking_over(account))


def test_the_app_of_this_checkout_is_run_as_the_command_line_runs_it() -> None:
    found = synthesize("dev", ROOT)
    expected = cluster("dev")

    assert [name.rpartition("-")[2] for name, each in found.items() if each.get("Resources")] == list(PARTS)
    resources = found["slipway-dev-storage"]["Resources"]
    assert resources.keys() == expected.template("storage")["Resources"].keys()
    assert "slipway-dev-storage/FileSystem/Resource" in json.dumps(resources)
