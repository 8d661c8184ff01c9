"""Buckets of S3 and their policies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from moto.s3.models import s3_backends

from tests.emulator.cloudformation.account import Account
from tests.emulator.cloudformation.kinds.kind import (
    Kind,
    NotEmulated,
    Properties,
    Put,
    Resource,
    as_list,
    only,
    tags_of,
)


class Bucket(Kind):
    type, deletion = "AWS::S3::Bucket", ("s3", "delete_bucket", "Bucket")
    KNOWN = frozenset(
        {
            "BucketName", "BucketEncryption", "LifecycleConfiguration", "LoggingConfiguration",
            "OwnershipControls", "PublicAccessBlockConfiguration", "Tags", "VersioningConfiguration",
        }
    )  # fmt: skip

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        s3, name = account.client("s3"), properties.get("BucketName", name.lower())
        place = {"CreateBucketConfiguration": {"LocationConstraint": account.region}}
        s3.create_bucket(Bucket=name, **(place if account.region != "us-east-1" else {}))
        self._configure(account, name, {}, properties)
        attributes = {
            "Arn": f"arn:aws:s3:::{name}",
            "DomainName": f"{name}.s3.amazonaws.com",
            "RegionalDomainName": f"{name}.s3.{account.region}.amazonaws.com",
        }
        return Resource(name, properties, attributes)

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        self._configure(account, old.physical_id, old.properties, properties)

    def _configure(self, account: Account, name: str, old: Properties, new: Properties) -> None:
        s3 = account.client("s3")
        if unknown := set(new) - self.KNOWN:
            raise NotEmulated(f"{self.type}: {', '.join(sorted(unknown))}")
        if encryption := new.get("BucketEncryption"):
            rules = [_encryption_rule(rule) for rule in encryption["ServerSideEncryptionConfiguration"]]
            s3.put_bucket_encryption(Bucket=name, ServerSideEncryptionConfiguration={"Rules": rules})
        elif "BucketEncryption" in old:
            s3.delete_bucket_encryption(Bucket=name)
        if lifecycle := new.get("LifecycleConfiguration"):
            rules = [_lifecycle_rule(rule) for rule in lifecycle["Rules"]]
            s3.put_bucket_lifecycle_configuration(Bucket=name, LifecycleConfiguration={"Rules": rules})
        elif "LifecycleConfiguration" in old:
            s3.delete_bucket_lifecycle(Bucket=name)
        versioning = new.get("VersioningConfiguration")
        if versioning or "VersioningConfiguration" in old:
            # Versioning is never off again: without it in the template, CloudFormation suspends it.
            wanted = versioning or {"Status": "Suspended"}
            s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=dict(wanted))
        if access := new.get("PublicAccessBlockConfiguration"):
            s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration=dict(access))
        elif "PublicAccessBlockConfiguration" in old:
            s3.delete_public_access_block(Bucket=name)
        logging = new.get("LoggingConfiguration") or {}
        # By the API, moto wants a right on the target that a template gives only later.
        target, prefix = logging.get("DestinationBucketName", name), logging.get("LogFilePrefix", "")
        wanted = {"TargetBucket": target, "TargetPrefix": prefix} if logging else {}
        s3_backends[account.id]["aws"].get_bucket(name).logging = wanted
        if tags := tags_of(new):
            s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": as_list(tags)})
        elif tags_of(old):
            s3.delete_bucket_tagging(Bucket=name)


class BucketPolicy(Put):
    type, deletion = "AWS::S3::BucketPolicy", ("s3", "delete_bucket_policy", "Bucket")
    given = "Bucket"

    def put(self, account: Account, name: str, properties: Properties) -> None:
        document = json.dumps(properties["PolicyDocument"])
        account.client("s3").put_bucket_policy(Bucket=name, Policy=document)


def _encryption_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "ApplyServerSideEncryptionByDefault": dict(rule["ServerSideEncryptionByDefault"]),
        "BucketKeyEnabled": rule.get("BucketKeyEnabled", False),
    }


def _lifecycle_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """A rule of a template, as S3's API takes it."""
    made = {
        "Status": rule["Status"],
        "Filter": {"Prefix": rule.get("Prefix", "")},
        **only(rule, "NoncurrentVersionExpiration", "Transitions"),
    }
    if "Id" in rule:
        made["ID"] = rule["Id"]
    if "ExpirationInDays" in rule:
        made["Expiration"] = {"Days": rule["ExpirationInDays"]}
    if "ExpiredObjectDeleteMarker" in rule:
        made["Expiration"] = only(rule, "ExpiredObjectDeleteMarker")
    if "AbortIncompleteMultipartUpload" in rule:
        days = rule["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"]
        made["AbortIncompleteMultipartUpload"] = {"DaysAfterInitiation": days}
    known = {
        "Id", "Status", "Prefix", "NoncurrentVersionExpiration", "Transitions", "ExpirationInDays",
        "ExpiredObjectDeleteMarker", "AbortIncompleteMultipartUpload",
    }  # fmt: skip
    if unknown := set(rule) - known:
        raise NotEmulated(f"a bucket's life cycle rule with {', '.join(sorted(unknown))}")
    return made
