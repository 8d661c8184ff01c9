"""The manifest: the JSON that the launcher parses, written when all else is there."""

from __future__ import annotations

from typing import Any

from launcher.cluster.files import load_cluster_file
from launcher.cluster.manifest import Cluster
from launcher.cluster.names import PARTS
from launcher.cluster.updates import changes, deployed_cluster_file
from tests.stacks.synthesis import ROOT, Synthesized, cluster, dev_spec, synthesize


def test_manifest_is_what_the_launcher_parses(dev: Synthesized) -> None:
    cluster = parsed(dev)

    assert (cluster.name, cluster.region) == ("dev", "us-west-2")
    assert [subnet.availability_zone for subnet in cluster.subnets] == ["us-west-2a"]
    assert cluster.lustre is not None
    assert cluster.lustre.subnet_id == cluster.subnets[0].id
    assert len({cluster.buckets.code, cluster.buckets.checkpoints, cluster.buckets.output}) == 3


def test_manifest_has_every_field_even_if_null(dev: Synthesized) -> None:
    cluster = parsed(dev)

    assert cluster.model_fields_set == set(Cluster.model_fields) - {"secrets"}


def test_manifest_and_kept_file_name_secrets_only_where_there_are_some(dev: Synthesized) -> None:
    """Launchers that do not know the field refuse it."""
    with_secrets = synthesize(dev_spec(secrets=["team/hf"]))

    assert parsed(with_secrets).secrets == ["team/hf"]
    assert "secret" not in str(dev.template("manifest"))
    assert (deployed_cluster_file(with_secrets.template("manifest")) or {})["secrets"] == ["team/hf"]


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
