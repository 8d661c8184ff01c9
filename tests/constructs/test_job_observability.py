"""What is watched while jobs run, how long their logs stay, and the queue in front of them."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from cdk_nag import AwsSolutionsChecks
from constructs.job_logs import keep_job_logs
from constructs.job_observability import JobObservability
from constructs.job_queue import JobQueue
from moto import mock_aws

from launcher.cluster.specification import LOG_DAYS
from tests.emulator import cloudformation
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

    # A contributor for each host, idle where even its busiest minute is.
    assert metric["Expression"] == (
        'SELECT MAX(GPUUtilization) FROM SCHEMA("/aws/sagemaker/TrainingJobs", Host) '
        "GROUP BY Host ORDER BY MAX() ASC"
    )
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
        "MemoryUtilization", "DataReadBytes", "DataWriteBytes", "DataReadOperations", "MetadataOperations",
        "FreeDataStorageCapacity", "TriggeredRules", "TrainingJobs,TrainingJobName}",
    ):  # fmt: skip
        assert metric in shown


def test_dashboard_begins_with_the_hosts_that_the_others_wait_for(template: dict[str, Any]) -> None:
    (dashboard,) = properties(template, "AWS::CloudWatch::Dashboard")
    first, *others = json.loads("".join(map(str, dashboard["DashboardBody"]["Fn::Join"][1])))["widgets"]

    assert "ORDER BY AVG() ASC LIMIT 10" in json.dumps(first)
    assert first["properties"]["title"].startswith("The 10 hosts with the idlest GPUs")
    assert not [each for each in others if "Lustre" in each["properties"]["title"]]


def test_file_system_that_fills_up_raises_an_alarm(watched: Synthesized) -> None:
    alarms = properties(watched.template("observability"), "AWS::CloudWatch::Alarm")
    (full,) = [each for each in alarms if each.get("MetricName") == "FreeDataStorageCapacity"]

    assert full["Threshold"] == 57600 * 2**30 * 15 // 100
    assert full["ComparisonOperator"] == "LessThanThreshold"
    assert full["AlarmActions"]


@pytest.mark.parametrize("days", LOG_DAYS)
def test_the_group_of_all_jobs_gets_its_retention(days: int) -> None:
    stack = new_stack()
    keep_job_logs(stack, "JobLogs", days=days)
    (retention,) = resources_of(template_of(stack), "Custom::LogRetention").values()

    assert retention["Properties"]["LogGroupName"] == "/aws/sagemaker/TrainingJobs"
    assert retention["Properties"]["RetentionInDays"] == days
    assert "RemovalPolicy" not in retention["Properties"]  # the group stays when the stack goes


def test_what_its_function_may_do_has_a_reason() -> None:
    stack = new_stack()
    keep_job_logs(stack, "JobLogs", days=30)

    assert AwsSolutionsChecks(stack.node.root).validate_scope(stack.node.root).success


@mock_aws
def test_a_deployment_sets_it_where_the_group_is_there_already() -> None:
    cloudformation.install()
    logs, stacks = (boto3.client(name, region_name="us-west-2") for name in ("logs", "cloudformation"))
    logs.create_log_group(logGroupName="/aws/sagemaker/TrainingJobs")
    stack = new_stack()
    keep_job_logs(stack, "JobLogs", days=30)
    (retention,) = resources_of(template_of(stack), "Custom::LogRetention").values()
    retention["Properties"]["ServiceToken"] = "arn:aws:lambda:us-west-2:123456789012:function:retention"

    stacks.create_stack(StackName="Jobs", TemplateBody=json.dumps({"Resources": {"JobLogs": retention}}))

    (group,) = logs.describe_log_groups()["logGroups"]
    assert (group["logGroupName"], group["retentionInDays"]) == ("/aws/sagemaker/TrainingJobs", 30)


def synthesized(**properties: Any) -> dict[str, Any]:
    stack = new_stack()
    JobQueue(stack, "Queue", **properties)
    return template_of(stack)


def test_queue_is_one_for_training_jobs() -> None:
    template = synthesized(max_instances=64)
    (queue,) = resources_of(template, "AWS::Batch::JobQueue").values()
    (environment,) = resources_of(template, "AWS::Batch::ServiceEnvironment").values()

    assert queue["Properties"]["JobQueueType"] == "SAGEMAKER_TRAINING"
    assert environment["Properties"]["ServiceEnvironmentType"] == "SAGEMAKER_TRAINING"
    assert environment["Properties"]["CapacityLimits"] == [
        {"CapacityUnit": "NUM_INSTANCES", "MaxCapacity": 64}
    ]


def test_shares_decide_who_comes_first() -> None:
    template = synthesized(max_instances=8, shares={"research": 1.0, "production": 0.5})
    (policy,) = resources_of(template, "AWS::Batch::SchedulingPolicy").values()
    (queue,) = resources_of(template, "AWS::Batch::JobQueue").values()

    assert policy["Properties"]["FairsharePolicy"]["ShareDistribution"] == [
        {"ShareIdentifier": "research", "WeightFactor": 1},
        {"ShareIdentifier": "production", "WeightFactor": 0.5},
    ]
    assert "SchedulingPolicyArn" in queue["Properties"]


def test_without_shares_first_in_is_first_out() -> None:
    template = synthesized(max_instances=8)
    (queue,) = resources_of(template, "AWS::Batch::JobQueue").values()

    assert not resources_of(template, "AWS::Batch::SchedulingPolicy")
    assert "SchedulingPolicyArn" not in queue["Properties"]
