"""Whose credentials and which region the launcher works with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from launcher.aws.errors import aws_errors
from launcher.failure_modes.model import Unreachable
from launcher.frozen import frozen


def session_region() -> str | None:
    """The region of the user's AWS configuration, without calling or importing the SDK."""
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        if os.environ.get(variable):
            return os.environ[variable]
    file = Path(os.environ.get("AWS_CONFIG_FILE") or Path.home() / ".aws" / "config")
    if not file.exists():
        return None
    import configparser

    profile = os.environ.get("AWS_PROFILE") or "default"
    config = configparser.RawConfigParser(strict=False)
    try:
        config.read(file)
    except (configparser.Error, OSError, UnicodeDecodeError):
        return None  # The SDK will say what is wrong with the file as soon as it is needed.
    section = profile if profile == "default" else f"profile {profile}"
    return config.get(section, "region", fallback=None)


@frozen
class Caller:
    """Who the credentials belong to: the account's id, and the ARN of a user or of the session of a role."""

    account: str
    arn: str


def fetch_caller(sts: Any) -> Caller:
    """Who the credentials belong to. The first call of most commands, so it tells whether they work.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors("look up who you are (sts:GetCallerIdentity)"):
        identity = sts.get_caller_identity()
    account, arn = str(identity["Account"]), str(identity["Arn"])
    if len(arn.split(":", 5)) < 6:
        raise Unreachable(
            f"AWS's answer about who you are cannot be understood: {arn!r} is no ARN.",
            "Check the network (a proxy that answers in AWS's place), then try again.",
        )
    return Caller(account, arn)
