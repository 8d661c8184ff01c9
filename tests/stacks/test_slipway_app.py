"""The app as a whole: its stacks, and the manifest that comes of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from launcher.cluster.files import ClusterFileError, load_cluster, load_cluster_file
from launcher.cluster.manifest import Buckets, Cluster, ClusterSubnet, Lustre
from launcher.cluster.names import PARTS
from launcher.cluster.network_section import MOST_SUBNETS
from launcher.cluster.specification import MOST_SECRET_CHARACTERS, MOST_SECRETS
from launcher.cluster.updates import changes, deployed_cluster_file
from tests.stacks.synthesis import ROOT, Synthesized, cluster, dev_spec, synthesize

CLUSTERS = ROOT / "clusters"


def test_name_means_the_file_of_that_name() -> None:
    assert load_cluster("dev", CLUSTERS).name == "dev"


@pytest.mark.parametrize("chosen", ["./clusters/dev.yaml", str(CLUSTERS / "dev.yaml")])
def test_path_means_that_file(chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)

    assert load_cluster(chosen, CLUSTERS).name == "dev"


@pytest.mark.parametrize("chosen", ["nope", "../dev", "no/such.yaml", ""])
def test_unknown_cluster_lists_the_known_ones(chosen: str) -> None:
    with pytest.raises(ClusterFileError, match=r"known clusters: dev"):
        load_cluster(chosen, CLUSTERS)


def test_file_must_be_called_like_its_cluster(tmp_path: Path) -> None:
    (tmp_path / "prod.yaml").write_text((CLUSTERS / "dev.yaml").read_text())

    with pytest.raises(ClusterFileError, match=r"prod\.yaml: name: 'dev' must be 'prod'"):
        load_cluster("prod", tmp_path)


@pytest.mark.exhaustive
def test_app_refuses_an_unknown_cluster() -> None:
    done = run_app("nope")

    assert done.returncode == 2
    assert "there is no cluster 'nope'" in done.stderr
    assert "known clusters: dev" in done.stderr
    assert "Traceback" not in done.stderr


def test_app_refuses_a_broken_cluster_file(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("name: broken\nregion: us-west-2\navailability_zone: [us-west-2a]\n")

    done = run_app(str(broken))

    assert done.returncode == 2
    assert f"{broken}:3:1: SPEC002 unknown field `availability_zone`. Did you mean" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.few_cases(every=2)
@pytest.mark.parametrize("written", ["'012345678901'", "012345678901"])
def test_app_refuses_credentials_of_another_account(written: str, tmp_path: Path) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text((CLUSTERS / "dev.yaml").read_text() + f"account: {written}\n")

    done = run_app(str(file), credentials_of="123456789012")

    assert done.returncode == 2
    assert "cluster dev is for account 012345678901, but these credentials are of account 123456789012" in (
        done.stderr
    )
    assert "Traceback" not in done.stderr


def test_templates_of_a_named_account_are_for_that_account() -> None:
    stacks = synthesize(dev_spec(account="012345678901")).stacks

    assert {stack.account for stack in (stacks.network, stacks.storage, stacks.manifest)} == {"012345678901"}


def test_without_node_the_app_says_where_it_comes_from() -> None:
    done = run_app("dev", path="/nonexistent")

    assert done.returncode == 2
    assert "source .venv/bin/activate" in done.stderr
    assert "Traceback" not in done.stderr


def run_app(
    cluster: str, path: str | None = None, credentials_of: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run app.py as the CDK command line does, which tells the account of the credentials it found."""
    path = path or os.pathsep.join([str(Path(sys.executable).parent), os.defpath])
    environment = {"PATH": path, "CDK_CONTEXT_JSON": json.dumps({"cluster": cluster})}
    if credentials_of:
        environment["CDK_DEFAULT_ACCOUNT"] = credentials_of
    command = [sys.executable, "app.py"]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)


def test_manifest_is_what_the_launcher_parses(dev: Synthesized) -> None:
    cluster = parsed(dev)

    assert (cluster.name, cluster.region) == ("dev", "us-west-2")
    (subnet,) = cluster.subnets
    assert "AvailabilityZone" in subnet.availability_zone
    assert cluster.lustre is not None
    assert cluster.lustre.subnet_id == cluster.subnets[0].id
    assert len({cluster.buckets.code, cluster.buckets.checkpoints, cluster.buckets.output}) == 3


def test_manifest_has_every_field_even_if_null(dev: Synthesized) -> None:
    cluster = parsed(dev)

    assert cluster.model_fields_set == set(Cluster.model_fields) - {"secrets", "controller_arn", "hyperpod"}


def test_manifest_and_kept_file_name_secrets_only_where_there_are_some(dev: Synthesized) -> None:
    """Launchers that do not know the field refuse it."""
    with_secrets = synthesize(dev_spec(secrets=["team/hf"]))

    assert parsed(with_secrets).secrets == ["team/hf"]
    assert "secret" not in str(dev.template("manifest"))
    assert (deployed_cluster_file(with_secrets.template("manifest")) or {})["secrets"] == ["team/hf"]


def test_manifest_and_kept_file_name_a_controller_only_where_there_is_one(
    dev: Synthesized, large: Synthesized
) -> None:
    """Launchers that do not know the field refuse it."""
    assert "WeakRunsFunction" in str(parsed(large).controller_arn)
    assert (deployed_cluster_file(large.template("manifest")) or {})["managed"] is True
    assert "controller_arn" not in str(dev.template("manifest"))
    assert "managed" not in (deployed_cluster_file(dev.template("manifest")) or {})


def test_the_largest_manifest_has_room_in_a_parameter() -> None:
    arn = "arn:aws-us-gov:{}:us-gov-west-1:111122223333:{}"
    id_, zone = "0123456789abcdef0", "us-gov-west-1a"
    largest = Cluster(
        name="n" * 32,
        region="us-gov-west-1",
        vpc_id=f"vpc-{id_}",
        subnets=[ClusterSubnet(id=f"subnet-{id_}", availability_zone=zone)] * MOST_SUBNETS,
        security_group_ids=[f"sg-{id_}"],
        role_arn=arn.format("iam", f"role{'/' * 512}{'r' * 64}"),
        buckets=Buckets(code="b" * 63, checkpoints="b" * 63, output="b" * 63),
        kms_key_arn=arn.format("kms", f"key/{'k' * 36}"),
        lustre=Lustre(
            id=f"fs-{id_}",
            mount_name="m" * 8,
            subnet_id=f"subnet-{id_}",
            availability_zone=zone,
            security_group_id=f"sg-{id_}",
        ),
        queue_arn=arn.format("batch", f"job-queue/{'q' * 128}"),
        topic_arn=arn.format("sns", "t" * 256),
        controller_arn=arn.format("lambda", f"function:{'f' * 64}"),
        secrets=["s" * (MOST_SECRET_CHARACTERS // MOST_SECRETS)] * MOST_SECRETS,
    )

    assert 4096 < len(largest.model_dump_json()) <= 8192


def test_cluster_without_lustre_says_so() -> None:
    assert parsed(synthesize(dev_spec(lustre=None))).lustre is None


def test_manifest_stands_under_the_name_of_the_cluster(dev: Synthesized) -> None:
    (parameter,) = dev.resources("manifest", "AWS::SSM::Parameter").values()

    assert parameter["Properties"]["Name"] == "/slipway/clusters/dev"


def test_manifest_is_deployed_after_all_other_stacks(dev: Synthesized) -> None:
    needed = {stack.stack_name for stack in dev.stacks.manifest.dependencies}

    assert needed == {f"slipway-dev-{part}" for part in PARTS if part != "manifest"}


def test_manifest_names_key_queue_and_topic(large: Synthesized) -> None:
    found = parsed(large)

    assert found.kms_key_arn and found.queue_arn and found.topic_arn


def test_manifest_of_zones_given_by_id_holds_the_names_that_aws_answers() -> None:
    zones = [subnet.availability_zone for subnet in parsed(cluster("p4d")).subnets]

    assert len(set(zones)) == 2
    assert all("AvailabilityZone" in zone for zone in zones)


def test_manifest_of_an_existing_network_holds_its_ids() -> None:
    subnet = {"id": "subnet-0123456789abcdef0", "availability_zone": "us-west-2b"}
    existing = {"vpc_id": "vpc-0123456789abcdef0", "subnets": [subnet], "security_group_id": "sg-01234567"}
    found = parsed(synthesize(dev_spec(vpc={"existing": existing}, availability_zones=[])))

    assert (found.vpc_id, found.security_group_ids) == ("vpc-0123456789abcdef0", ["sg-01234567"])
    assert [each.model_dump() for each in found.subnets] == [subnet]
    assert found.lustre is not None and found.lustre.availability_zone == "us-west-2b"


def parsed(synthesized: Synthesized) -> Cluster:
    """The manifest with each reference replaced by the name of what it refers to."""
    (parameter,) = synthesized.resources("manifest", "AWS::SSM::Parameter").values()
    return Cluster.model_validate_json(flat(parameter["Properties"]["Value"]))


def flat(value: Any) -> str:
    if isinstance(value, str):
        return value
    if "Fn::Join" in value:
        return "".join(map(flat, value["Fn::Join"][1]))
    if "Fn::GetStackOutput" in value:
        return str(value["Fn::GetStackOutput"]["OutputName"])
    return str(value["Fn::ImportValue"])


def test_the_file_that_was_deployed_stands_in_the_template(large: Synthesized) -> None:
    spec = load_cluster_file(ROOT / "clusters" / "p5-large.yaml")
    deployed = deployed_cluster_file(large.template("manifest"))

    assert deployed is not None and deployed["queue"] == {
        "max_instances": 64,
        "shares": {"research": 1.0, "production": 0.5},
    }
    assert changes(deployed, spec) == []


def test_a_file_that_changes_nothing_else_changes_the_parameters_resource() -> None:
    before, after = (
        synthesize(dev_spec(removal_policy=policy)).resources("manifest", "AWS::SSM::Parameter")
        for policy in ("retain", "destroy")
    )

    assert before != after
    assert [each["Properties"] for each in before.values()] == [each["Properties"] for each in after.values()]
