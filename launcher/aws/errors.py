"""AWS's errors in the launcher's words: what was tried, what AWS answered, what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any

from launcher.failure_modes.model import Figure, Source
from launcher.failure_modes.refusal import AwsRefusal

FIGURES = (
    Figure(
        "15",
        "minutes that a clock may differ, about",
        Source("AWS Developer Tools Blog: clock-skew-correction", date(2026, 11, 22)),
    ),
)


class UnusableSession(AwsRefusal):
    """No credentials, none that AWS takes, no region, a wrong configuration: every call would end so."""


class Unreachable(AwsRefusal):
    """No answer of AWS came: the network, a name, a proxy, a sign-in page or a timeout."""


@contextmanager
def aws_errors(action: str) -> Iterator[None]:
    """Turn AWS's errors into AwsRefusal: what was tried, what AWS said, what to do.

    UnusableSession where no call can succeed, Unreachable where nobody answered, or not AWS.
    """
    from boto3.exceptions import Boto3Error
    from botocore import exceptions

    from launcher.aws.odd_answers import OddAnswer

    try:
        yield
    except exceptions.NoCredentialsError as error:
        raise UnusableSession(
            f"no AWS credentials were found to {action}.",
            "Sign in (`aws sso login` or `aws configure`), or run without an account: "
            "--dry-run shows the request, --local trains on this machine.",
        ) from error
    except exceptions.NoRegionError as error:
        raise UnusableSession(
            f"no AWS region is known to {action}.", "Set AWS_REGION, or `region` in the job file."
        ) from error
    except exceptions.ClientError as error:
        raise _refused(action, error) from error
    except exceptions.CredentialRetrievalError as error:
        raise UnusableSession(
            f"could not {action}: {_sentence(error)}",
            "Renew your credentials (`aws sso login`), or correct what gives them: the credential_process, "
            "role or token file of the AWS configuration. `aws sts get-caller-identity` tries it.",
        ) from error
    except (
        exceptions.SSOError,
        exceptions.TokenRetrievalError,
        exceptions.UnauthorizedSSOTokenError,
    ) as error:
        raise UnusableSession(f"could not {action}: {_sentence(error)}", _REMEDIES["ExpiredToken"]) from error
    except tuple(getattr(exceptions, name) for name in _CONFIGURATION) as error:
        raise UnusableSession(
            f"could not {action}: the AWS configuration is wrong: {_sentence(error)}",
            "Correct it where it stands: an AWS_* variable, or the profile in ~/.aws/config.",
        ) from error
    except exceptions.EndpointConnectionError as error:
        raise Unreachable(
            f"could not {action}: AWS cannot be reached: {_sentence(error)}",
            "Check the network, and that the region in the address exists, then try again.",
        ) from error
    except Boto3Error as error:
        # The transfer of files has errors of its own, with AWS's answer in their text.
        raise AwsRefusal(
            f"could not {action}: {error}.", "Correct what the message names, then try again."
        ) from error
    except OddAnswer as error:
        raise Unreachable(
            f"could not {action}: {error}.",
            "Check the network (a sign-in page, a proxy), then try again.",
        ) from error
    except exceptions.BotoCoreError as error:
        raise Unreachable(
            f"could not {action}: AWS cannot be reached: {_sentence(error)}",
            "Check the network, then try again.",
        ) from error


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


def _refused(action: str, error: Any) -> AwsRefusal:
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
