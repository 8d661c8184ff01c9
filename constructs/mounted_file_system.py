"""A Lustre file system as those who mount, watch or name it see it, whoever made it."""

from __future__ import annotations

from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

_GIB = 2**30


@dataclass(frozen=True, slots=True)
class MountedFileSystem:
    """What is known of a file system outside of where it was made; the texts may hold tokens.

    Attributes:
        file_system_id: such as `fs-0123456789abcdef0`.
        mount_name: the first element of every path on it.
        subnet_id: the subnet it stands in; jobs that mount it run in that subnet's zone.
        security_group_id: the group of its interfaces.
        capacity_gib: its size in GiB, or None where that is not known here.
        elastic: whether it grows with what lies on it, so that it never fills up.
    """

    file_system_id: str
    mount_name: str
    subnet_id: str
    security_group_id: str
    capacity_gib: int | None = None
    elastic: bool = False

    def arn(self, stack: cdk.Stack) -> str:
        """The file system's ARN, for use in the stack."""
        return stack.format_arn(service="fsx", resource="file-system", resource_name=self.file_system_id)

    def dns_name(self, stack: cdk.Stack) -> str:
        """The name by which clients mount it, for use in the stack (FSx for Lustre guide, mounting-ec2)."""
        return f"{self.file_system_id}.fsx.{stack.region}.{stack.url_suffix}"

    def metric(self, name: str, *, statistic: str = "Sum", label: str | None = None) -> cloudwatch.Metric:
        """A metric of the file system, such as DataReadBytes (FSx for Lustre guide, fs-metrics)."""
        return cloudwatch.Metric(
            namespace="AWS/FSx",
            metric_name=name,
            dimensions_map={"FileSystemId": self.file_system_id},
            statistic=statistic,
            label=label,
            period=cdk.Duration.minutes(1),
        )

    def alarm_on_free_capacity(self, scope: Construct, id: str, *, percent: int) -> cloudwatch.Alarm:
        """An alarm for when less than so many percent are free: a full file system fails every write.

        Where the capacity is not known, it is what is free and what is used together.

        Args:
            scope: where the alarm goes, such as the stack that notifies.
            id: the alarm's id there.
            percent: of the capacity.
        """
        free = self.metric("FreeDataStorageCapacity")
        metric: cloudwatch.IMetric = free
        threshold = percent
        if self.capacity_gib is None:
            metric = cloudwatch.MathExpression(
                expression="100 * free / (free + used)",
                using_metrics={"free": free, "used": self.metric("PhysicalDiskUsage")},
                label="free, %",
                period=cdk.Duration.minutes(1),
            )
        else:
            threshold = self.capacity_gib * _GIB * percent // 100
        return cloudwatch.Alarm(
            scope,
            id,
            alarm_description=f"Less than {percent} % of the file system is free: checkpoints may fail",
            metric=metric,
            threshold=threshold,
            comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            evaluation_periods=5,
            treat_missing_data=cloudwatch.TreatMissingData.IGNORE,
        )
