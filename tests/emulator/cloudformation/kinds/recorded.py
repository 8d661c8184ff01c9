"""Types that moto has nothing of, or nothing that a test asks for: an id and an ARN, in the stack alone."""

from __future__ import annotations

from typing import ClassVar

from tests.emulator.cloudformation.account import Account
from tests.emulator.cloudformation.kinds.kind import Kind, Properties, Refused, Resource


class _Recorded(Kind):
    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        """There is nothing but what the stack holds."""

    def delete(self, account: Account, old: Resource) -> None:
        """There is nothing but what the stack holds."""


class _Batch(_Recorded):
    """AWS Batch for SageMaker: moto knows neither service environments nor their queues."""

    noun: ClassVar[str]
    name: ClassVar[str]
    attribute: ClassVar[str]

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        arn = account.arn("batch", f"{self.noun}/{properties.get(self.name, name)}")
        return Resource(arn, properties, {self.attribute: arn})


class ServiceEnvironment(_Batch):
    type, noun = "AWS::Batch::ServiceEnvironment", "service-environment"
    name, attribute = "ServiceEnvironmentName", "ServiceEnvironmentArn"


class SchedulingPolicy(_Batch):
    type, noun = "AWS::Batch::SchedulingPolicy", "scheduling-policy"
    name, attribute = "Name", "Arn"


class JobQueue(_Batch):
    """A queue. A policy of fair shares can be replaced, not added or removed (CreateJobQueue's reference)."""

    type, noun = "AWS::Batch::JobQueue", "job-queue"
    name, attribute = "JobQueueName", "JobQueueArn"

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        had, has = ("SchedulingPolicyArn" in each for each in (old.properties, properties))
        if had and not has:
            raise Refused("ClientException: The scheduling policy of a job queue can't be removed.")
        if has and not had:
            raise Refused("ClientException: A FIFO job queue can't have a scheduling policy added.")


class Function(_Recorded):
    """A Lambda function, which runs only where a custom resource says what it does."""

    type = "AWS::Lambda::Function"

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        name = properties.get("FunctionName", name)
        return Resource(name, properties, {"Arn": account.arn("lambda", f"function:{name}")})


class WaitConditionHandle(_Recorded):
    """What a stack without anything else may hold: it makes nothing and costs nothing."""

    type = "AWS::CloudFormation::WaitConditionHandle"

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        return Resource(
            f"https://cloudformation-waitcondition-{account.region}.s3.amazonaws.com/{name}", properties
        )
