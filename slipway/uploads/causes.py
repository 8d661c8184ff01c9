"""Why something cannot be copied: what boto3 or the system raised, in a sentence that says what to do."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any, NamedTuple

_DENIED = ("AccessDenied", "AccessDeniedException", "AllAccessDisabled", "Forbidden", "403")
_CREDENTIALS = (
    "ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch", "TokenRefreshRequired",
)  # fmt: skip
_BUSY = (
    "SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout", "500", "502", "503", "504",
    "Throttling", "ThrottlingException", "RequestLimitExceeded",
)  # fmt: skip
_WITHOUT_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError")
_NOT_REACHED = (
    "EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ConnectionClosedError",
    "ConnectionError", "HTTPClientError", "ProxyConnectionError", "SSLError", "NoRegionError",
    "ResponseStreamingError", "IncompleteReadError",
)  # fmt: skip


class Failed(NamedTuple):
    """A cause: `kind` is the same for all that fails alike, `passes` whether waiting may help."""

    kind: str
    sentence: str
    passes: bool


def cause_of(error: BaseException) -> Failed:
    """What an exception of boto3, s3transfer or the system means."""
    error = getattr(error, "last_exception", None) or error
    name = type(error).__name__
    answer: Mapping[str, Any] = getattr(error, "response", None) or {}
    told = answer.get("Error", {})
    code, said = str(told.get("Code", "")), str(told.get("Message", ""))
    if code in _DENIED:
        return Failed(
            "denied",
            f"S3 denies it ({code}: {said}). Allow the job's role s3:ListBucket on the bucket, and "
            "s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload below the prefix",
            False,
        )
    if code in _CREDENTIALS or name in _WITHOUT_CREDENTIALS:
        return Failed(
            "credentials", f"the credentials are not taken ({code or name}: {said or error})", False
        )
    if code == "NoSuchBucket":
        return Failed("no bucket", "there is no such bucket. Correct `checkpoint.s3_uri`", False)
    if code in _BUSY:
        return Failed("busy", f"S3 has answered {code} again and again: it is overloaded or down", True)
    if code:
        return Failed(code, f"S3 answered {code}: {said}", False)
    if name in _NOT_REACHED:
        return Failed(
            "no route",
            f"S3 was not reached ({_short(error)}). The subnets need a gateway endpoint to S3 or a NAT, and "
            "the security group must let HTTPS out",
            True,
        )
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Failed("no space", "there is no space left on the disk that it goes to", False)
    if isinstance(error, OSError) and error.strerror:
        return Failed(error.strerror, f"{error.strerror} ({error.filename})", False)
    if isinstance(error, TimeoutError) or name == "CancelledError":
        return Failed("no time", "the time that was left for it has passed", False)
    return Failed(name, f"{name}: {_short(error)}", True)


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 200 else f"{text[:199]}…"
