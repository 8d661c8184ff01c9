"""The one exception for what a person can act on: it becomes a clear message and an exit code."""

from __future__ import annotations


class Refusal(Exception):
    """Something the user or AWS must change before the launcher can go on.

    `message` says what is wrong, with the value; `remedy` what to do. The exit code is 2 for usage
    and unreadable input, 3 where AWS refused or cannot be reached.
    """

    exit_code = 2

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message} {remedy}")
        self.message = message
        self.remedy = remedy


class AwsRefusal(Refusal):
    """AWS refused a call, or cannot be reached; the exit code is 3."""

    exit_code = 3


class UnusableSession(AwsRefusal):
    """No credentials, none that AWS takes, no region, a wrong configuration: every call would end so."""


class Unreachable(AwsRefusal):
    """No answer of AWS came: the network, a name, a proxy, a sign-in page or a timeout."""
