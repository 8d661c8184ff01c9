"""The key of a cluster's data, where it has one of its own."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from constructs import Construct


class TrainingKey(kms.Key):
    """A customer-managed key, rotated every year, that IAM policies of the account may open.

    S3 and FSx use it with the permissions of who calls them, so its policy needs no service in it: the
    CDK's default gives the account's IAM policies the say. Source: KMS developer guide,
    key-policy-default; FSx for Lustre guide, encryption-at-rest.
    """

    def __init__(
        self, scope: Construct, id: str, *, cluster_name: str, removal_policy: cdk.RemovalPolicy
    ) -> None:
        """Create the key.

        Args:
            scope: the parent construct.
            id: the construct's id.
            cluster_name: for the description, by which people find it.
            removal_policy: whether the key outlives the stack. Data that are kept can only be read with
                it; a key that is destroyed can be restored for 30 days.
        """
        super().__init__(
            scope,
            id,
            description=f"Data of Slipway cluster {cluster_name}: buckets, file system, volumes",
            enable_key_rotation=True,
            removal_policy=removal_policy,
        )
