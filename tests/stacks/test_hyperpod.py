"""The HyperPod cluster of a cluster file, in the templates, in the account, and as people see it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws
from moto.sagemaker.models import sagemaker_backends

from launcher.aws.clients import Clients
from launcher.cli.cluster_view import destruction_table
from launcher.cluster.manifest import Cluster
from launcher.cluster.specification import ClusterSpec
from launcher.provisioning.rest_costs import rest_costs
from launcher.session.destroy_cluster import destroy, survey_cluster
from launcher.session.show_cluster import Presence, show_cluster
from tests.emulator.account import use_test_keys
from tests.session.deployed import ACCOUNT, REGION, client, deploy
from tests.stacks.statements import statements
from tests.stacks.synthesis import OTHERS, Synthesized, dev_spec, resources_of, synthesize

NODES = {"groups": [{"name": "a", "instance_type": "ml.g5.8xlarge", "count": 2}]}


@pytest.fixture(scope="module")
def whole() -> Synthesized:
    return synthesize(OTHERS["hyperpod"])


def cluster_in(synthesized: Synthesized) -> dict[str, Any]:
    (found,) = synthesized.resources("hyperpod", "AWS::SageMaker::Cluster").values()
    properties: dict[str, Any] = found["Properties"]
    return properties


def test_groups_are_as_the_file_says_and_the_controller_comes_first(whole: Synthesized) -> None:
    groups = cluster_in(whole)["InstanceGroups"]

    assert [each["InstanceGroupName"] for each in groups] == ["controller", "entry", "h100", "data"]
    assert [each["SlurmConfig"] for each in groups] == [
        {"NodeType": "Controller"},
        {"NodeType": "Login"},
        {"NodeType": "Compute", "PartitionNames": ["train"]},
        {"NodeType": "Compute", "PartitionNames": ["data"]},
    ]
    _, entry, h100, data = groups
    assert h100["TrainingPlanArn"].endswith("/p5-in-may")
    assert h100["OnStartDeepHealthChecks"] == ["InstanceStress", "InstanceConnectivity"]
    assert (entry["ThreadsPerCore"], data["ThreadsPerCore"]) == (2, 1)
    assert data["InstanceStorageConfigs"][1]["EbsVolumeConfig"]["VolumeSizeInGB"] == 500
    assert "VolumeKmsKeyId" in data["InstanceStorageConfigs"][1]["EbsVolumeConfig"]


def test_every_node_has_the_file_system_at_fsx(whole: Synthesized) -> None:
    for group in cluster_in(whole)["InstanceGroups"]:
        mounted = group["InstanceStorageConfigs"][0]["FsxLustreConfig"]
        assert mounted["MountPath"] == "/fsx"
        assert ".fsx.us-west-2." in json.dumps(mounted["DnsName"])


def test_slurm_is_kept_as_the_file_says_and_nodes_are_replaced(whole: Synthesized) -> None:
    properties = cluster_in(whole)

    assert properties["Orchestrator"] == {"Slurm": {"SlurmConfigStrategy": "Managed"}}
    assert properties["NodeRecovery"] == "Automatic"
    assert "NodeProvisioningMode" not in properties


def test_continuous_provisioning_takes_no_strategy() -> None:
    properties = cluster_in(synthesize(dev_spec(hyperpod={**NODES, "continuous": True, "recovery": "none"})))

    assert (properties["NodeProvisioningMode"], properties["NodeRecovery"]) == ("Continuous", "None")
    assert "Orchestrator" not in properties


def test_nodes_stand_beside_the_file_system_and_nothing_replaces_them_by_mistake(whole: Synthesized) -> None:
    """What is create-only is imported: of a weak reference a change set would plan a replacement."""
    (file_system,) = whole.resources("storage", "AWS::FSx::FileSystem").values()

    assert cluster_in(whole)["VpcConfig"]["Subnets"] == file_system["Properties"]["SubnetIds"]
    assert "Fn::GetStackOutput" not in json.dumps(cluster_in(whole)["VpcConfig"])


def test_nodes_stand_in_the_zone_of_a_file_system_that_exists() -> None:
    existing = {
        "id": "fs-0123456789abcdef0", "mount_name": "abcdefgh", "subnet_id": "subnet-0123456789abcdef0",
        "availability_zone": "us-west-2b", "security_group_id": "sg-0123456789abcdef0",
    }  # fmt: skip
    zones = ["us-west-2a", "us-west-2b"]
    made = synthesize(dev_spec(availability_zones=zones, lustre={"existing": existing}, hyperpod=NODES))

    assert "trainingSubnet2" in json.dumps(cluster_in(made)["VpcConfig"]["Subnets"])


def test_scripts_are_assets_in_a_folder_of_their_own(whole: Synthesized) -> None:
    assets = json.loads((whole.folder / "slipway-hyperpod-hyperpod.assets.json").read_text())["files"]
    keys = {
        destination["objectKey"]: whole.folder / each["source"]["path"]
        for each in assets.values()
        for destination in each["destinations"].values()
        if destination["objectKey"].startswith("slipway/")
    }
    life_cycle = cluster_in(whole)["InstanceGroups"][0]["LifeCycleConfig"]
    folder = life_cycle["SourceS3Uri"]["Fn::Join"][1][-1].partition("/")[2]

    assert {key.removeprefix(folder) for key in keys} == {life_cycle["OnInitComplete"], "authorized_keys"}
    assert "alice@example.com" in keys[f"{folder}authorized_keys"].read_text()
    script = keys[folder + life_cycle["OnInitComplete"]]
    assert subprocess.run(["bash", "-n", script]).returncode == 0


def test_other_keys_are_other_scripts_in_another_folder() -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFeD6tq0VvZ8j2O3jW0uBYb1Qq9cT4mXnqvR8sLk2p7W"
    places = {
        json.dumps(cluster_in(synthesize(dev_spec(hyperpod=each)))["InstanceGroups"][0]["LifeCycleConfig"])
        for each in (NODES, {**NODES, "ssh_keys": [key]})
    }

    assert len(places) == 2


def test_a_node_may_write_no_code_and_read_no_bucket_of_others(whole: Synthesized) -> None:
    of_nodes = [each for each in statements(whole) if each.where.startswith("hyperpod: HyperPodRole")]
    on_s3 = {
        (action, arn)
        for each in of_nodes
        for action in each.actions
        for arn in each.resources
        if action.startswith("s3:")
    }

    assert {action for action, arn in on_s3 if "BucketsCode" in arn and "Put" in action} == set()
    assert {arn.split("/")[0] for _, arn in on_s3 if "Buckets" not in arn} == {
        "arn:aws:s3:::corpus",
        f"arn:aws:s3:::cdk-hnb659fds-assets-111122223333-{REGION}",
    }
    assert not any(action.startswith("iam:") or "*" in action for each in of_nodes for action in each.actions)


def test_who_launches_may_log_in_and_open_no_other_session(whole: Synthesized) -> None:
    found = next(
        each
        for policy in resources_of(whole.template("access"), "AWS::IAM::ManagedPolicy").values()
        for each in policy["Properties"]["PolicyDocument"]["Statement"]
        if each["Sid"] == "LogInOnNodes"
    )

    assert found["Condition"] == {"BoolIfExists": {"ssm:SessionDocumentAccessCheck": "true"}}
    of_cluster, document = sorted(found["Resource"], key=str, reverse=True)
    assert "HyperPod" in str(of_cluster)
    assert document == f"arn:aws:ssm:{REGION}::document/AWS-StartSSHSession"


def test_a_cluster_without_one_lets_nobody_log_in_anywhere() -> None:
    assert "ssm:StartSession" not in json.dumps(synthesize(dev_spec()).template("access"))
    assert "hyperpod" not in json.dumps(synthesize(dev_spec()).template("manifest")["Resources"])


def test_nodes_cost_for_as_long_as_they_are_there(whole: Synthesized) -> None:
    lines = rest_costs([whole.template("hyperpod")], REGION)

    assert {each.what: each.quantity for each in lines} == {
        "HyperPod nodes of ml.m5.xlarge": 1,
        "HyperPod nodes of ml.m5.large": 1,
        "HyperPod nodes of ml.p5.48xlarge": 16,
        "HyperPod nodes of ml.c5.18xlarge": 2,
    }
    assert {each.reservation for each in lines} == {"price not known"}


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterSpec]:
    use_test_keys(monkeypatch, REGION)
    with mock_aws():
        spec = dev_spec(hyperpod=NODES)
        deploy(synthesize(spec), "dev")
        yield spec


def test_the_manifest_leads_to_the_cluster(account: ClusterSpec) -> None:
    text = client("ssm").get_parameter(Name="/slipway/clusters/dev")["Parameter"]["Value"]
    found = Cluster.model_validate_json(text).hyperpod

    assert found is not None
    described = client("sagemaker").describe_cluster(ClusterName="slipway-dev")
    assert (found.cluster_arn, found.entry_group) == (described["ClusterArn"], "controller")


def test_show_tells_how_many_nodes_of_each_group_there_are(account: ClusterSpec) -> None:
    made = sagemaker_backends[ACCOUNT][REGION].clusters["slipway-dev"]
    del made.nodes[next(name for name, each in made.nodes.items() if each.instance_group_name == "a")]

    (found,) = [each for each in show_cluster("dev", Clients(), REGION).things if each.purpose == "Slurm"]

    assert (found.kind, found.presence) == ("HyperPod cluster", Presence.THERE)
    assert found.detail == "InService, 1 of 1 controller, 1 of 2 a"


@pytest.mark.parametrize(
    ("status", "presence"), [("Updating", Presence.CHANGING), ("Failed", Presence.FAILED)]
)
def test_show_tells_a_cluster_that_changes_from_one_that_has_failed(
    status: str, presence: Presence, account: ClusterSpec
) -> None:
    made = sagemaker_backends[ACCOUNT][REGION].clusters["slipway-dev"]
    made.status, made.failure_message = status, "no capacity"

    shown = show_cluster("dev", Clients(), REGION)
    (found,) = [each for each in shown.things if each.purpose == "Slurm"]

    assert found.presence is presence
    assert f"{status}: no capacity" in found.detail
    assert shown.is_well is (presence is Presence.CHANGING)


def test_destroying_says_that_slurm_s_jobs_are_not_seen_and_takes_the_nodes_first(
    account: ClusterSpec, tmp_path: Path
) -> None:
    from rich.console import Console

    survey = survey_cluster("dev", Clients(), REGION)
    screen = Console(width=200, record=True, file=(tmp_path / "screen").open("w"))
    screen.print(destruction_table(survey))
    assert "goes, with what Slurm runs there: look with squeue" in screen.export_text()

    told: list[str] = []
    destroy(survey, Clients(), tell=told.append, sleep=lambda _: None)

    gone = [each for each in told if each.startswith("deleted slipway-dev-")]
    assert gone.index("deleted slipway-dev-hyperpod") < gone.index("deleted slipway-dev-storage")
    assert sagemaker_backends[ACCOUNT][REGION].clusters == {}
