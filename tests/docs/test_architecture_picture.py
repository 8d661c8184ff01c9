"""The picture of the architecture is current, and shows what a newcomer must see."""

from __future__ import annotations

import pytest

from scripts import generate_architecture_diagram as diagram


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
    marked = [part for part in graph.split("<FONT") if diagram._KEPT in part.split(">")[0]]
    told = {part.split(">")[1].split("<")[0] for part in marked}
    assert told == {
        "orange: kept by cdk destroy",
        "log of refused traffic",
        "VPC 10.0.0.0/16",
        "private subnet 10.0.0.0/18, us-west-2a",
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
