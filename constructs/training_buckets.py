"""The buckets of a cluster: code, checkpoints and output, and the log of who read them."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from launcher.cluster.names import CODE_FOLDER


class TrainingBuckets(Construct):
    """Three private, encrypted buckets that refuse plain HTTP and log every access into a fourth.

    They are versioned: SageMaker mirrors deletions of the local checkpoint folder into the bucket, so
    a script that clears its folder would otherwise have deleted its checkpoints for good. Old versions
    go after two weeks. Source: Amazon S3 user guide, security-best-practices; SageMaker developer
    guide, model-checkpoints.

    Code is written once: below `code/` nobody, whatever a policy of theirs allows, can put an object where
    one lies, so that under the digest of some code no other code comes to lie. It is never deleted by
    itself; who may delete an object makes room for another one.

    Attributes:
        code: what the launcher uploads and the containers read.
        checkpoints: what jobs write and resume from.
        output: model artifacts and what else a job leaves.
        access_logs: the server access logs of those created here, or None where all exist already.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        removal_policy: cdk.RemovalPolicy,
        encryption_key: kms.IKey | None = None,
        existing_code: str | None = None,
        existing_checkpoints: str | None = None,
        existing_output: str | None = None,
        checkpoint_versions: int | None = None,
    ) -> None:
        """Create those of the buckets that do not exist, with names that CloudFormation chooses.

        Args:
            scope: the parent construct.
            id: the construct's id.
            removal_policy: whether the buckets and their policies outlive the stack; a bucket that holds
                objects is never deleted.
            encryption_key: the key of the objects; by default S3's own.
            existing_code: name of a bucket to use for code, which is left as it is.
            existing_checkpoints: the same for checkpoints.
            existing_output: the same for output.
            checkpoint_versions: how many old versions of a new bucket's checkpoint are kept for more than a
                day, 1 to 100; by default all are, for two weeks.
        """
        super().__init__(scope, id)
        self._removal_policy = removal_policy
        # Records may be in it before a first deployment fails, and a bucket that cannot be deleted would
        # leave the stack in ROLLBACK_FAILED: it stays then, too.
        self._policy_of_logs = (
            cdk.RemovalPolicy.RETAIN if removal_policy is not cdk.RemovalPolicy.DESTROY else removal_policy
        )
        self._encryption_key = encryption_key
        self.access_logs: s3.Bucket | None = None
        self.code = self._existing_or_new("Code", existing_code)
        if existing_code is None:
            self.code.add_to_resource_policy(_write_once(self.code))
        self.checkpoints = self._existing_or_new("Checkpoints", existing_checkpoints)
        if checkpoint_versions is not None:
            self._bound_versions(self.checkpoints, checkpoint_versions)
        self.output = self._existing_or_new("Output", existing_output)
        if removal_policy is not cdk.RemovalPolicy.DESTROY:
            # A bucket that stays goes on refusing plain HTTP, and code that replaces other code.
            for bucket in (self.code, self.checkpoints, self.output, self.access_logs):
                if isinstance(bucket, s3.Bucket) and bucket.policy is not None:
                    of_logs = bucket is self.access_logs
                    bucket.policy.apply_removal_policy(self._policy_of_logs if of_logs else removal_policy)

    def _existing_or_new(self, name: str, existing: str | None) -> s3.IBucket:
        if existing is not None:
            return s3.Bucket.from_bucket_name(self, name, existing)
        if self.access_logs is None:
            self.access_logs = self._log_bucket()
        key = self._encryption_key
        bucket = s3.Bucket(
            self,
            name,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            bucket_key_enabled=True if key else None,
            encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
            encryption_key=key,
            enforce_ssl=True,
            removal_policy=self._removal_policy,
            server_access_logs_bucket=self.access_logs,
            server_access_logs_prefix=f"{name.lower()}/",
            versioned=True,
        )
        bucket.add_lifecycle_rule(
            # A host that dies while it uploads a checkpoint leaves parts that are paid for and seen
            # by no listing.
            abort_incomplete_multipart_upload_after=cdk.Duration.days(7),
            noncurrent_version_expiration=cdk.Duration.days(14),
            expired_object_delete_marker=True,
        )
        return bucket

    def _bound_versions(self, bucket: s3.IBucket, number: int) -> None:
        """Let old versions go after a day where there are newer ones; S3 bounds by number not sooner.

        Beside the rule that lets all of them go: the one that comes first counts. Source: Amazon S3 user
        guide, intro-lifecycle-rules (NoncurrentVersionExpiration).
        """
        if isinstance(bucket, s3.Bucket):
            bucket.add_lifecycle_rule(
                noncurrent_version_expiration=cdk.Duration.days(1), noncurrent_versions_to_retain=number
            )

    def _log_bucket(self) -> s3.Bucket:
        bucket = s3.Bucket(
            self,
            "AccessLogs",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            # S3 delivers access logs into no bucket that a key of the account encrypts by default
            # (Amazon S3 user guide, troubleshooting-server-access-logging).
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            removal_policy=self._policy_of_logs,
        )
        bucket.add_lifecycle_rule(
            abort_incomplete_multipart_upload_after=cdk.Duration.days(7), expiration=cdk.Duration.days(90)
        )
        return bucket


def _write_once(code: s3.IBucket) -> iam.PolicyStatement:
    """Deny what creates an object unless it demands that there is none, `If-None-Match: *`.

    Starting an upload in parts, and each part, know no such condition and create nothing. Copies into the
    folder are denied as well. Source: Amazon S3 user guide, conditional-writes-enforce.
    """
    return iam.PolicyStatement(
        sid="WriteCodeOnce",
        effect=iam.Effect.DENY,
        principals=[iam.AnyPrincipal()],
        actions=["s3:PutObject"],
        resources=[code.arn_for_objects(f"{CODE_FOLDER}/*")],
        conditions={
            "Null": {"s3:if-none-match": "true"},
            "Bool": {"s3:ObjectCreationOperation": "true"},
        },
    )
