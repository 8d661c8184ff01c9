"""The picture of a cluster shows what a newcomer must see."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.provisioning import picture
from tools.generate import architecture_diagram as diagram


@pytest.fixture(scope="module")
def graph() -> str:
    return diagram.graph_of(diagram.CLUSTER)


def test_the_three_rules_of_efa_are_in_it(graph: str) -> None:
    for rule in (
        "in: all traffic from itself",
        "out: all traffic to itself",
        "out: all traffic to 0.0.0.0/0",
    ):
        assert rule in graph


def test_the_ports_of_lustre_are_an_arrow_between_hosts_and_file_system(graph: str) -> None:
    (arrow,) = [line for line in graph.splitlines() if "TCP 988, TCP 1018-1023" in line]
    assert "/FileSystem" in arrow and "/Efa" in arrow and "dir=both" in arrow


def test_what_is_kept_is_marked_and_nothing_else(graph: str) -> None:
    marked = [part for part in graph.split("<FONT") if picture._KEPT in part.split(">")[0]]
    told = {part.split(">")[1].split("<")[0] for part in marked}
    assert told == {
        "orange: kept by cdk destroy",
        "log of refused traffic",
        "VPC 10.0.0.0/16",
        "private subnet 10.0.0.0/18, usw2-az1",
        "in: all traffic from itself",
        "out: all traffic to itself",
        "out: all traffic to 0.0.0.0/0",
        "KMS key",
        "buckets: code, checkpoints, output, access logs",
        "Lustre PERSISTENT_2, 57,600 GiB",
        "500 MB/s per TiB",
    }


def test_an_isolated_cluster_is_drawn_with_its_endpoints() -> None:
    graph = diagram.graph_of("isolated")
    assert "ServiceEndpoints" in graph and "interface endpoints to 9 services" in graph
    assert "NAT gateway" not in graph


def resource(type_: str, path: str, **properties: Any) -> dict[str, Any]:
    return {"Type": type_, "Properties": properties, "Metadata": {"aws:cdk:path": path}}


BUCKET = "a-storage/Buckets/Code/Resource"
ROLE = "a-access/Role/Resource"
SERVICE = {"Statement": [{"Principal": {"Service": "sagemaker.amazonaws.com"}}]}


def role(refers_to: Any) -> dict[str, Any]:
    return resource("AWS::IAM::Role", ROLE, AssumeRolePolicyDocument=SERVICE, Resource=refers_to)


@pytest.mark.parametrize(
    "reference",
    [
        {"Fn::ImportValue": "code-bucket"},
        {"Fn::GetStackOutput": {"StackName": "a-storage", "OutputName": "Code"}},
    ],
    ids=["export", "output"],
)
def test_what_a_stack_reads_from_another_is_an_arrow(reference: Any) -> None:
    storage = {
        "Resources": {"Code": resource("AWS::KMS::Key", BUCKET)},
        "Outputs": {"Code": {"Value": {"Ref": "Code"}, "Export": {"Name": "code-bucket"}}},
    }
    network = {"Resources": {"Nat": resource("AWS::EC2::NatGateway", "a-network/Network/Nat")}}
    access = {"Resources": {"Role": role(reference)}}
    graph = picture.graph_of({"a-network": network, "a-storage": storage, "a-access": access})
    assert '"a-access/Role" -> "a-storage/Buckets" [label="may use"]' in graph


def test_a_reference_into_a_stack_that_is_gone_is_no_arrow() -> None:
    graph = picture.graph_of({"a-access": {"Resources": {"Role": role({"Fn::ImportValue": "gone"})}}})
    assert "->" not in graph and "sagemaker.amazonaws.com" in graph


def test_a_deployed_construct_is_called_by_its_id_and_an_empty_stack_is_not_drawn() -> None:
    key = {"Resources": {"Key": resource("AWS::KMS::Key", "a-storage/Key/Resource")}}
    graph = picture.graph_of({"a-queue": {}, "a-storage": key})
    assert "<B>Key</B>" in graph and "queue stack" not in graph


def test_a_template_without_paths_is_one_box() -> None:
    graph = picture.graph_of({"a-storage": {"Resources": {"Key": {"Type": "AWS::KMS::Key"}}}})
    assert '"a-storage/a-storage"' in graph and "KMS key" in graph
