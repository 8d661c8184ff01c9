"""The key of a cluster's data, where it has one of its own."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct


class TrainingKey(kms.Key):
    """A customer-managed key, rotated every year, that IAM policies of the account may open.

    S3 and FSx use it with the permissions of who calls them, so its policy needs no service in it: the
    CDK's default gives the account's IAM policies the say. Only links between a file system and S3 are used
    by FSx itself, as a service-linked role, whose policy knows no key. Source: KMS developer guide,
    key-policy-default; FSx for Lustre guide, encryption-at-rest and s3-server-side-encryption-support.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster_name: str,
        removal_policy: cdk.RemovalPolicy,
        links_to_s3: bool = False,
    ) -> None:
        """Create the key.

        Args:
            scope: the parent construct.
            id: the construct's id.
            cluster_name: for the description, by which people find it.
            removal_policy: whether the key outlives the stack. Data that are kept can only be read with
                it; a key that is destroyed can be restored for 30 days.
            links_to_s3: whether file systems of the account may read and write linked buckets with it.
        """
        super().__init__(
            scope,
            id,
            description=f"Data of Slipway cluster {cluster_name}: buckets, file system, volumes",
            enable_key_rotation=True,
            removal_policy=removal_policy,
        )
        if links_to_s3:
            self.add_to_resource_policy(_let_links_pass(cdk.Stack.of(self)))


def _let_links_pass(stack: cdk.Stack) -> iam.PolicyStatement:
    """Let FSx read and write objects under the key, through S3 alone.

    The role is called after its file system, which does not exist before its key.
    """
    role = f"arn:{stack.partition}:iam::{stack.account}:role/aws-service-role/s3.data-source.lustre.fsx.*"
    return iam.PolicyStatement(
        sid="LinksOfFileSystems",
        principals=[iam.AccountRootPrincipal()],
        actions=["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"],
        resources=["*"],
        conditions={
            "ArnLike": {"aws:PrincipalArn": f"{role}/AWSServiceRoleForFSxS3Access_*"},
            "StringLike": {"kms:ViaService": f"s3.{stack.region}.amazonaws.com*"},
        },
    )
