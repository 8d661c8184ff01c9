"""What S3 holds against a call by its bucket: the conditions of the bucket's policy, and whose it is.

moto applies a bucket's policy without its conditions, and ignores what a call expects of the owner. It also
leaves the number of parts out of the checksum that HeadObject answers for an object of several parts, and
does not compare the source of a copy with the ETag that is expected of it, nor refuse to copy over an object.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, unquote, urlsplit

from moto.iam.access_control import PermissionResult
from moto.s3.models import FakeBucket, s3_backends
from moto.s3.responses import S3Response

from tests.emulator.iam_policy import allows

_ACTIONS = {"GET": "s3:GetObject", "HEAD": "s3:GetObject", "DELETE": "s3:DeleteObject"}
_UNMET = "<Error><Code>PreconditionFailed</Code><Message>A condition did not hold</Message></Error>"
_DENIED = "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


@contextmanager
def emulated_buckets() -> Iterator[None]:
    """Within this, buckets deny what their policies deny, and calls that expect another owner.

    Use inside `mock_aws`.
    """
    whole, part = S3Response._bucket_response, S3Response._key_response

    def bucket_response(response: S3Response, request: Any, full_url: str) -> Any:
        bucket = response.parse_bucket_name_from_url(request, full_url)
        return _denial(request.headers, bucket) or whole(response, request, full_url)

    def key_response(response: S3Response, request: Any, full_url: str) -> Any:
        bucket, key = response.parse_bucket_name_from_url(request, full_url), response.parse_key_name()
        query = parse_qs(urlsplit(full_url).query, keep_blank_values=True)
        action, context = _call(request.method, query, request.headers)
        if not _policy_lets(bucket, f"arn:aws:s3:::{bucket}/{key}", action, context):
            return 403, {}, _DENIED
        refused = _denial(request.headers, bucket) or _unmet(response, request.headers, bucket, key)
        answer = refused or part(response, request, full_url)
        if request.method == "HEAD" and answer[0] == 200:
            _count_parts(answer[1], response.backend.get_object(bucket, key))
        return answer

    def without_conditions(*_: Any) -> PermissionResult:
        return PermissionResult.NEUTRAL

    with (
        mock.patch.object(S3Response, "_bucket_response", bucket_response),
        mock.patch.object(S3Response, "_key_response", key_response),
        mock.patch.object(FakeBucket, "get_permission", without_conditions),
    ):
        yield


def _denial(headers: Mapping[str, str], bucket: str) -> tuple[int, dict[str, str], str] | None:
    """The answer where the bucket, or the one to copy from, belongs to another account than is expected."""
    source = unquote(headers.get("x-amz-copy-source", "")).lstrip("/").partition("/")[0]
    expected = {
        bucket: headers.get("x-amz-expected-bucket-owner"),
        source: headers.get("x-amz-source-expected-bucket-owner"),
    }
    for name, owner in expected.items():
        _, account = s3_backends.bucket_accounts.get(name, ("", owner))
        if owner and account != owner:
            return 403, {}, _DENIED
    return None


def _unmet(
    response: S3Response, headers: Mapping[str, str], bucket: str, key: str
) -> tuple[int, dict[str, str], str] | None:
    """The answer to a copy whose conditions are not met (Amazon S3 API, CopyObject)."""
    source, _, name = unquote(headers.get("x-amz-copy-source", "")).lstrip("/").partition("/")
    if not source:
        return None
    expected = headers.get("x-amz-copy-source-if-match")
    found = response.backend.get_object(source, name)
    over = headers.get("If-None-Match") == "*" and response.backend.get_object(bucket, key) is not None
    return (412, {}, _UNMET) if over or (expected and found and found.etag != expected) else None


def _count_parts(headers: dict[str, str], key: Any) -> None:
    """Source: Amazon S3 user guide, checking-object-integrity (composite checksums)."""
    name = f"x-amz-checksum-{str(key.checksum_algorithm).lower()}"
    if key.checksum_type == "COMPOSITE" and name in headers:
        headers[name] = f"{key.checksum_value}-{key.checksum_parts}"


def _call(method: str, query: Mapping[str, Any], headers: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The action of a call, and its condition keys (Amazon S3 user guide, conditional-writes-enforce)."""
    creates = (method == "PUT" and "partNumber" not in query) or (method == "POST" and "uploadId" in query)
    context = {"aws:SecureTransport": "true", "s3:ObjectCreationOperation": str(creates).lower()}
    if "If-None-Match" in headers:
        context["s3:if-none-match"] = headers["If-None-Match"]
    return _ACTIONS.get(method, "s3:PutObject"), context


def _policy_lets(bucket: str, resource: str, action: str, context: Mapping[str, str]) -> bool:
    if bucket not in s3_backends.bucket_accounts:
        return True
    partition, account = s3_backends.bucket_accounts[bucket]
    policy = s3_backends[account][partition].buckets[bucket].policy
    statements = json.loads(policy)["Statement"] if policy else []
    denials = [{**each, "Effect": "Allow"} for each in statements if each["Effect"] == "Deny"]
    return not allows({"Statement": denials}, action, resource, context)
