"""A configuration that is wrong is named as such, and nobody is sent to the network for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from launcher.aws.clients import Clients
from launcher.aws.errors import UnusableSession
from launcher.aws.session import fetch_caller

KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
ROLE = "role_arn = arn:aws:iam::111122223333:role/training\n"
ECHO = f"credential_process = {sys.executable} -c"


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({**KEYS, "AWS_DEFAULTS_MODE": "nonsense"}, "nonsense"),
        ({**KEYS, "AWS_ENDPOINT_URL": "notaurl"}, "notaurl"),
        ({"AWS_ACCESS_KEY_ID": "testing"}, "AWS_SECRET_ACCESS_KEY"),
        (
            {
                "AWS_ROLE_ARN": "arn:aws:iam::111122223333:role/training",
                "AWS_WEB_IDENTITY_TOKEN_FILE": "/nowhere/token",
            },
            "/nowhere/token",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_wrong_variable_is_named(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], says: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert_named(says)


@pytest.mark.parametrize(
    ("profile", "says"),
    [
        (f"{ROLE}source_profile = missing\n", "missing"),
        (f"{ROLE}credential_source = Nonsense\n", "Nonsense"),
        (f"{ECHO} print(chr(120))\n", "JSONDecodeError"),
        (f"{ECHO} print([])\n", "list"),
        ("credential_process = /nowhere/program\n", "/nowhere/program"),
    ],
    ids=["source profile", "credential source", "junk", "a list", "no program"],
)
def test_a_wrong_profile_is_named(
    aws_configuration: Path, monkeypatch: pytest.MonkeyPatch, profile: str, says: str
) -> None:
    aws_configuration.write_text(f"[profile team]\n{profile}")
    monkeypatch.setenv("AWS_PROFILE", "team")

    assert_named(says)


def test_a_region_that_cannot_be_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)

    assert_named("us west 2", region="us west 2")


def assert_named(says: str, region: str = "us-west-2") -> None:
    with pytest.raises(UnusableSession) as refused:
        fetch_caller(Clients()("sts", region))
    assert says in refused.value.message
    assert "network" not in refused.value.remedy
    assert "configuration" in f"{refused.value.message} {refused.value.remedy}"
    assert ".." not in refused.value.message
    assert refused.value.exit_code == 3
