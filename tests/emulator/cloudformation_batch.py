"""AWS Batch for SageMaker in CloudFormation: moto knows neither service environments nor their queues.

Each is no more than an id and an ARN, which is what other resources refer to.
"""

from __future__ import annotations

from typing import Any

from moto.core.common_models import CloudFormationModel


class _Named:
    """A Batch resource whose name CloudFormation chose.

    No CloudFormationModel itself: moto knows only the direct subclasses of that.
    """

    kind: str
    attribute: str

    def __init__(self, arn: str) -> None:
        self.physical_resource_id = arn

    @staticmethod
    def cloudformation_name_type() -> str:
        return ""

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        return attr == cls.attribute

    def get_cfn_attribute(self, attribute_name: str) -> str:
        return self.physical_resource_id

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **_: Any
    ) -> Any:
        return cls(f"arn:aws:batch:{region_name}:{account_id}:{cls.kind}/{resource_name}")


class ServiceEnvironment(_Named, CloudFormationModel):
    kind, attribute = "service-environment", "ServiceEnvironmentArn"

    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::Batch::ServiceEnvironment"


class SchedulingPolicy(_Named, CloudFormationModel):
    kind, attribute = "scheduling-policy", "Arn"

    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::Batch::SchedulingPolicy"


class ServiceJobQueue(_Named, CloudFormationModel):
    kind, attribute = "job-queue", "JobQueueArn"

    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::Batch::JobQueue"
