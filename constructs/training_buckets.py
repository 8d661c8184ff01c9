"""The buckets of a cluster: code, checkpoints and output, and the log of who read them."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from constructs import Construct

from launcher.failure_modes.model import FailureMode

PREVENTS: tuple[FailureMode, ...] = ()
"""None: buckets prevent no failure mode of a job; they are here so that the role can be exact."""


class TrainingBuckets(Construct):
    """Three private, encrypted buckets that refuse plain HTTP and log every access into a fourth.

    Source: Amazon S3 user guide, security-best-practices.

    Attributes:
        code: what the launcher uploads and the containers read.
        checkpoints: what jobs write and resume from.
        output: model artifacts and what else a job leaves.
        access_logs: the server access logs of the three.
    """

    def __init__(self, scope: Construct, id: str, *, removal_policy: cdk.RemovalPolicy) -> None:
        """Create the buckets, with names that CloudFormation chooses.

        Args:
            scope: the parent construct.
            id: the construct's id.
            removal_policy: whether the buckets outlive the stack; a bucket that holds objects is
                never deleted.
        """
        super().__init__(scope, id)
        self._removal_policy = removal_policy
        self.access_logs = self._bucket("AccessLogs", expire_after=cdk.Duration.days(90))
        self.code = self._bucket("Code", access_logs=self.access_logs)
        self.checkpoints = self._bucket("Checkpoints", access_logs=self.access_logs)
        self.output = self._bucket("Output", access_logs=self.access_logs)

    def _bucket(
        self,
        name: str,
        *,
        access_logs: s3.IBucket | None = None,
        expire_after: cdk.Duration | None = None,
    ) -> s3.Bucket:
        bucket = s3.Bucket(
            self,
            name,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            removal_policy=self._removal_policy,
            server_access_logs_bucket=access_logs,
            server_access_logs_prefix=f"{name.lower()}/" if access_logs else None,
        )
        bucket.add_lifecycle_rule(
            # A host that dies while it uploads a checkpoint leaves parts that are paid for and seen
            # by no listing.
            abort_incomplete_multipart_upload_after=cdk.Duration.days(7),
            expiration=expire_after,
        )
        return bucket
