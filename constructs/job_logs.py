"""How long the logs of training jobs are kept."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from launcher.cluster.names import TRAINING_LOGS

_RETENTION = {
    1: logs.RetentionDays.ONE_DAY,
    3: logs.RetentionDays.THREE_DAYS,
    5: logs.RetentionDays.FIVE_DAYS,
    7: logs.RetentionDays.ONE_WEEK,
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    60: logs.RetentionDays.TWO_MONTHS,
    90: logs.RetentionDays.THREE_MONTHS,
    120: logs.RetentionDays.FOUR_MONTHS,
    150: logs.RetentionDays.FIVE_MONTHS,
    180: logs.RetentionDays.SIX_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
    400: logs.RetentionDays.THIRTEEN_MONTHS,
    545: logs.RetentionDays.EIGHTEEN_MONTHS,
    731: logs.RetentionDays.TWO_YEARS,
    1096: logs.RetentionDays.THREE_YEARS,
    1827: logs.RetentionDays.FIVE_YEARS,
    2192: logs.RetentionDays.SIX_YEARS,
    2557: logs.RetentionDays.SEVEN_YEARS,
    2922: logs.RetentionDays.EIGHT_YEARS,
    3288: logs.RetentionDays.NINE_YEARS,
    3653: logs.RetentionDays.TEN_YEARS,
}


def keep_job_logs(scope: Construct, id: str, *, days: int) -> logs.LogRetention:
    """Keep the log group of all training jobs of the account and region for so many days.

    SageMaker makes the group with the first job, or has made it already: CloudFormation could neither
    create nor adopt it, so a function of the CDK's sets its retention, and leaves it when the stack goes.

    Args:
        scope: the parent construct.
        id: the id of the custom resource.
        days: one of the numbers that CloudWatch Logs takes (API reference, PutRetentionPolicy).
    """
    retention = logs.LogRetention(scope, id, log_group_name=TRAINING_LOGS, retention=_RETENTION[days])
    for construct in cdk.Stack.of(scope).node.find_all():
        if construct.node.id.startswith("LogRetention"):
            _acknowledge(construct)
    return retention


def _acknowledge(function: IConstruct) -> None:
    """Tell cdk-nag why the CDK's function may do what it may."""
    for finding, reason in (
        (
            "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/"
            "AWSLambdaBasicExecutionRole]",
            "The CDK's own function, which writes its log.",
        ),
        (
            "AwsSolutions-IAM5[Resource::*]",
            "The CDK's own function sets the retention of the group, and of its own log; nothing else.",
        ),
    ):
        cdk.Validations.of(function).acknowledge(cdk.Acknowledgment(id=finding, reason=reason))
