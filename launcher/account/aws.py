"""The door to AWS: clients, the session's region, and AWS's errors in the launcher's words."""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from launcher.failure_modes.refusal import AwsRefusal

CONNECT_TIMEOUT_SECONDS = 10
READ_TIMEOUT_SECONDS = 60


class UnusableSession(AwsRefusal):
    """No credentials, credentials that AWS does not take, or no region: every call would end so."""


class Unreachable(AwsRefusal):
    """No answer came: the network, a name, a proxy or a timeout."""


def session_region() -> str | None:
    """The region of the user's AWS configuration, without calling or importing the SDK."""
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        if os.environ.get(variable):
            return os.environ[variable]
    file = Path(os.environ.get("AWS_CONFIG_FILE") or Path.home() / ".aws" / "config")
    profile = os.environ.get("AWS_PROFILE") or "default"
    config = configparser.RawConfigParser(strict=False)
    try:
        config.read(file)
    except (configparser.Error, OSError, UnicodeDecodeError):
        return None  # The SDK will say what is wrong with the file as soon as it is needed.
    section = profile if profile == "default" else f"profile {profile}"
    return config.get(section, "region", fallback=None)


def aws_client(
    service: str, region: str | None, *, connections: int = 10, attempts: int = 5, paced: bool = False
) -> Any:
    """A client of a service; raises AwsRefusal without a region.

    `connections` is how many calls may be under way at once, `attempts` how often a call is tried
    before its fault shows; a `paced` client makes fewer calls a second once it was throttled.
    """
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"mode": "adaptive" if paced else "standard", "max_attempts": attempts},
        max_pool_connections=connections,
        connect_timeout=CONNECT_TIMEOUT_SECONDS,
        read_timeout=READ_TIMEOUT_SECONDS,
    )
    with aws_errors(f"make a client for {service}"):
        return boto3.client(service, region_name=region, config=config)


def renew_credentials() -> None:
    """Let the clients that are made from now on look for credentials again.

    boto3 keeps those that it found first, also when the user has signed in anew since.
    """
    import boto3

    with aws_errors("look for credentials"):
        boto3.setup_default_session()


def caller_account(sts: Any) -> str:
    """The account id that the credentials belong to; the first call, so it tells whether they work."""
    with aws_errors("look up the account"):
        return str(sts.get_caller_identity()["Account"])


def caller_arn(sts: Any) -> str:
    """The ARN of who the credentials belong to: a user, or the session of a role."""
    with aws_errors("look up who you are (sts:GetCallerIdentity)"):
        return str(sts.get_caller_identity()["Arn"])


@contextmanager
def aws_errors(action: str) -> Iterator[None]:
    """Turn AWS's errors into AwsRefusal: what was tried, what AWS said, what to do.

    UnusableSession where no call can succeed, Unreachable where nobody answered.
    """
    from boto3.exceptions import Boto3Error
    from botocore import exceptions

    try:
        yield
    except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError) as error:
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
    except (
        exceptions.CredentialRetrievalError,
        exceptions.SSOError,
        exceptions.TokenRetrievalError,
        exceptions.UnauthorizedSSOTokenError,
    ) as error:
        raise UnusableSession(f"could not {action}: {error}.", _REMEDIES["ExpiredToken"]) from error
    except (exceptions.ProfileNotFound, exceptions.ConfigParseError) as error:
        raise UnusableSession(
            f"could not {action}: {error}.", "Correct AWS_PROFILE or ~/.aws/config."
        ) from error
    except Boto3Error as error:
        # The transfer of files has errors of its own, with AWS's answer in their text.
        raise AwsRefusal(
            f"could not {action}: {error}.", "Correct what the message names, then try again."
        ) from error
    except exceptions.BotoCoreError as error:
        raise Unreachable(
            f"could not {action}: AWS cannot be reached: {error}.", "Check the network, then try again."
        ) from error


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


def _refused(action: str, error: Any) -> AwsRefusal:
    said = error.response.setdefault("Error", {})
    code = str(said.get("Code", "unknown"))
    # In the error too: a traceback shows it as the cause.
    error.args = tuple(_without_token(str(each)) for each in error.args)
    said["Message"] = _without_token(str(said.get("Message", "")))
    text = said["Message"].strip().rstrip(".")
    remedy = _REMEDIES.get(code, "Correct what the message names, then try again.")
    kind = UnusableSession if code in _UNUSABLE else AwsRefusal
    return kind(f"AWS refused to {action}: {code}: {text}.", remedy)


def _without_token(text: str) -> str:
    """A refused signature is answered with all that should have been signed, the session's token in it."""
    return re.sub(r"(?i)(x-amz-security-token[:=]\s*)[^\s'&]+", r"\1***", text)
