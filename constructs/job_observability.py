"""What is watched while jobs run: their ends, their GPUs, the file system, and what all of it costs."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct
from constructs.mounted_file_system import MountedFileSystem

from launcher.cluster.names import TRAINING_LOGS

ENDS = ("Completed", "Failed", "Stopped")
"""The states in which a training job ends (SageMaker API reference, DescribeTrainingJob)."""

_IDLE = 5
"""Percent of one GPU: SageMaker adds up the GPUs of a host, so a busy host shows some hundreds."""

_PERIOD_MINUTES = 5


class JobObservability(Construct):
    """An encrypted topic for messages about jobs and alarms, a dashboard, and the alarms.

    A rule for each way in which a job ends sends a line to the topic; it matches the cluster's role, so
    other jobs of the account are left out. SageMaker publishes its metrics per host (the dimension
    `Host` is JOB/algo-N) and not per role or tag, so the dashboard and the alarm for idle GPUs are those
    of all training jobs of the account in the region. It publishes none about EFA.

    Plain CloudWatch constructs: the widgets are searches over hosts that are not known before, for
    which cdk-monitoring-constructs has no more than a custom metric group.

    Ranks wait for one another, and a GPU that waits in a collective counts as busy: the host that the
    others wait for, such as for its data, is the one whose GPUs are idlest. The dashboard begins with them.

    Source: SageMaker developer guide, training-metrics, monitoring-cloudwatch and
    automating-sagemaker-with-eventbridge; FSx for Lustre guide, fs-metrics; CloudWatch user guide,
    cloudwatch-metrics-insights-alarms (an alarm takes a query, but no search).

    Attributes:
        topic: where all messages go.
        topic_key: the key that its messages are encrypted with.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster_name: str,
        role_arn: str,
        file_system: MountedFileSystem | None = None,
        email: str | None = None,
        monthly_budget_usd: int | None = None,
        idle_gpu_minutes: int = 30,
        free_capacity_percent: int = 10,
    ) -> None:
        """Create the topic and what publishes to it.

        Args:
            scope: the parent construct.
            id: the construct's id.
            cluster_name: names the dashboard (slipway-NAME-REGION) and stands in the messages.
            role_arn: the execution role by which the cluster's jobs are known.
            file_system: the Lustre file system, if any: `ClusterFileSystem.seen_from(stack)`.
            email: an address that is asked to subscribe.
            monthly_budget_usd: warn at 80 % of it, and when the forecast exceeds it; the cost counted is
                that of the region, as a filter by tag sees nothing until the tag is activated for billing.
            idle_gpu_minutes: warn when a host's GPUs do nothing for so long, 180 at most; in steps of 5.
            free_capacity_percent: warn when less of the file system is free.
        """
        super().__init__(scope, id)
        # With the key that SNS manages, AWS services could not publish (SNS developer guide,
        # sns-key-management: compatibility with AWS services).
        self.topic_key = kms.Key(
            self,
            "Key",
            description="Messages about training jobs",
            enable_key_rotation=True,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        self.topic = self._topic(self.topic_key, budget=monthly_budget_usd is not None)
        if email:
            self.topic.add_subscription(subscriptions.EmailSubscription(email))
        rules = {state: self._tell_of(state, cluster_name, role_arn) for state in ENDS}
        self._warn_of_idle_gpus(idle_gpu_minutes)
        if file_system and not file_system.elastic:
            alarm = file_system.alarm_on_free_capacity(self, "FileSystemFull", percent=free_capacity_percent)
            alarm.add_alarm_action(actions.SnsAction(self.topic))
        if monthly_budget_usd:
            self._warn_of_cost(cluster_name, monthly_budget_usd)
        _dashboard(self, cluster_name, rules, file_system)

    def _topic(self, key: kms.Key, *, budget: bool) -> sns.Topic:
        topic = sns.Topic(self, "Topic", master_key=key, enforce_ssl=True)
        of_this_account = {"StringEquals": {"aws:SourceAccount": cdk.Stack.of(self).account}}
        publishers = ["cloudwatch.amazonaws.com", *(["budgets.amazonaws.com"] if budget else [])]
        for service in publishers:
            principal = iam.ServicePrincipal(service, conditions=of_this_account)
            _allow_key(key, principal)
            topic.add_to_resource_policy(
                iam.PolicyStatement(
                    actions=["sns:Publish"], principals=[principal], resources=[topic.topic_arn]
                )
            )
        # EventBridge is let in by its targets, and without a condition: it sends no account along when it
        # asks for the key, so that every message would be dropped without a word.
        return topic

    def _tell_of(self, state: str, cluster_name: str, role_arn: str) -> events.Rule:
        rule = events.Rule(
            self,
            state,
            description=f"Training jobs of Slipway cluster {cluster_name}: {state}",
            event_pattern=events.EventPattern(
                source=["aws.sagemaker"],
                detail_type=["SageMaker Training Job State Change"],
                detail={"TrainingJobStatus": [state], "RoleArn": [role_arn]},
            ),
        )
        job = events.EventField.from_path("$.detail.TrainingJobName")
        text = f"Cluster {cluster_name}: training job {job} {state.lower()}."
        if state == "Failed":
            # Not the reason itself: its quotes would make the message invalid, and it would be lost.
            text += f" For the root cause: launch diagnose {job}"
        rule.add_target(targets.SnsTopic(self.topic, message=events.RuleTargetInput.from_text(text)))
        return rule

    def _warn_of_idle_gpus(self, minutes: int) -> None:
        # Only the L1 alarm takes a query over metrics that are not known before. Each host is a contributor
        # of its own, idle where its busiest minute in each period was; the idlest come first, as 500 are
        # looked at. Source: CloudWatch user guide, Create_Metrics_Insights_Alarm and alarm-limits.
        cloudwatch.CfnAlarm(
            self,
            "IdleGpus",
            alarm_description=f"The GPUs of a training host have done nothing for {minutes} minutes: "
            "the job may hang, or wait for its data",
            metrics=[
                cloudwatch.CfnAlarm.MetricDataQueryProperty(
                    id="busiest",
                    expression=f'SELECT MAX(GPUUtilization) FROM SCHEMA("{TRAINING_LOGS}", Host) '
                    "GROUP BY Host ORDER BY MAX() ASC",
                    period=_PERIOD_MINUTES * 60,
                    return_data=True,
                )
            ],
            comparison_operator="LessThanThreshold",
            threshold=_IDLE,
            evaluation_periods=max(1, minutes // _PERIOD_MINUTES),
            treat_missing_data="notBreaching",
            alarm_actions=[self.topic.topic_arn],
        )

    def _warn_of_cost(self, cluster_name: str, limit_usd: int) -> None:
        region = cdk.Stack.of(self).region
        subscriber = budgets.CfnBudget.SubscriberProperty(
            subscription_type="SNS", address=self.topic.topic_arn
        )
        budget = budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_name=f"slipway-{cluster_name}-{region}",
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=limit_usd, unit="USD"),
                cost_filters={"Region": [region]},
            ),
            notifications_with_subscribers=[
                budgets.CfnBudget.NotificationWithSubscribersProperty(
                    notification=budgets.CfnBudget.NotificationProperty(
                        notification_type=kind,
                        comparison_operator="GREATER_THAN",
                        threshold=percent,
                        threshold_type="PERCENTAGE",
                    ),
                    subscribers=[subscriber],
                )
                for kind, percent in (("ACTUAL", 80), ("FORECASTED", 100))
            ],
        )
        # Budgets looks whether it may publish when it gets its subscriber.
        budget.node.add_dependency(self.topic)


def _allow_key(key: kms.Key, service: iam.IPrincipal) -> None:
    key.add_to_resource_policy(
        iam.PolicyStatement(
            actions=["kms:Decrypt", "kms:GenerateDataKey"], principals=[service], resources=["*"]
        )
    )


def _dashboard(
    scope: Construct,
    cluster_name: str,
    rules: dict[str, events.Rule],
    file_system: MountedFileSystem | None,
) -> cloudwatch.Dashboard:
    rows: list[tuple[cloudwatch.GraphWidget, ...]] = [
        (_idlest_hosts(), _of_jobs()),
        (
            _of_hosts("GPU utilization, % (100 for each GPU)", "GPUUtilization"),
            _of_hosts("GPU memory, % (100 for each GPU)", "GPUMemoryUtilization"),
        ),
        (
            _of_hosts("CPU, % (100 for each core)", "CPUUtilization"),
            _of_hosts("Memory, %", "MemoryUtilization"),
        ),
    ]
    ends = cloudwatch.GraphWidget(
        title="Jobs of the cluster by how they ended",
        left=[_ended(rule, state) for state, rule in rules.items()],
        width=12,
    )
    dashboard = cloudwatch.Dashboard(
        scope,
        "Dashboard",
        # Dashboards are known by their names in the whole account, clusters in one region of it.
        dashboard_name=f"slipway-{cluster_name}-{cdk.Stack.of(scope).region}",
        default_interval=cdk.Duration.hours(12),
    )
    rows += [*_of_file_system(file_system), (_of_hosts("Disk, %", "DiskUtilization"), ends)]
    for row in rows:
        dashboard.add_widgets(*row)
    return dashboard


def _of_file_system(file_system: MountedFileSystem | None) -> list[tuple[cloudwatch.GraphWidget, ...]]:
    if file_system is None:
        return []

    def graph(title: str, **metrics: str) -> cloudwatch.GraphWidget:
        shown = [file_system.metric(metric, label=label) for label, metric in metrics.items()]
        return cloudwatch.GraphWidget(title=title, left=shown, width=12)

    return [
        (
            graph("Lustre throughput, bytes per minute", read="DataReadBytes", written="DataWriteBytes"),
            graph(
                "Lustre operations per minute",
                reads="DataReadOperations",
                writes="DataWriteOperations",
                metadata="MetadataOperations",
            ),
        ),
        (graph("Lustre free space, bytes", free="FreeDataStorageCapacity"),),
    ]


def _idlest_hosts() -> cloudwatch.GraphWidget:
    query = (
        f'SELECT AVG(GPUUtilization) FROM SCHEMA("{TRAINING_LOGS}", Host) '
        f"GROUP BY Host ORDER BY AVG() ASC LIMIT {_SHOWN}"
    )
    return _graph(f"The {_SHOWN} hosts with the idlest GPUs, %: who keeps the others waiting", query)


_SHOWN = 10


def _of_jobs() -> cloudwatch.GraphWidget:
    """What the field `metrics` of a job file has read from its logs."""
    return _graph("Metrics of the jobs' own", f"SEARCH('{{{TRAINING_LOGS},TrainingJobName}}', 'Average', 60)")


def _of_hosts(title: str, metric: str) -> cloudwatch.GraphWidget:
    return _graph(title, f"SEARCH('{{{TRAINING_LOGS},Host}} MetricName=\"{metric}\"', 'Average', 60)")


def _graph(title: str, expression: str) -> cloudwatch.GraphWidget:
    line = cloudwatch.MathExpression(
        expression=expression, using_metrics={}, label="", period=cdk.Duration.minutes(1)
    )
    return cloudwatch.GraphWidget(title=title, left=[line], width=12)


def _ended(rule: events.Rule, state: str) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace="AWS/Events",
        metric_name="TriggeredRules",
        dimensions_map={"RuleName": rule.rule_name},
        statistic="Sum",
        period=cdk.Duration.hours(1),
        label=state.lower(),
    )
