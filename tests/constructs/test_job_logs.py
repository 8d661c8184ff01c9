"""How long the logs of training jobs are kept."""

from __future__ import annotations

import json

import boto3
import pytest
from cdk_nag import AwsSolutionsChecks
from constructs.job_logs import keep_job_logs
from moto import mock_aws

from launcher.cluster.specification import LOG_DAYS
from tests.emulator import cloudformation
from tests.stacks.synthesis import new_stack, resources_of, template_of


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
