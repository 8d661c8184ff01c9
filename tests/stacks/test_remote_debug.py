"""A cluster whose jobs may let a shell in: its role may, and an isolated network leads to Systems Manager."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.cluster.files import load_cluster_file
from launcher.cluster.names import SHELL_ACTIONS
from launcher.cluster.specification import ClusterSpec
from launcher.cluster.updates import deployed_cluster_file
from tests.emulator.iam_policy import allows, flat
from tests.stacks.synthesis import ROOT, Synthesized, synthesize


@pytest.fixture(scope="module")
def debuggable() -> Synthesized:
    file = load_cluster_file(ROOT / "clusters" / "isolated.yaml").model_dump()
    return synthesize(ClusterSpec.model_validate({**file, "remote_debug": True}))


def of_the_jobs(cluster: Synthesized) -> dict[str, Any]:
    (role,) = cluster.resources("access", "AWS::IAM::Role").values()
    names = {"AWS::Partition": "aws", "AWS::AccountId": "111122223333", "AWS::Region": "us-west-2"}
    return {"Statement": flat(role["Properties"]["Policies"][0]["PolicyDocument"]["Statement"], names)}


@pytest.mark.parametrize("action", SHELL_ACTIONS)
def test_the_role_may_only_where_the_cluster_file_says_so(
    action: str, debuggable: Synthesized, isolated: Synthesized
) -> None:
    assert allows(of_the_jobs(debuggable), action, "*", {})
    assert not allows(of_the_jobs(isolated), action, "*", {})


def test_the_network_leads_there_only_where_the_cluster_file_says_so(
    debuggable: Synthesized, isolated: Synthesized
) -> None:
    def leads(cluster: Synthesized) -> bool:
        return "ssmmessages" in str(cluster.resources("network", "AWS::EC2::VPCEndpoint"))

    assert leads(debuggable)
    assert not leads(isolated)


def test_it_is_kept_with_the_deployment_only_where_it_is_on(
    debuggable: Synthesized, isolated: Synthesized
) -> None:
    assert (deployed_cluster_file(debuggable.template("manifest")) or {})["remote_debug"] is True
    assert "remote_debug" not in (deployed_cluster_file(isolated.template("manifest")) or {})
