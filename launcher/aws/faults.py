"""What AWS's faults mean for one who follows a job: wait, renew the credentials, or give up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from launcher.aws.errors import aws_errors
from launcher.failure_modes.refusal import AwsRefusal


class Outage(AwsRefusal):
    """The backend could not answer, but will by itself: a lost network, throttling, a service's fault.

    `throttled` where it asked for fewer calls.
    """

    def __init__(self, message: str, remedy: str, *, throttled: bool = False) -> None:
        super().__init__(message, remedy)
        self.throttled = throttled


class CredentialsExpired(AwsRefusal):
    """The credentials have expired; with new ones the same call will be answered."""


def never_carried_out(refusal: AwsRefusal) -> bool:
    """Whether a refusal proves that no attempt of its call was carried out.

    An answer counts for the last attempt only: one before may have been carried out, its answer lost. That a
    name is in use may be the echo of one's own earlier attempt.
    """
    from botocore.exceptions import ClientError, HTTPClientError

    cause = refusal.__cause__
    if not isinstance(cause, ClientError):
        return not isinstance(cause, HTTPClientError)
    answer = cause.response.get("ResponseMetadata", {})
    if cause.response.get("Error", {}).get("Code") == "ResourceInUse":
        return False
    return 400 <= int(answer.get("HTTPStatusCode", 0)) < 500 and not answer.get("RetryAttempts")


_THROTTLED = frozenset(
    {
        "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled",
        "RequestThrottledException", "TooManyRequestsException", "RequestLimitExceeded", "SlowDown",
        "BandwidthLimitExceeded", "PriorRequestNotComplete", "EC2ThrottledException",
    }
)  # fmt: skip
"""As botocore's own retries know them (botocore.retries.standard, ThrottledRetryableChecker)."""

_SERVICE_FAULTS = frozenset(
    {
        "InternalFailure", "InternalServerError", "InternalServerException", "InternalError",
        "ServiceUnavailable", "ServiceUnavailableException", "RequestTimeout", "RequestTimeoutException",
    }
)  # fmt: skip

_WRONG_CLOCK = frozenset({"RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture"})

_SIGNED_AT_THE_WRONG_TIME = ("Signature expired", "Signature not yet current")
"""With the codes InvalidSignatureException and SignatureDoesNotMatch (aws-sdk-js issues 254, 1652)."""

_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"})


@contextmanager
def answers(action: str) -> Iterator[None]:
    """As `aws_errors`, but an Outage for what passes by itself, CredentialsExpired for what a new sign-in
    cures.

    A refused signature whose time is wrong is an Outage too: a laptop that wakes up has a wrong clock for
    a moment.
    """
    try:
        with aws_errors(action):
            yield
    except AwsRefusal as refusal:
        raise _sorted(refusal) from refusal.__cause__


def _sorted(refusal: AwsRefusal) -> AwsRefusal:
    from botocore import exceptions

    cause = refusal.__cause__
    if isinstance(cause, exceptions.ClientError):
        return _answered(refusal, cause.response)
    if isinstance(
        cause,
        exceptions.NoCredentialsError
        | exceptions.PartialCredentialsError
        | exceptions.CredentialRetrievalError
        | exceptions.SSOError
        | exceptions.LoginError
        | exceptions.TokenRetrievalError,
    ):
        return CredentialsExpired(refusal.message, refusal.remedy)
    if isinstance(
        cause,
        exceptions.HTTPClientError | exceptions.ConnectionError | exceptions.IncompleteReadError,
    ):
        return Outage(refusal.message, refusal.remedy)
    return refusal


def _answered(refusal: AwsRefusal, response: dict[str, dict[str, object]]) -> AwsRefusal:
    error = response.get("Error", {})
    code, text = str(error.get("Code", "")), str(error.get("Message", ""))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if code in _EXPIRED:
        return CredentialsExpired(refusal.message, refusal.remedy)
    if code in _WRONG_CLOCK or text.startswith(_SIGNED_AT_THE_WRONG_TIME):
        return Outage(refusal.message, "Set this machine's clock: it differs from AWS's by minutes.")
    if code in _THROTTLED or status == 429:
        return Outage(refusal.message, refusal.remedy, throttled=True)
    if code in _SERVICE_FAULTS or (isinstance(status, int) and status >= 500):
        return Outage(refusal.message, refusal.remedy)
    return refusal
