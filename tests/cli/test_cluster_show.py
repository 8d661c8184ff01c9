"""`launch cluster show`: what is deployed, seen in moto's account."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

from tests.cli.conftest import RunLaunch
from tests.emulator.account import use_test_keys
from tests.session.deployed import ACCOUNT, REGION, client, deploy, stack_of
from tests.stacks import synthesis

CLUSTER = "p4d"


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    use_test_keys(monkeypatch, REGION)
    with mock_aws():
        deploy(synthesis.cluster(CLUSTER), CLUSTER)
        yield


def shown(run_launch: RunLaunch, name: str = CLUSTER) -> tuple[int, dict[str, Any]]:
    code, out, _ = run_launch("cluster", "show", name, "--output", "json")
    document: dict[str, Any] = json.loads(out)
    return code, document


def thing(document: dict[str, Any], kind: str, purpose: str) -> dict[str, Any]:
    (found,) = [each for each in document["things"] if (each["kind"], each["purpose"]) == (kind, purpose)]
    return dict(found)


@pytest.mark.usefixtures("account")
def test_all_of_a_cluster_is_told(run_launch: RunLaunch) -> None:
    code, document = shown(run_launch)
    assert (code, document["well"], document["missing"], document["unverified"]) == (0, True, [], [])
    assert document["account"] == ACCOUNT
    parts = ("network", "storage", "queue", "hyperpod", "access", "observability", "managed", "manifest")
    assert [each["name"] for each in document["stacks"]] == [f"slipway-{CLUSTER}-{part}" for part in parts]
    assert {each["state"] for each in document["things"]} == {"there"}
    assert not any(each["adopted"] for each in document["things"])
    purposes = [each["purpose"] for each in document["things"] if each["kind"] == "bucket"]
    assert purposes == ["code", "checkpoints", "output", "access logs"]
    assert "free addresses" in document["things"][0]["detail"]
    assert thing(document, "file system", "Lustre")["detail"] == "AVAILABLE, SCRATCH_2, 9,600 GiB"
    assert document["cost"]["usd_a_month"] == 1384.6 and document["cost"]["complete"]
    assert document["manifest"]["name"] == CLUSTER


@pytest.mark.usefixtures("account")
def test_the_table_names_stacks_things_and_costs(run_launch: RunLaunch) -> None:
    code, out, _ = run_launch("cluster", "show", CLUSTER)
    assert code == 0
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    assert "protected from deletion" in lines[f"slipway-{CLUSTER}-storage"]
    assert "1,384.60" in lines["together"]
    assert "role/slipway-p4d-access-TrainingRole" in lines["role"]
    assert "arn:" not in out


@pytest.mark.usefixtures("account")
def test_what_somebody_took_away_is_missing(run_launch: RunLaunch) -> None:
    _, before = shown(run_launch)
    client("s3").delete_bucket(Bucket=thing(before, "bucket", "output")["id"])
    client("fsx").delete_file_system(FileSystemId=thing(before, "file system", "Lustre")["id"])
    code, document = shown(run_launch)
    assert (code, document["well"]) == (1, False)
    missing = [each["purpose"] for each in document["things"] if each["state"] == "missing"]
    assert missing == ["Lustre", "output"]


@pytest.mark.usefixtures("account")
def test_a_stack_and_a_manifest_that_are_gone_are_missing(run_launch: RunLaunch) -> None:
    client("cloudformation").delete_stack(StackName=f"slipway-{CLUSTER}-manifest")
    client("ssm").delete_parameters(Names=[f"/slipway/clusters/{CLUSTER}"])
    code, document = shown(run_launch)
    assert (code, document["missing"]) == (1, ["the manifest stack", "the manifest"])
    assert document["manifest"] is None
    assert {"bucket", "subnet", "file system"} <= {each["kind"] for each in document["things"]}


@pytest.mark.usefixtures("account")
def test_what_failed_is_told_with_its_reason(run_launch: RunLaunch) -> None:
    stack = stack_of(f"slipway-{CLUSTER}-storage")
    stack.status, stack.reason = "UPDATE_ROLLBACK_FAILED", "The export is in use."
    code, out, _ = run_launch("cluster", "show", CLUSTER)
    assert code == 1
    assert "UPDATE_ROLLBACK_FAILED" in out and "The export is in use." in out


@pytest.mark.usefixtures("account")
def test_a_permission_that_is_missing_hides_nothing_else(
    run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    from launcher.failure_modes.model import AwsRefusal
    from launcher.session import show_cluster

    def refused(*_: Any) -> None:
        raise AwsRefusal("AWS refused to look at the key: AccessDenied.", "Ask for it.")

    monkeypatch.setitem(show_cluster._FETCHES, "key", ("kms", "kms:DescribeKey", refused))
    code, document = shown(run_launch)
    assert code == 0  # What was not seen is neither good nor bad.
    assert {each["permission"] for each in document["unverified"]} == {"kms:DescribeKey"}
    keys = {each["state"] for each in document["things"] if each["kind"] == "key"}
    assert keys == {"unverified"}


@pytest.mark.usefixtures("account")
def test_the_picture_is_of_this_cluster(run_launch: RunLaunch, tmp_path: Path) -> None:
    code, _, err = run_launch("cluster", "show", CLUSTER, "--picture", tmp_path / "p4d.svg")
    svg = (tmp_path / "p4d.svg").read_text("utf-8")
    assert code == 0 and f"wrote {tmp_path / 'p4d.svg'}" in err
    assert "Lustre SCRATCH_2, 9,600 GiB" in svg and "textLength" in svg
    assert "AWS Batch" not in svg


@pytest.mark.usefixtures("account")
def test_a_picture_that_cannot_be_written_is_refused(run_launch: RunLaunch, tmp_path: Path) -> None:
    code, out, err = run_launch("cluster", "show", CLUSTER, "--picture", tmp_path / "no" / "p4d.svg")
    assert (code, out) == (2, "")
    assert "No such file or directory" in err and "Traceback" not in err


@pytest.mark.usefixtures("account")
def test_a_cluster_that_is_not_there_is_refused(run_launch: RunLaunch) -> None:
    code, out, err = run_launch("cluster", "show", "nowhere")
    assert (code, out) == (2, "")
    assert "no cluster named nowhere is deployed in us-west-2" in err and "cluster=nowhere" in err


def test_without_a_region_nothing_is_asked(run_launch: RunLaunch) -> None:
    code, _, err = run_launch("cluster", "show", "nowhere")
    assert code == 2 and "AWS_REGION" in err


@pytest.mark.usefixtures("account")
def test_the_region_of_the_cluster_s_file_counts_where_none_is_configured(
    run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(synthesis.ROOT)
    monkeypatch.delenv("AWS_REGION")
    assert shown(run_launch)[1]["region"] == REGION
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    code, _, err = run_launch("cluster", "show", CLUSTER)
    assert code == 2 and "set AWS_REGION (its file says us-west-2)" in err


@pytest.mark.parametrize("command", ["show", "destroy"])
def test_a_path_is_not_a_name(run_launch: RunLaunch, command: str) -> None:
    code, out, err = run_launch("cluster", command, "clusters/p4d.yaml")
    assert (code, out) == (2, "")
    assert "clusters/p4d.yaml is not the name of a cluster" in err and "Give the name alone" in err


def test_a_file_system_that_was_there_before_is_shown_and_not_in_the_cost(
    run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_test_keys(monkeypatch, REGION)
    with mock_aws():
        deploy(synthesis.synthesize(synthesis.dev_spec(removal_policy="retain")), "dev")
        run_launch("cluster", "destroy", "dev", "--confirm", "dev")
        _, out, _ = run_launch("cluster", "destroy", "dev", "--output", "json")
        sections = json.loads(out)["take_back"]
        again = synthesis.dev_spec(**sections, availability_zones=[], removal_policy="destroy")
        deploy(synthesis.synthesize(again), "dev")
        code, document = shown(run_launch, "dev")
        _, table, _ = run_launch("cluster", "show", "dev")
    kept = sections["lustre"]["existing"]["id"]
    found = thing(document, "file system", "Lustre")
    assert (code, found["id"], found["state"], found["adopted"]) == (0, kept, "there", True)
    assert not [each for each in document["cost"]["lines"] if "Lustre" in each["what"]]
    assert f"not in it: the file system {kept}, which existed before" in table
