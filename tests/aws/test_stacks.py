"""The stacks of a cluster are read as CloudFormation has them, whatever state they are in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from moto import mock_aws

from launcher.aws.stacks import fetch_stack, fetch_stacks
from launcher.failure_modes.model import Refusal
from tests.emulator.account import use_test_keys
from tests.emulator.cloudformation.stacks import Stacks
from tests.session.checkout import ACCOUNT, REGION, hold_stack

CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))

TEMPLATE = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic", "DeletionPolicy": "Retain"}}}


@pytest.fixture
def cloudformation(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    use_test_keys(monkeypatch)
    with mock_aws():
        yield boto3.client("cloudformation", REGION)


def test_a_cluster_s_stacks_are_found_also_of_parts_that_no_app_has(cloudformation: Any) -> None:
    for name in ("slipway-dev-network", "slipway-dev-relic", "slipway-dev-two-network", "our-slipway-dev-a"):
        hold_stack(name, TEMPLATE)
    hold_stack("slipway-dev-queue", TEMPLATE, "DELETE_COMPLETE")

    found = fetch_stacks(cloudformation, "dev")
    assert [each.name for each in found] == ["slipway-dev-network", "slipway-dev-relic"]
    assert [each.template for each in found] == [TEMPLATE, TEMPLATE]


@pytest.mark.parametrize(("status", "came_up", "is_busy", "is_stuck"), CASES["states"])
def test_a_state_says_what_can_be_done_with_a_stack(
    cloudformation: Any, status: str, came_up: bool, is_busy: bool, is_stuck: bool
) -> None:
    hold_stack("slipway-dev-network", TEMPLATE, status)

    (found,) = fetch_stacks(cloudformation, "dev")
    assert (found.came_up, found.is_busy, found.is_stuck) == (came_up, is_busy, is_stuck)


def test_a_stack_that_is_only_planned_has_no_template(cloudformation: Any) -> None:
    hold_stack("slipway-dev-network", {}, "REVIEW_IN_PROGRESS")
    Stacks.of(ACCOUNT, REGION).find("slipway-dev-network").template_body = ""

    found = fetch_stack(cloudformation, "slipway-dev-network")
    assert found is not None and (found.template, found.resources) == ({}, ())


def test_a_template_that_is_no_json_is_somebody_else_s(cloudformation: Any) -> None:
    hold_stack("slipway-dev-network", TEMPLATE)
    Stacks.of(ACCOUNT, REGION).find("slipway-dev-network").template_body = "Resources: {}\n"

    with pytest.raises(Refusal, match="slipway-dev-network is not JSON, so it was not deployed by this app"):
        fetch_stack(cloudformation, "slipway-dev-network")


def test_there_may_be_no_stack_of_a_name(cloudformation: Any) -> None:
    assert fetch_stack(cloudformation, "slipway-dev-network") is None
    assert fetch_stacks(cloudformation, "dev") == ()
