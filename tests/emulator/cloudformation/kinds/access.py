"""IAM's roles and policies, and keys of KMS.

Policies of AWS itself (`arn:aws:iam::aws:policy/...`) are not attached: moto does not hold them.
"""

from __future__ import annotations

import json
from typing import Any

from tests.emulator.cloudformation.account import Account
from tests.emulator.cloudformation.kinds.kind import (
    Kind,
    Properties,
    Put,
    Resource,
    as_list,
    only,
    tags_gone,
    tags_of,
)


class Role(Kind):
    type = "AWS::IAM::Role"

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        iam, name = account.client("iam"), properties.get("RoleName", name)
        made = iam.create_role(
            RoleName=name,
            AssumeRolePolicyDocument=json.dumps(properties["AssumeRolePolicyDocument"]),
            Tags=as_list(tags_of(properties)),
            **only(properties, "Path", "Description", "MaxSessionDuration", "PermissionsBoundary"),
        )["Role"]
        self._give(iam, name, properties)
        return Resource(name, properties, {"Arn": made["Arn"], "RoleId": made["RoleId"]})

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        iam, name = account.client("iam"), old.physical_id
        document = json.dumps(properties["AssumeRolePolicyDocument"])
        iam.update_assume_role_policy(RoleName=name, PolicyDocument=document)
        iam.update_role(RoleName=name, **only(properties, "Description", "MaxSessionDuration"))
        boundary = properties.get("PermissionsBoundary")
        if boundary:
            iam.put_role_permissions_boundary(RoleName=name, PermissionsBoundary=boundary)
        elif "PermissionsBoundary" in old.properties:
            iam.delete_role_permissions_boundary(RoleName=name)
        self._take(iam, name, old.properties, besides=properties)
        self._give(iam, name, properties, besides=old.properties)
        if gone := tags_gone(old, properties):
            iam.untag_role(RoleName=name, TagKeys=gone)
        iam.tag_role(RoleName=name, Tags=as_list(tags_of(properties)))

    def delete(self, account: Account, old: Resource) -> None:
        iam = account.client("iam")
        self._take(iam, old.physical_id, old.properties)
        iam.delete_role(RoleName=old.physical_id)

    def _give(self, iam: Any, name: str, properties: Properties, besides: Properties | None = None) -> None:
        for policy in properties.get("Policies", ()):
            document = json.dumps(policy["PolicyDocument"])
            iam.put_role_policy(RoleName=name, PolicyName=policy["PolicyName"], PolicyDocument=document)
        for arn in _managed(properties) - _managed(besides or {}):
            iam.attach_role_policy(RoleName=name, PolicyArn=arn)

    def _take(self, iam: Any, name: str, properties: Properties, besides: Properties | None = None) -> None:
        kept = {policy["PolicyName"] for policy in (besides or {}).get("Policies", ())}
        for policy in properties.get("Policies", ()):
            if policy["PolicyName"] not in kept:
                iam.delete_role_policy(RoleName=name, PolicyName=policy["PolicyName"])
        for arn in _managed(properties) - _managed(besides or {}):
            iam.detach_role_policy(RoleName=name, PolicyArn=arn)


class InlinePolicy(Put):
    type = "AWS::IAM::Policy"

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        super().update(account, old, properties)
        same = old.properties["PolicyName"] == properties["PolicyName"]
        kept = set(properties["Roles"]) if same else set()
        self._remove(account, old.properties, set(old.properties["Roles"]) - kept)

    def delete(self, account: Account, old: Resource) -> None:
        self._remove(account, old.properties, set(old.properties["Roles"]))

    def put(self, account: Account, name: str, properties: Properties) -> None:
        document = json.dumps(properties["PolicyDocument"])
        for role in properties["Roles"]:
            account.client("iam").put_role_policy(
                RoleName=role, PolicyName=properties["PolicyName"], PolicyDocument=document
            )

    def _remove(self, account: Account, properties: Properties, roles: set[str]) -> None:
        for role in roles:
            account.client("iam").delete_role_policy(RoleName=role, PolicyName=properties["PolicyName"])


class ManagedPolicy(Kind):
    type = "AWS::IAM::ManagedPolicy"

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        iam = account.client("iam")
        made = iam.create_policy(
            PolicyName=properties.get("ManagedPolicyName", name),
            PolicyDocument=json.dumps(properties["PolicyDocument"]),
            **only(properties, "Path", "Description"),
        )["Policy"]
        for role in properties.get("Roles", ()):
            iam.attach_role_policy(RoleName=role, PolicyArn=made["Arn"])
        return Resource(made["Arn"], properties, {"PolicyArn": made["Arn"]})

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        iam, arn = account.client("iam"), old.physical_id
        if properties["PolicyDocument"] != old.properties["PolicyDocument"]:
            self._delete_old_versions(iam, arn)
            document = json.dumps(properties["PolicyDocument"])
            iam.create_policy_version(PolicyArn=arn, PolicyDocument=document, SetAsDefault=True)
        before, after = set(old.properties.get("Roles", ())), set(properties.get("Roles", ()))
        for role in after - before:
            iam.attach_role_policy(RoleName=role, PolicyArn=arn)
        for role in before - after:
            iam.detach_role_policy(RoleName=role, PolicyArn=arn)

    def delete(self, account: Account, old: Resource) -> None:
        iam = account.client("iam")
        for role in old.properties.get("Roles", ()):
            iam.detach_role_policy(RoleName=role, PolicyArn=old.physical_id)
        self._delete_old_versions(iam, old.physical_id)
        iam.delete_policy(PolicyArn=old.physical_id)

    def _delete_old_versions(self, iam: Any, arn: str) -> None:
        for version in iam.list_policy_versions(PolicyArn=arn)["Versions"]:
            if not version["IsDefaultVersion"]:
                iam.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])


class Key(Kind):
    type = "AWS::KMS::Key"

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        kms = account.client("kms")
        made = kms.create_key(
            Policy=json.dumps(properties["KeyPolicy"]),
            Tags=as_list(tags_of(properties), "TagKey", "TagValue"),
            **only(properties, "Description"),
        )["KeyMetadata"]
        self._set_rotation(kms, made["KeyId"], properties)
        return Resource(made["KeyId"], properties, {"Arn": made["Arn"], "KeyId": made["KeyId"]})

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        kms, id_ = account.client("kms"), old.physical_id
        kms.put_key_policy(KeyId=id_, PolicyName="default", Policy=json.dumps(properties["KeyPolicy"]))
        kms.update_key_description(KeyId=id_, Description=properties.get("Description", ""))
        self._set_rotation(kms, id_, properties)
        if gone := tags_gone(old, properties):
            kms.untag_resource(KeyId=id_, TagKeys=gone)
        kms.tag_resource(KeyId=id_, Tags=as_list(tags_of(properties), "TagKey", "TagValue"))

    def delete(self, account: Account, old: Resource) -> None:
        days = old.properties.get("PendingWindowInDays", 30)
        account.client("kms").schedule_key_deletion(KeyId=old.physical_id, PendingWindowInDays=days)

    def _set_rotation(self, kms: Any, id_: str, properties: Properties) -> None:
        rotated = properties.get("EnableKeyRotation", False)
        (kms.enable_key_rotation if rotated else kms.disable_key_rotation)(KeyId=id_)


def _managed(properties: Properties) -> set[str]:
    return {arn for arn in properties.get("ManagedPolicyArns", ()) if "::aws:policy/" not in arn}
