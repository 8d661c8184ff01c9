"""AWS's errors in the launcher's words: what was tried, what AWS answered, what it means for who waits, what
to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any

from launcher.failure_modes.model import AwsRefusal, Figure, Source, Unreachable, UnusableSession

FIGURES = (
    Figure(
        "15",
        "minutes that a clock may differ, about",
        Source("AWS Developer Tools Blog: clock-skew-correction", date(2026, 11, 22)),
    ),
)


@contextmanager
def aws_errors(action: str) -> Iterator[None]:
    """Turn AWS's errors into AwsRefusal: what was tried, what AWS said, what to do.

    UnusableSession where no call can succeed, Unreachable where nobody answered, or not AWS.
    """
    from boto3.exceptions import Boto3Error
    from botocore import exceptions

    from launcher.aws.odd_answers import OddAnswer

    others = (exceptions.ClientError, exceptions.RefreshWithMFAUnsupportedError, Boto3Error, OddAnswer)
    try:
        yield
    except (exceptions.BotoCoreError, *others) as error:
        raise _refusal_of(action, error) from error


def _refusal_of(action: str, error: Exception) -> AwsRefusal:
    """What an error of boto3's or of AWS's means for who tried this, and what to do."""
    from boto3.exceptions import Boto3Error
    from botocore import exceptions

    from launcher.aws.odd_answers import OddAnswer

    signed_out = (exceptions.SSOError, exceptions.TokenRetrievalError, exceptions.UnauthorizedSSOTokenError)
    if isinstance(error, exceptions.NoCredentialsError):
        return UnusableSession(
            f"no AWS credentials were found to {action}.",
            "Sign in (`aws sso login` or `aws configure`), or run without an account: "
            "--dry-run shows the request, --local trains on this machine.",
        )
    if isinstance(error, exceptions.NoRegionError):
        return UnusableSession(
            f"no AWS region is known to {action}.", "Set AWS_REGION, or `region` in the job file."
        )
    if isinstance(error, exceptions.ClientError):
        return _refusal_by_aws(action, error)
    if isinstance(error, exceptions.CredentialRetrievalError):
        return UnusableSession(
            f"could not {action}: {_sentence(error)}",
            "Renew your credentials (`aws sso login`), or correct what gives them: the credential_process, "
            "role or token file of the AWS configuration. `aws sts get-caller-identity` tries it.",
        )
    if isinstance(error, signed_out):
        return UnusableSession(f"could not {action}: {_sentence(error)}", _REMEDIES["ExpiredToken"])
    if isinstance(error, tuple(getattr(exceptions, name) for name in _CONFIGURATION)):
        return UnusableSession(
            f"could not {action}: the AWS configuration is wrong: {_sentence(error)}",
            "Correct it where it stands: an AWS_* variable, or the profile in ~/.aws/config.",
        )
    if isinstance(error, Boto3Error):
        # The transfer of files has errors of its own, with AWS's answer in their text.
        return AwsRefusal(f"could not {action}: {error}.", "Correct what the message names, then try again.")
    if isinstance(error, OddAnswer):
        return Unreachable(
            f"could not {action}: {error}.", "Check the network (a sign-in page, a proxy), then try again."
        )
    where = (
        ", and that the region in the address exists"
        if isinstance(error, exceptions.EndpointConnectionError)
        else ""
    )
    return Unreachable(
        f"could not {action}: AWS cannot be reached: {_sentence(error)}",
        f"Check the network{where}, then try again.",
    )


_CONFIGURATION = (
    "ConfigNotFound", "ConfigParseError", "EndpointProviderError", "EndpointVariantError",
    "InvalidChecksumConfigError", "InvalidConfigError", "InvalidDefaultsMode",
    "InvalidEndpointConfigurationError", "InvalidIMDSEndpointError", "InvalidIMDSEndpointModeError",
    "InvalidProxiesConfigError", "InvalidRegionError", "InvalidRetryConfigurationError",
    "InvalidS3AddressingStyleError", "InvalidS3UsEast1RegionalEndpointConfigError",
    "InvalidSTSRegionalEndpointsConfigError", "MissingDependencyException", "PartialCredentialsError",
    "ProfileNotFound", "RefreshWithMFAUnsupportedError", "UnknownCredentialError", "UnknownEndpointError",
    "UnknownTokenProviderError", "UnsupportedS3ConfigurationError",
)  # fmt: skip
"""What botocore raises for a configuration that it cannot use (botocore.exceptions)."""

_REMEDIES = {
    "ExpiredToken": "Renew your credentials (`aws sso login`), then try again.",
    "ExpiredTokenException": "Renew your credentials (`aws sso login`), then try again.",
    "RequestExpired": "Renew your credentials (`aws sso login`), then try again.",
    "UnrecognizedClientException": "Check the access key: AWS does not know it.",
    "InvalidClientTokenId": "Check the access key: AWS does not know it.",
    "AuthFailure": "Check the access key: AWS does not know it.",
    "InvalidSignatureException": "Set this machine's clock; if it is right, check the secret access key.",
    "RequestTimeTooSkewed": "Set this machine's clock: it differs from AWS's by more than 15 minutes.",
    "SignatureDoesNotMatch": "Check the secret access key, and the clock of this machine.",
    "403": "AWS gives no reason here. Look at your own permissions, then at the policies of the bucket, its "
    "key, the VPC endpoint and the organization, and whose the bucket is.",
    "AccessDenied": "Ask for the permission that the message names.",
    "AccessDeniedException": "Ask for the permission that the message names.",
    "ResourceLimitExceeded": "Ask for a higher quota in Service Quotas, or use fewer or other hosts.",
    "ThrottlingException": "AWS limits the rate of calls; try again in a minute.",
}
_UNUSABLE = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "RequestExpired",
        "UnrecognizedClientException",
        "InvalidClientTokenId",
        "AuthFailure",
        "SignatureDoesNotMatch",
    }
)
"""What AWS says of the credentials themselves, service by service, whatever the call."""


def _sentence(error: BaseException) -> str:
    """What the error says, with one full stop."""
    return f"{str(error).rstrip('.: ')}."


def _refusal_by_aws(action: str, error: Any) -> AwsRefusal:
    said = error.response.setdefault("Error", {})
    code = str(said.get("Code", "unknown"))
    # In the error too: a traceback shows it as the cause.
    error.args = tuple(_without_token(str(each)) for each in error.args)
    said["Message"] = _without_token(str(said.get("Message", "")))
    text = said["Message"].strip().rstrip(".")
    if code.isdigit() and int(code) >= 500:
        # botocore's own words for a page that has none of AWS's codes in it.
        return Unreachable(
            f"could not {action}: what answered is not AWS, or a service that fails: {code} {text}.",
            "Check the network, or try again in some minutes.",
        )
    remedy = _REMEDIES.get(code, "Correct what the message names, then try again.")
    kind = UnusableSession if code in _UNUSABLE else AwsRefusal
    return kind(f"AWS refused to {action}: {code}: {text}.", remedy)


def _without_token(text: str) -> str:
    """A refused signature is answered with all that should have been signed, the session's token in it."""
    return re.sub(r"(?i)(x-amz-security-token[:=]\s*)[^\s'&]+", r"\1***", text)


class Outage(AwsRefusal):
    """The backend could not answer, but will by itself: a lost network, throttling, a service's fault.

    `throttled` where it asked for fewer calls.
    """

    def __init__(self, message: str, remedy: str, *, throttled: bool = False) -> None:
        super().__init__(message, remedy)
        self.throttled = throttled

    @property
    def reason(self) -> str:
        """Why nothing can be seen for now, in a few words."""
        return "AWS limits the rate of calls" if self.throttled else "no connection to AWS"


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
    """Turn AWS's errors into refusals: an Outage for what passes by itself, CredentialsExpired for what a new
    sign-in cures, else as `aws_errors` does.

    A refused signature whose time is wrong is an Outage too: a laptop that wakes up has a wrong clock for
    a moment.
    """
    try:
        with aws_errors(action):
            yield
    except AwsRefusal as refusal:
        raise _classify_refusal(refusal) from refusal.__cause__


def _classify_refusal(refusal: AwsRefusal) -> AwsRefusal:
    from botocore import exceptions

    cause = refusal.__cause__
    if isinstance(cause, exceptions.ClientError):
        return _outage_of(refusal, cause.response)
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


def _outage_of(refusal: AwsRefusal, response: dict[str, dict[str, object]]) -> AwsRefusal:
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
