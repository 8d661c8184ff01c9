"""The controller that goes on with runs while no launcher is there, and all that wakes it up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from constructs.job_observability import ENDS
from constructs.permissions import acknowledge_wildcards, permissions_of, policy_document, words_of
from constructs.weak_references import read_weakly

HANDLER = "launcher.controller.handle"

_TIMEOUT_MINUTES = 15
"""The longest that Lambda lets a function run (Lambda developer guide, gettingstarted-limits)."""

_HIDDEN_FOR_TIMEOUTS = 6
"""A message that is being worked on is hidden for so many of the function's timeouts, and given up after so
many attempts as `_ATTEMPTS`: what AWS advises (Lambda developer guide, services-sqs-configure)."""

_ATTEMPTS = 5

_RUNS_AT_ONCE = 5
"""Enough for 20 events an hour that take the whole 15 minutes; most take seconds. Lambda takes 2 at least
(API reference, ScalingConfig)."""

_SCHEDULER_PRINCIPAL = "scheduler.amazonaws.com"
"""Whom the role of a schedule trusts and is passed to (EventBridge Scheduler user guide, setting-up)."""


class ManagedRuns(Construct):
    """One function that is called when a job of the cluster ends, or when a schedule of its own comes due.

    It keeps nothing itself: what it knows of a run lies in the code bucket, where no job can read it. Both
    ways in lead through one queue, which holds the events while the function is exchanged for another
    version; what it fails at five times comes to lie in a second queue, for which there is an alarm. At rest
    only the two alarms cost anything.

    Source: Lambda developer guide, services-sqs-configure; EventBridge Scheduler user guide,
    cross-service-confused-deputy-prevention and managing-schedule-delete.

    Attributes:
        function_arn: the function.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster_name: str,
        package: lambda_.Code,
        package_digest: str,
        runtime: lambda_.Runtime,
        role_arn: str,
        code: s3.IBucket,
        checkpoints: s3.IBucket,
        output: s3.IBucket,
        subnet_ids: Sequence[str],
        security_group_ids: Sequence[str],
        removal_policy: cdk.RemovalPolicy,
        encryption_key: kms.IKey | None = None,
        written_with: Sequence[str] = (),
        topic_arn: str | None = None,
        topic_key_arn: str | None = None,
    ) -> None:
        """Create the function, its queues, its schedules' group and the alarms.

        Args:
            scope: the parent construct.
            id: the construct's id.
            cluster_name: what the function knows the cluster by, and stands in descriptions.
            package: the function's code, with its handler in it.
            package_digest: what the function compares its files with (`digest_of`).
            runtime: the Python that runs it.
            role_arn: the execution role, by which the cluster's jobs are known, and which new ones get.
            code: the bucket with the runs, below `runs`.
            checkpoints: the bucket in which a checkpoint is copied to resume from.
            output: the bucket with what jobs leave, which a diagnosis reads.
            subnet_ids: where jobs may run.
            security_group_ids: the groups that their hosts may be in.
            removal_policy: whether the function's log outlives the stack.
            encryption_key: the key of the buckets and volumes, if it is the account's own.
            written_with: ARNs of further keys, of buckets that exist already.
            topic_arn: where alarms and what became of runs are told, if anywhere.
            topic_key_arn: the key of that topic.
        """
        super().__init__(scope, id)
        stack = cdk.Stack.of(self)
        undelivered = sqs.Queue(
            self,
            "Failed",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=cdk.Duration.days(14),
        )
        queue = sqs.Queue(
            self,
            "Events",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            visibility_timeout=cdk.Duration.minutes(_TIMEOUT_MINUTES * _HIDDEN_FOR_TIMEOUTS),
            dead_letter_queue=sqs.DeadLetterQueue(queue=undelivered, max_receive_count=_ATTEMPTS),
        )
        _send_ends_of_jobs(self, cluster_name, role_arn, to=queue, otherwise=undelivered)
        group = scheduler.ScheduleGroup(self, "Schedules", removal_policy=cdk.RemovalPolicy.DESTROY)
        schedule_role = _role_of_schedules(self, group, queue)
        log_group = logs.LogGroup(
            self, "Log", retention=logs.RetentionDays.ONE_MONTH, removal_policy=removal_policy
        )
        words = words_of(stack, code=code, checkpoints=checkpoints, output=output, key=encryption_key) | {
            "cluster": cluster_name,
            "role": role_arn,
            "subnets": subnet_ids,
            "security_groups": security_group_ids,
            "written_with": written_with,
            "job_types": "TrainingJob",
            "job_resources": "training-job",
            "jobs": "*",
            "queued_jobs": (),
            "streams": "*",
            "events_queue": queue.queue_arn,
            "its_log_group": log_group.log_group_arn,
            "schedule_group": group.schedule_group_name,
            "schedule_role": schedule_role.role_arn,
            "scheduler": _SCHEDULER_PRINCIPAL,
            "topic": () if topic_arn is None else topic_arn,
            "topic_key": () if topic_key_arn is None else topic_key_arn,
        }
        function = lambda_.Function(
            self,
            "Function",
            description=f"Goes on with the managed runs of Slipway cluster {cluster_name}",
            code=package,
            runtime=runtime,
            handler=HANDLER,
            architecture=lambda_.Architecture.X86_64,
            memory_size=2048,
            timeout=cdk.Duration.minutes(_TIMEOUT_MINUTES),
            log_group=log_group,
            role=_role_of_the_function(self, words),
            environment={
                "SLIPWAY_CLUSTER": cluster_name,
                "SLIPWAY_CODE_BUCKET": read_weakly(code.bucket_name, owner=cdk.Stack.of(code), reader=stack),
                "SLIPWAY_QUEUE_ARN": queue.queue_arn,
                "SLIPWAY_SCHEDULE_GROUP": group.schedule_group_name,
                "SLIPWAY_SCHEDULE_ROLE": schedule_role.role_arn,
                **({} if topic_arn is None else {"SLIPWAY_TOPIC_ARN": topic_arn}),
                "SLIPWAY_DIGEST": package_digest,
            },
        )
        lambda_.EventSourceMapping(
            self,
            "Mapping",
            target=function,
            event_source_arn=queue.queue_arn,
            batch_size=1,
            max_concurrency=_RUNS_AT_ONCE,
            report_batch_item_failures=True,
        )
        cdk.Validations.of(function).acknowledge(
            cdk.Acknowledgment(
                id="AwsSolutions-L1",
                reason="The Python that has packaged the function, so that its bytecode fits: the newest one "
                "where the deployment runs on the newest one.",
            )
        )
        topic = None if topic_arn is None else sns.Topic.from_topic_arn(self, "Topic", topic_arn)
        _alarms(self, cluster_name, function, undelivered, topic)
        self.function_arn = function.function_arn


def _send_ends_of_jobs(
    scope: Construct, cluster_name: str, role_arn: str, *, to: sqs.IQueue, otherwise: sqs.IQueue
) -> None:
    events.Rule(
        scope,
        "Ended",
        description=f"Ended training jobs of Slipway cluster {cluster_name}, for the controller of its runs",
        event_pattern=events.EventPattern(
            source=["aws.sagemaker"],
            detail_type=["SageMaker Training Job State Change"],
            detail={"TrainingJobStatus": list(ENDS), "RoleArn": [role_arn]},
        ),
        targets=[targets.SqsQueue(to, dead_letter_queue=otherwise)],
    )


def _role_of_schedules(scope: Construct, group: scheduler.IScheduleGroup, queue: sqs.IQueue) -> iam.Role:
    """The role that EventBridge Scheduler takes on, for schedules of this group and of no other account."""
    return iam.Role(
        scope,
        "ScheduleRole",
        description="Schedules of managed runs, which wake the controller up",
        assumed_by=iam.ServicePrincipal(
            _SCHEDULER_PRINCIPAL,
            conditions={
                "StringEquals": {
                    "aws:SourceAccount": cdk.Stack.of(scope).account,
                    "aws:SourceArn": group.schedule_group_arn,
                }
            },
        ),
        inline_policies={
            "WakeUp": iam.PolicyDocument(
                statements=[iam.PolicyStatement(actions=["sqs:SendMessage"], resources=[queue.queue_arn])]
            )
        },
    )


def _role_of_the_function(scope: Construct, words: Mapping[str, Any]) -> iam.Role:
    """The role with its permissions inside, so that Lambda finds them when it begins to ask the queue."""
    permissions = permissions_of("controller", words)
    role = iam.Role(
        scope,
        "Role",
        description="What the controller of managed runs may do",
        assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
        inline_policies={"Controller": policy_document(permissions)},
    )
    acknowledge_wildcards(role, permissions)
    return role


def _alarms(
    scope: Construct,
    cluster_name: str,
    function: lambda_.IFunction,
    undelivered: sqs.IQueue,
    topic: sns.ITopic | None,
) -> None:
    of = f"of the managed runs of cluster {cluster_name}"
    watched = {
        "Undelivered": (
            undelivered.metric_approximate_number_of_messages_visible(statistic="Maximum"),
            f"Events {of} were given up: these runs wait until somebody looks",
        ),
        "Errors": (
            function.metric_errors(),
            f"The controller {of} has failed: it tries the event again; its log says why",
        ),
    }
    for name, (metric, description) in watched.items():
        alarm = metric.create_alarm(
            scope,
            name,
            alarm_description=description,
            threshold=1,
            evaluation_periods=1,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        if topic is not None:
            alarm.add_alarm_action(actions.SnsAction(topic))
