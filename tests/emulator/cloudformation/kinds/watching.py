"""Logs, alarms, dashboards, events, topics, budgets, and parameters of Systems Manager."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from tests.emulator.cloudformation.account import Account
from tests.emulator.cloudformation.kinds.kind import (
    Kind,
    Properties,
    Put,
    Refused,
    Resource,
    as_list,
    only,
    tags_gone,
    tags_of,
)


class LogGroup(Kind):
    type, deletion = "AWS::Logs::LogGroup", ("logs", "delete_log_group", "logGroupName")

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        logs, name = account.client("logs"), properties.get("LogGroupName", name)
        key = {"kmsKeyId": properties["KmsKeyId"]} if "KmsKeyId" in properties else {}
        logs.create_log_group(logGroupName=name, tags=tags_of(properties), **key)
        self._retain(logs, name, properties)
        return Resource(name, properties, {"Arn": account.arn("logs", f"log-group:{name}:*")})

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        logs = account.client("logs")
        self._retain(logs, old.physical_id, properties)
        arn = old.attributes["Arn"].removesuffix(":*")
        if gone := tags_gone(old, properties):
            logs.untag_resource(resourceArn=arn, tagKeys=gone)
        logs.tag_resource(resourceArn=arn, tags=tags_of(properties))

    def _retain(self, logs: Any, name: str, properties: Properties) -> None:
        if days := properties.get("RetentionInDays"):
            logs.put_retention_policy(logGroupName=name, retentionInDays=int(days))
        else:
            logs.delete_retention_policy(logGroupName=name)


class LogRetention(Kind):
    """The CDK's custom resource: a log group that may be there already, and is never taken away."""

    type = "Custom::LogRetention"

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        logs, group = account.client("logs"), str(properties["LogGroupName"])
        with contextlib.suppress(logs.exceptions.ResourceAlreadyExistsException):
            logs.create_log_group(logGroupName=group)
        logs.put_retention_policy(logGroupName=group, retentionInDays=int(properties["RetentionInDays"]))
        return Resource(group, properties, {"LogGroupName": group})

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        self.create(account, old.physical_id, properties)

    def delete(self, account: Account, old: Resource) -> None:
        """The group stays as it is."""


class Alarm(Put):
    type, deletion = "AWS::CloudWatch::Alarm", ("cloudwatch", "delete_alarms", "AlarmNames")
    given, arn = "AlarmName", ("cloudwatch", "alarm:")

    def put(self, account: Account, name: str, properties: Properties) -> None:
        account.client("cloudwatch").put_metric_alarm(**{**properties, "AlarmName": name})


class Dashboard(Put):
    type, deletion = "AWS::CloudWatch::Dashboard", ("cloudwatch", "delete_dashboards", "DashboardNames")
    given = "DashboardName"

    def put(self, account: Account, name: str, properties: Properties) -> None:
        body = properties["DashboardBody"]
        account.client("cloudwatch").put_dashboard(DashboardName=name, DashboardBody=body)


class Rule(Put):
    type, deletion = "AWS::Events::Rule", ("events", "delete_rule", "Name")
    given, arn = "Name", ("events", "rule/")

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        super().update(account, old, properties)
        kept = {target["Id"] for target in properties.get("Targets", ())}
        self._remove(account, old, [each for each in _targets(old.properties) if each not in kept])

    def delete(self, account: Account, old: Resource) -> None:
        self._remove(account, old, _targets(old.properties))
        super().delete(account, old)

    def put(self, account: Account, name: str, properties: Properties) -> None:
        events = account.client("events")
        events.put_rule(
            Name=name,
            EventPattern=json.dumps(properties["EventPattern"]),
            Tags=as_list(tags_of(properties)),
            **only(properties, "State", "Description"),
        )
        if targets := properties.get("Targets"):
            events.put_targets(Rule=name, Targets=list(targets))

    def _remove(self, account: Account, old: Resource, targets: list[str]) -> None:
        if targets:
            account.client("events").remove_targets(Rule=old.physical_id, Ids=targets)


class Topic(Kind):
    type, deletion = "AWS::SNS::Topic", ("sns", "delete_topic", "TopicArn")

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        key = only(properties, "KmsMasterKeyId", "DisplayName")
        made = account.client("sns").create_topic(
            Name=properties.get("TopicName", name), Attributes=key, Tags=as_list(tags_of(properties))
        )
        return Resource(made["TopicArn"], properties, {"TopicArn": made["TopicArn"]})

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        sns, arn = account.client("sns"), old.physical_id
        key = properties.get("KmsMasterKeyId", "")
        sns.set_topic_attributes(TopicArn=arn, AttributeName="KmsMasterKeyId", AttributeValue=key)
        if gone := tags_gone(old, properties):
            sns.untag_resource(ResourceArn=arn, TagKeys=gone)
        sns.tag_resource(ResourceArn=arn, Tags=as_list(tags_of(properties)))


class TopicPolicy(Put):
    type = "AWS::SNS::TopicPolicy"

    def delete(self, account: Account, old: Resource) -> None:
        """SNS has no such call: CloudFormation leaves the topic its policy, which goes with the topic."""

    def put(self, account: Account, name: str, properties: Properties) -> None:
        policy = {"AttributeName": "Policy", "AttributeValue": json.dumps(properties["PolicyDocument"])}
        for arn in properties["Topics"]:
            account.client("sns").set_topic_attributes(TopicArn=arn, **policy)


class Subscription(Kind):
    type, deletion = "AWS::SNS::Subscription", ("sns", "unsubscribe", "SubscriptionArn")

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        wanted = only(properties, "TopicArn", "Protocol", "Endpoint")
        made = account.client("sns").subscribe(**wanted, ReturnSubscriptionArn=True)
        return Resource(made["SubscriptionArn"], properties)


class Budget(Kind):
    type = "AWS::Budgets::Budget"

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        name = properties["Budget"].get("BudgetName", name)
        self._create(account, name, properties)
        return Resource(name, properties)

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        # moto cannot change a budget.
        self.delete(account, old)
        self._create(account, old.physical_id, properties)

    def delete(self, account: Account, old: Resource) -> None:
        account.client("budgets").delete_budget(AccountId=account.id, BudgetName=old.physical_id)

    def _create(self, account: Account, name: str, properties: Properties) -> None:
        limit = properties["Budget"]["BudgetLimit"]
        amount = {"Amount": str(limit["Amount"]), "Unit": limit["Unit"]}
        wanted = only(properties["Budget"], "BudgetType", "TimeUnit")
        budget = {"BudgetName": name, "BudgetLimit": amount, **wanted}
        account.client("budgets").create_budget(AccountId=account.id, Budget=budget)


MOST_CHARACTERS = {"Standard": 4096, "Advanced": 8192, "Intelligent-Tiering": 8192}
"""Of a parameter's value. Source: Systems Manager user guide, parameter-store-advanced-parameters."""


class Parameter(Kind):
    type, deletion = "AWS::SSM::Parameter", ("ssm", "delete_parameter", "Name")

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        name = properties.get("Name", name)
        tags = as_list(tags_of(properties))
        account.client("ssm").put_parameter(**self._wanted(name, properties), Tags=tags)
        return Resource(name, properties)

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        ssm, name = account.client("ssm"), old.physical_id
        ssm.put_parameter(**self._wanted(name, properties), Overwrite=True)
        if gone := tags_gone(old, properties):
            ssm.remove_tags_from_resource(ResourceType="Parameter", ResourceId=name, TagKeys=gone)
        if tags := tags_of(properties):
            ssm.add_tags_to_resource(ResourceType="Parameter", ResourceId=name, Tags=as_list(tags))

    def _wanted(self, name: str, properties: Properties) -> dict[str, Any]:
        tier, size = properties.get("Tier", "Standard"), len(properties["Value"])
        if size > MOST_CHARACTERS[tier]:
            # moto takes values of any length.
            raise Refused(f"ValidationException: {tier} parameters have {MOST_CHARACTERS[tier]} characters.")
        return {"Name": name, **only(properties, "Type", "Value", "Description", "Tier")}


def _targets(properties: Properties) -> list[str]:
    return [target["Id"] for target in properties.get("Targets", ())]
