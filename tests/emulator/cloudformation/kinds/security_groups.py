"""Security groups and their rules."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import uuid4

from tests.emulator.cloudformation.account import Account
from tests.emulator.cloudformation.kinds.kind import Kind, Properties, Put, Resource, only
from tests.emulator.cloudformation.kinds.network import interfaces_of, refuse_where_used, retag, tagged

ALL_OUT = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
# The group and the prefix list at the other end of a rule are called otherwise by the rule's direction.
PEERS = {"ingress": ("SourceSecurityGroupId", "SourcePrefixListId")}
PEERS["egress"] = ("DestinationSecurityGroupId", "DestinationPrefixListId")


def permission(rule: Properties, direction: str) -> dict[str, Any]:
    """A rule of a template, as EC2's API takes it."""
    told = only(rule, "Description")
    group, prefix_list = PEERS[direction]
    found: dict[str, Any] = {"IpProtocol": str(rule["IpProtocol"]), **only(rule, "FromPort", "ToPort")}
    if "CidrIp" in rule:
        found["IpRanges"] = [{"CidrIp": rule["CidrIp"], **told}]
    if group in rule:
        found["UserIdGroupPairs"] = [{"GroupId": rule[group], **told}]
    if prefix_list in rule:
        found["PrefixListIds"] = [{"PrefixListId": rule[prefix_list], **told}]
    return found


class SecurityGroup(Kind):
    type = "AWS::EC2::SecurityGroup"

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        ec2 = account.client("ec2")
        made = ec2.create_security_group(
            GroupName=properties.get("GroupName", name),
            Description=properties["GroupDescription"],
            **only(properties, "VpcId"),
            **tagged("security-group", properties),
        )
        id_ = made["GroupId"]
        if properties.get("SecurityGroupEgress"):
            ec2.revoke_security_group_egress(GroupId=id_, IpPermissions=[ALL_OUT])
        self._allow(ec2, id_, properties)
        return Resource(id_, properties, {"GroupId": id_, **only(properties, "VpcId")})

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        ec2, id_ = account.client("ec2"), old.physical_id
        inline = ("SecurityGroupIngress", "SecurityGroupEgress")
        if only(old.properties, *inline) != only(properties, *inline):
            before = self._permissions(old.properties)
            if ingress := before["ingress"]:
                ec2.revoke_security_group_ingress(GroupId=id_, IpPermissions=ingress)
            ec2.revoke_security_group_egress(GroupId=id_, IpPermissions=before["egress"] or [ALL_OUT])
            self._allow(ec2, id_, properties)
            if not properties.get("SecurityGroupEgress"):
                ec2.authorize_security_group_egress(GroupId=id_, IpPermissions=[ALL_OUT])
        retag(ec2, id_, old, properties)

    def delete(self, account: Account, old: Resource) -> None:
        ec2, id_ = account.client("ec2"), old.physical_id
        used = interfaces_of(ec2, "group-id", id_)
        for group in ec2.describe_security_groups()["SecurityGroups"]:
            rules = (*group["IpPermissions"], *group["IpPermissionsEgress"])
            peers = {pair["GroupId"] for rule in rules for pair in rule["UserIdGroupPairs"]}
            if group["GroupId"] != id_ and id_ in peers:
                used.append(group["GroupId"])
        refuse_where_used(f"security group '{id_}'", used)
        ec2.delete_security_group(GroupId=id_)

    def _permissions(self, properties: Properties) -> dict[str, list[dict[str, Any]]]:
        return {
            direction: [permission(rule, direction) for rule in properties.get(name, ())]
            for direction, name in (("ingress", "SecurityGroupIngress"), ("egress", "SecurityGroupEgress"))
        }

    def _allow(self, ec2: Any, id_: str, properties: Properties) -> None:
        wanted = self._permissions(properties)
        if wanted["ingress"]:
            ec2.authorize_security_group_ingress(GroupId=id_, IpPermissions=wanted["ingress"])
        if wanted["egress"]:
            ec2.authorize_security_group_egress(GroupId=id_, IpPermissions=wanted["egress"])


class _Rule(Kind):
    direction: ClassVar[str]

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        self._call(account, "authorize_security_group_", properties)
        return Resource(f"sgr-{uuid4().hex[:17]}", properties)

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        self._call(account, "update_security_group_rule_descriptions_", properties)

    def delete(self, account: Account, old: Resource) -> None:
        self._call(account, "revoke_security_group_", old.properties)

    def _call(self, account: Account, verb: str, properties: Properties) -> None:
        getattr(account.client("ec2"), verb + self.direction)(
            GroupId=properties["GroupId"], IpPermissions=[permission(properties, self.direction)]
        )


class SecurityGroupIngress(_Rule):
    type, direction = "AWS::EC2::SecurityGroupIngress", "ingress"


class SecurityGroupEgress(_Rule):
    """One egress rule.

    As CloudFormation is said to do (aws-cdk issues 987 and 22140), adding one takes away an allow-all
    rule that is already there; so the order in which a template adds its rules shows in the result.
    """

    type, direction = "AWS::EC2::SecurityGroupEgress", "egress"

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        ec2, id_ = account.client("ec2"), properties["GroupId"]
        (group,) = ec2.describe_security_groups(GroupIds=[id_])["SecurityGroups"]
        if any(_allows_all(rule) for rule in group["IpPermissionsEgress"]):
            ec2.revoke_security_group_egress(GroupId=id_, IpPermissions=[ALL_OUT])
        return super().create(account, name, properties)


class EmptyDefaultSecurityGroup(Put):
    """The CDK's custom resource: it revokes the rules of a VPC's default group, and gives them back."""

    type = "Custom::VpcRestrictDefaultSG"

    def delete(self, account: Account, old: Resource) -> None:
        self._run(account, old.properties)
        ec2, id_ = account.client("ec2"), old.properties["DefaultSecurityGroupId"]
        itself = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": id_}]}
        ec2.authorize_security_group_ingress(GroupId=id_, IpPermissions=[itself])
        ec2.authorize_security_group_egress(GroupId=id_, IpPermissions=[ALL_OUT])

    def put(self, account: Account, name: str, properties: Properties) -> None:
        self._run(account, properties)
        ec2, id_ = account.client("ec2"), properties["DefaultSecurityGroupId"]
        (group,) = ec2.describe_security_groups(GroupIds=[id_])["SecurityGroups"]
        if group["IpPermissions"]:
            ec2.revoke_security_group_ingress(GroupId=id_, IpPermissions=group["IpPermissions"])
        if group["IpPermissionsEgress"]:
            ec2.revoke_security_group_egress(GroupId=id_, IpPermissions=group["IpPermissionsEgress"])

    def _run(self, account: Account, properties: Properties) -> None:
        # A function that has run leaves a log group that belongs to no stack.
        logs, function = account.client("logs"), properties["ServiceToken"].rpartition(":")[2]
        name = f"/aws/lambda/{function}"
        if not logs.describe_log_groups(logGroupNamePrefix=name)["logGroups"]:
            logs.create_log_group(logGroupName=name)


def _allows_all(rule: dict[str, Any]) -> bool:
    return rule["IpProtocol"] == "-1" and {"CidrIp": "0.0.0.0/0"} in rule["IpRanges"]
