"""`launch cluster destroy`: a cluster ends in moto's account, data, versions and late logs included."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from moto import mock_aws
from moto.s3.models import s3_backends

from launcher.cluster.files import load_cluster_file
from launcher.cluster.manifest import Lustre
from launcher.cluster.names import PARTS
from launcher.session import destroy_cluster as end
from launcher.session.destroy_cluster import KeptLustre
from tests.cli.conftest import RunLaunch
from tests.emulator.account import use_test_keys
from tests.emulator.buckets import emulated_buckets
from tests.emulator.running_jobs import emulated_search
from tests.session.deployed import ACCOUNT, REGION, client, deploy, stack_of
from tests.stacks.synthesis import Synthesized, dev_spec, synthesize

CLUSTER = "dev"
Jobs = list[dict[str, Any]]


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    """An account of moto; what is put into the list are jobs that have not ended."""
    use_test_keys(monkeypatch, REGION)
    running: Jobs = []
    with mock_aws(), emulated_search(running), emulated_buckets():
        yield running


def cluster(removal_policy: str) -> Synthesized:
    return synthesize(dev_spec(removal_policy=removal_policy))


def bucket(purpose: str) -> str:
    stack = stack_of(f"slipway-{CLUSTER}-storage")
    return next(
        each.physical_id
        for name, each in stack.resources.items()
        if name.startswith(f"Buckets{purpose}") and "Policy" not in name
    )


def fill(name: str, objects: int = 3) -> None:
    s3 = client("s3")
    for number in range(objects):
        # As S3's call does in the end, which takes a hundred times as long.
        s3_backends[ACCOUNT]["aws"].put_object(name, f"object-{number}", b"four")
    s3.delete_object(Bucket=name, Key="object-0")
    s3.create_multipart_upload(Bucket=name, Key="never-finished")


def destroy(run_launch: RunLaunch, *arguments: str) -> tuple[int, dict[str, Any], str]:
    code, out, err = run_launch("cluster", "destroy", CLUSTER, "--output", "json", *arguments)
    document: dict[str, Any] = json.loads(out) if out else {}
    return code, document, err


def stacks() -> list[str]:
    listed = client("cloudformation").describe_stacks()["Stacks"]
    return [each["StackName"] for each in listed if each["StackStatus"] != "DELETE_COMPLETE"]


def buckets() -> list[str]:
    names = [each["Name"] for each in client("s3").list_buckets()["Buckets"]]
    return [name for name in names if not name.startswith("cdk-")]


def test_a_cluster_with_data_versions_and_access_logs_ends(run_launch: RunLaunch, jobs: Jobs) -> None:
    deploy(cluster("destroy"), CLUSTER)
    for purpose in ("Code", "Checkpoints", "AccessLogs"):
        fill(bucket(purpose))
    code, document, err = destroy(run_launch, "--confirm", CLUSTER)
    assert (code, stacks(), buckets()) == (0, [], [])
    assert document["aftermath"] == {"kept": [], "left_over": [], "unseen": None}
    assert [each["name"].rpartition("-")[2] for each in document["stacks"]] == [
        "manifest", "managed", "observability", "access", "hyperpod", "queue", "storage", "network",
    ]  # fmt: skip
    assert "deleted slipway-dev-network" in err
    assert document["frees"]["usd_a_month"] == 204.5
    assert client("logs").describe_log_groups()["logGroups"] == []


def test_a_controller_ends_with_its_cluster_and_the_runs_stay_with_their_bucket(
    run_launch: RunLaunch, jobs: Jobs
) -> None:
    deploy(synthesize(dev_spec(removal_policy="retain", lustre=None, managed=True)), CLUSTER)
    code_bucket = bucket("Code")
    client("s3").put_object(Bucket=code_bucket, Key="runs/llama/run.json", Body=b"{}")
    code, document, _ = destroy(run_launch, "--confirm", CLUSTER)
    assert (code, stacks(), document["aftermath"]["left_over"]) == (0, [], [])
    assert "QueueUrls" not in client("sqs").list_queues()
    assert client("s3").get_object(Bucket=code_bucket, Key="runs/llama/run.json")


def test_every_version_marker_and_upload_is_counted(run_launch: RunLaunch, jobs: Jobs) -> None:
    deploy(cluster("destroy"), CLUSTER)
    fill(bucket("Checkpoints"), objects=1_100)
    _, document, _ = destroy(run_launch, "--dry-run")
    (counted,) = [each for each in document["buckets"] if each["name"] == bucket("Checkpoints")]
    numbers = {name: counted[name] for name in counted if name != "name"}
    assert numbers == {
        "objects": 1_099, "older_versions": 1, "delete_markers": 1, "uploads": 1, "bytes": 4_400,
    }  # fmt: skip


def test_a_dry_run_changes_nothing(run_launch: RunLaunch, jobs: Jobs) -> None:
    deploy(cluster("retain"), CLUSTER)
    fill(bucket("Code"))
    code, out, err = run_launch("cluster", "destroy", CLUSTER, "--dry-run")
    assert code == 0 and "deleting" not in err
    assert len(stacks()) == len(PARTS) and stack_of("slipway-dev-storage").protected
    assert "protected: the protection is taken away" in out and "IS KEPT" in out


def test_what_is_kept_is_told_and_stays(run_launch: RunLaunch, jobs: Jobs) -> None:
    deploy(synthesize(dev_spec(removal_policy="retain", lustre=None)), CLUSTER)
    fill(bucket("Code"))
    names = buckets()
    code, document, _ = destroy(run_launch, "--confirm", CLUSTER)
    assert (code, stacks(), buckets()) == (0, [], names)
    kept = {each["id"] for each in document["kept"] if each["type"] == "AWS::S3::Bucket"}
    assert kept == set(names) and document["buckets"] == []
    assert {f"arn:aws:s3:::{name}" for name in names} <= set(document["aftermath"]["kept"])
    assert document["aftermath"]["left_over"] == []


def test_the_line_that_takes_a_kept_file_system_back_is_told_in_full(
    run_launch: RunLaunch, jobs: Jobs
) -> None:
    deploy(cluster("retain"), CLUSTER)
    _, document, _ = destroy(run_launch, "--dry-run")
    manifest = json.loads(client("ssm").get_parameter(Name="/slipway/clusters/dev")["Parameter"]["Value"])
    assert document["take_back"]["lustre"] == {"existing": manifest["lustre"]}
    assert document["take_back"]["vpc"]["existing"]["vpc_id"] == manifest["vpc_id"]
    assert document["keeps"]["usd_a_month"] == 168 and document["frees"]["usd_a_month"] == 36.5


@pytest.mark.parametrize("at", ["the first run", "only the network being left", "nothing being left"])
def test_the_lines_that_take_it_back_are_read_by_the_cluster_file(
    run_launch: RunLaunch, jobs: Jobs, tmp_path: Path, at: str
) -> None:
    deploy(cluster("retain"), CLUSTER)
    manifest = json.loads(client("ssm").get_parameter(Name="/slipway/clusters/dev")["Parameter"]["Value"])
    if at != "the first run":
        parts = [
            "manifest",
            "managed",
            "observability",
            "access",
            "queue",
            "storage",
            *(["network"] if at.startswith("nothing") else []),
        ]
        for part in parts:
            stack_of(f"slipway-dev-{part}").protected = False
            client("cloudformation").delete_stack(StackName=f"slipway-dev-{part}")
    code, out, _ = run_launch("cluster", "destroy", CLUSTER, "--confirm", CLUSTER)
    assert (code, stacks()) == (0, [])
    assert "kept on purpose:" in out and "left over" not in out
    lines = [line for line in out.splitlines() if line.startswith(("  lustre: ", "  vpc: "))]
    file = tmp_path / "dev.yaml"
    hosts = "hosts: [{instance_type: ml.g5.8xlarge, count: 2}]"
    file.write_text("\n".join(["name: dev", "region: us-west-2", hosts, *(line.strip() for line in lines)]))
    spec = load_cluster_file(file)
    assert spec.lustre and spec.lustre.existing and spec.vpc.existing
    assert spec.lustre.existing.model_dump() == manifest["lustre"]
    assert spec.vpc.existing.security_group_id == manifest["security_group_ids"][0]
    assert [each.id for each in spec.vpc.existing.subnets] == [manifest["lustre"]["subnet_id"]]


def test_what_an_earlier_cluster_of_the_name_kept_is_not_left_over(run_launch: RunLaunch, jobs: Jobs) -> None:
    for _ in range(2):
        deploy(cluster("retain"), CLUSTER)
        code, document, _ = destroy(run_launch, "--confirm", CLUSTER)
        assert (code, document["aftermath"]["left_over"]) == (0, [])
    file_systems = [each for each in document["aftermath"]["kept"] if ":file-system/" in each]
    assert len(file_systems) == 2


def test_of_a_vpc_that_was_there_before_only_the_file_system_is_taken_back() -> None:
    lustre = Lustre(
        id="fs-0123456789abcdef0", mount_name="12e45678", subnet_id="subnet-01234567",
        availability_zone="us-west-2a", security_group_id="sg-01234567",
    )  # fmt: skip
    (line,) = KeptLustre(lustre, vpc_id="", hosts_group_id="").lines
    assert yaml.safe_load(line)["lustre"]["existing"] == lustre.model_dump()
    assert 'mount_name: "12e45678"' in line  # Bare it is a number in YAML 1.2.


def test_what_cannot_be_deleted_is_named_with_the_reason(run_launch: RunLaunch, jobs: Jobs) -> None:
    deploy(cluster("destroy"), CLUSTER)
    group = next(
        each.physical_id for name, each in stack_of("slipway-dev-network").resources.items() if "Efa" in name
    )
    vpc = client("ec2").describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["VpcId"]
    subnet = client("ec2").describe_subnets(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["Subnets"][0]
    client("ec2").create_network_interface(SubnetId=subnet["SubnetId"], Groups=[group])
    code, _, err = destroy(run_launch, "--confirm", CLUSTER)
    assert code == 3 and stacks() == ["slipway-dev-network"]
    assert (
        f"AWS::EC2::SecurityGroup {group}: DependencyViolation" in err and "goes on where it stopped" in err
    )


def test_what_carries_the_tag_and_no_stack_made_is_left_over(run_launch: RunLaunch, jobs: Jobs) -> None:
    deploy(cluster("destroy"), CLUSTER)
    client("sns").create_topic(Name="by-hand", Tags=[{"Key": "slipway:cluster", "Value": CLUSTER}])
    client("sns").create_topic(Name="another", Tags=[{"Key": "slipway:cluster", "Value": "other"}])
    code, document, _ = destroy(run_launch, "--confirm", CLUSTER)
    assert code == 1
    assert document["aftermath"]["left_over"] == ["arn:aws:sns:us-west-2:123456789012:by-hand"]


def test_another_cluster_whose_name_begins_alike_is_not_touched(run_launch: RunLaunch, jobs: Jobs) -> None:
    deploy(synthesize(dev_spec(name="dev-two", removal_policy="destroy")), "dev-two")
    deploy(cluster("destroy"), CLUSTER)
    code, _, _ = destroy(run_launch, "--confirm", CLUSTER)
    assert code == 0 and stacks() and all(each.startswith("slipway-dev-two-") for each in stacks())
    assert len(buckets()) == 4


@pytest.mark.parametrize("by", ["role", "subnet", "tag"])
def test_while_a_job_of_the_cluster_runs_nothing_is_destroyed(
    run_launch: RunLaunch, jobs: Jobs, by: str
) -> None:
    deploy(cluster("destroy"), CLUSTER)
    manifest = json.loads(client("ssm").get_parameter(Name="/slipway/clusters/dev")["Parameter"]["Value"])
    job: dict[str, Any] = {
        "role": {"RoleArn": manifest["role_arn"]},
        "subnet": {"VpcConfig": {"Subnets": [manifest["subnets"][0]["id"]], "SecurityGroupIds": ["sg-1"]}},
        "tag": {"Tags": [{"Key": "slipway:cluster", "Value": CLUSTER}]},
    }[by]
    others = {"TrainingJobName": "others", "RoleArn": "arn:aws:iam::123456789012:role/another"}
    jobs += [others, {"TrainingJobName": "mine", "TrainingJobStatus": "InProgress", **job}]
    code, document, err = destroy(run_launch, "--confirm", CLUSTER)
    assert code == 1 and len(stacks()) == len(PARTS)
    assert document["jobs"] == [{"name": "mine", "place": "running"}] and document["aftermath"] is None
    assert "mine (running)" in err and "launch stop JOB" in err


def test_a_stack_that_is_being_updated_is_left_alone(run_launch: RunLaunch, jobs: Jobs) -> None:
    deploy(cluster("destroy"), CLUSTER)
    stack_of("slipway-dev-access").status = "UPDATE_IN_PROGRESS"
    code, _, err = destroy(run_launch, "--confirm", CLUSTER)
    assert code == 1 and len(stacks()) == len(PARTS)
    assert "slipway-dev-access (UPDATE_IN_PROGRESS)" in err


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "ends"), [("dev", True), ("", False), ("dev-two", False), ("y", False)])
def test_at_a_terminal_the_name_is_asked_for(
    run_launch: RunLaunch, jobs: Jobs, monkeypatch: pytest.MonkeyPatch, typed: str, ends: bool
) -> None:
    deploy(cluster("destroy"), CLUSTER)
    monkeypatch.setattr("sys.stdin", Terminal(f"{typed}\n"))
    code, _, err = destroy(run_launch)
    assert "Type the cluster's name (dev) to destroy it: " in err
    assert (code, len(stacks())) == ((0, 0) if ends else (2, len(PARTS)))
    assert ends or "nothing was done" in err


def test_without_a_terminal_nothing_is_destroyed(
    run_launch: RunLaunch, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(cluster("destroy"), CLUSTER)
    monkeypatch.setattr("sys.stdin", StringIO("dev\n"))
    code, _, err = destroy(run_launch)
    assert code == 2 and len(stacks()) == len(PARTS) and "--confirm dev" in err


def test_a_wrong_confirmation_is_refused_before_anything_is_asked(run_launch: RunLaunch) -> None:
    code, out, err = run_launch("cluster", "destroy", CLUSTER, "--confirm", "prod")
    assert (code, out) == (2, "") and "--confirm prod is not the name" in err


def test_of_a_cluster_that_is_gone_only_leftovers_are_looked_for(run_launch: RunLaunch, jobs: Jobs) -> None:
    deploy(cluster("destroy"), CLUSTER)
    destroy(run_launch, "--confirm", CLUSTER)
    code, document, _ = destroy(run_launch)
    assert (code, document["stacks"]) == (0, [])
    assert document["aftermath"] == {"kept": [], "left_over": [], "unseen": None}


def test_a_cluster_that_there_never_was_is_refused(run_launch: RunLaunch, jobs: Jobs) -> None:
    code, out, err = run_launch("cluster", "destroy", "never", "--confirm", "never")
    assert (code, out) == (2, "") and "no cluster named never is deployed in us-west-2" in err


class Interrupted(StringIO):
    def isatty(self) -> bool:
        return True

    def readline(self, *_: Any) -> str:
        raise KeyboardInterrupt


def test_who_interrupts_is_told_what_was_done(
    run_launch: RunLaunch, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(cluster("destroy"), CLUSTER)
    monkeypatch.setattr("sys.stdin", Interrupted())
    code, _, err = destroy(run_launch)
    assert (code, len(stacks())) == (130, len(PARTS)) and "nothing was done" in err

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(end, "wait_until_deleted", interrupted)
    code, _, err = destroy(run_launch, "--confirm", CLUSTER)
    assert code == 130 and "run it again and it goes on: launch cluster destroy dev" in err
