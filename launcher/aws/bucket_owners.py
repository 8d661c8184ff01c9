"""Whose the cluster's buckets are, said with each call: a bucket's name alone could be anybody's.

A bucket that was deleted leaves its name to the next who takes it, in whatever account. Source: Amazon S3
user guide, bucket-owner-condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from launcher.failure_modes.refusal import AwsRefusal


@contextmanager
def expected_owners(s3: Any, owners: Mapping[str, str]) -> Iterator[None]:
    """Within this, S3 refuses the client's calls about these buckets where another account owns them.

    `owners` are accounts by the names of their buckets; the transfers of boto3, which know no expectation for
    the place that they copy from, are told too. A refusal that may come of it says so.
    """

    def expect(params: dict[str, Any], model: Any, **_: Any) -> None:
        known = model.input_shape.members
        owner = owners.get(params.get("Bucket", ""))
        if owner is not None and "ExpectedBucketOwner" in known:
            params["ExpectedBucketOwner"] = owner
        source = params.get("CopySource")
        owner = owners.get(source.get("Bucket", "")) if isinstance(source, Mapping) else None
        if owner is not None and "ExpectedSourceBucketOwner" in known:
            params["ExpectedSourceBucketOwner"] = owner

    s3.meta.events.register("provide-client-params.s3", expect)
    try:
        with naming_owners(owners):
            yield
    finally:
        s3.meta.events.unregister("provide-client-params.s3", expect)


@contextmanager
def naming_owners(owners: Mapping[str, str]) -> Iterator[None]:
    """Let a denial also name another owner as its cause: S3 does not tell that from a missing permission."""
    from botocore.exceptions import ClientError

    try:
        yield
    except AwsRefusal as refusal:
        cause = refusal.__cause__
        answer = cause.response.get("ResponseMetadata", {}) if isinstance(cause, ClientError) else {}
        if not owners or answer.get("HTTPStatusCode") != 403:
            raise
        buckets = " and ".join(f"{name} to the account {owner}" for name, owner in owners.items())
        hint = (
            f"Or a bucket of this name belongs to somebody else: the launcher expects {buckets}. Deploy the "
            "cluster again where one of its buckets was deleted."
        )
        raise type(refusal)(f"{refusal.message} {hint}", refusal.remedy) from cause
