"""What is watched, and that those who are told can be reached."""

from __future__ import annotations

import json
from typing import Any

import pytest
from constructs.job_observability import JobObservability

from tests.stacks.synthesis import Synthesized, cluster, new_stack, resources_of, template_of

ROLE = "arn:aws:iam::111122223333:role/training"


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    stack = new_stack()
    JobObservability(
        stack,
        "Jobs",
        cluster_name="prod",
        role_arn=ROLE,
        email="team@example.com",
        monthly_budget_usd=1000,
        idle_gpu_minutes=45,
    )
    return template_of(stack)


@pytest.fixture(scope="module")
def watched() -> Synthesized:
    return cluster("p5-large")


def properties(template: dict[str, Any], type_: str) -> list[dict[str, Any]]:
    return [each["Properties"] for each in resources_of(template, type_).values()]


def test_every_end_of_a_job_of_the_cluster_is_told(template: dict[str, Any]) -> None:
    patterns = [rule["EventPattern"] for rule in properties(template, "AWS::Events::Rule")]

    assert {pattern["detail"]["TrainingJobStatus"][0] for pattern in patterns} == {
        "Completed", "Failed", "Stopped",
    }  # fmt: skip
    assert all(pattern["detail"]["RoleArn"] == [ROLE] for pattern in patterns)
    assert all(pattern["detail-type"] == ["SageMaker Training Job State Change"] for pattern in patterns)


def test_topic_is_encrypted_and_refuses_plain_http(template: dict[str, Any]) -> None:
    (topic,) = properties(template, "AWS::SNS::Topic")
    (policy,) = properties(template, "AWS::SNS::TopicPolicy")
    denied = [each for each in policy["PolicyDocument"]["Statement"] if each["Effect"] == "Deny"]

    assert "KmsMasterKeyId" in topic
    assert denied[0]["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


@pytest.mark.parametrize("service", ["events", "cloudwatch", "budgets"])
def test_whoever_speaks_on_the_topic_may_use_its_key(template: dict[str, Any], service: str) -> None:
    (key,) = properties(template, "AWS::KMS::Key")
    (policy,) = properties(template, "AWS::SNS::TopicPolicy")

    for document, action in (
        (key["KeyPolicy"], "kms:GenerateDataKey"),
        (policy["PolicyDocument"], "sns:Publish"),
    ):
        allowed = [
            each
            for each in document["Statement"]
            if action in str(each["Action"]) and f"{service}.amazonaws.com" in str(each["Principal"])
        ]
        assert [each["Effect"] for each in allowed] == ["Allow"]


def test_key_asks_events_for_no_account_that_they_do_not_send(template: dict[str, Any]) -> None:
    (key,) = properties(template, "AWS::KMS::Key")
    (events,) = [
        each for each in key["KeyPolicy"]["Statement"] if "events.amazonaws" in str(each["Principal"])
    ]

    assert "Condition" not in events


def test_idle_gpus_raise_an_alarm_after_the_given_time(template: dict[str, Any]) -> None:
    (alarm,) = properties(template, "AWS::CloudWatch::Alarm")
    (metric,) = alarm["Metrics"]

    assert "MIN(GPUUtilization)" in metric["Expression"]
    assert alarm["EvaluationPeriods"] * metric["Period"] == 45 * 60
    assert alarm["TreatMissingData"] == "notBreaching"
    assert alarm["AlarmActions"]


def test_budget_counts_the_region(template: dict[str, Any]) -> None:
    (budget,) = properties(template, "AWS::Budgets::Budget")

    assert budget["Budget"]["BudgetLimit"] == {"Amount": 1000, "Unit": "USD"}
    assert budget["Budget"]["CostFilters"] == {"Region": ["us-west-2"]}
    kinds = [each["Notification"]["NotificationType"] for each in budget["NotificationsWithSubscribers"]]
    assert kinds == ["ACTUAL", "FORECASTED"]


def test_dashboard_of_a_cluster_of_that_name_in_another_region_is_another_one(
    template: dict[str, Any],
) -> None:
    (dashboard,) = properties(template, "AWS::CloudWatch::Dashboard")

    assert dashboard["DashboardName"] == "slipway-prod-us-west-2"


def test_dashboard_shows_hosts_file_system_and_ends(watched: Synthesized) -> None:
    (dashboard,) = properties(watched.template("observability"), "AWS::CloudWatch::Dashboard")
    shown = json.dumps(dashboard["DashboardBody"])

    for metric in (
        "GPUUtilization", "GPUMemoryUtilization", "CPUUtilization", "DiskUtilization",
        "DataReadBytes", "DataWriteBytes", "FreeDataStorageCapacity", "TriggeredRules",
    ):  # fmt: skip
        assert metric in shown


def test_file_system_that_fills_up_raises_an_alarm(watched: Synthesized) -> None:
    alarms = properties(watched.template("observability"), "AWS::CloudWatch::Alarm")
    (full,) = [each for each in alarms if each.get("MetricName") == "FreeDataStorageCapacity"]

    assert full["Threshold"] == 57600 * 2**30 * 15 // 100
    assert full["ComparisonOperator"] == "LessThanThreshold"
    assert full["AlarmActions"]
