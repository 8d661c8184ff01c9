"""Whose credentials and which region the launcher works with."""

from __future__ import annotations

import configparser
import os
from pathlib import Path
from typing import Any

from launcher.aws.errors import aws_errors


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
