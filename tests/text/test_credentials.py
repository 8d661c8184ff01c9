"""Each form of a credential is known, and hidden in a log. All of them are invented."""

from __future__ import annotations

import re

import pytest

from launcher.diagnosis.logs.lines import redacted
from launcher.text.credentials import CREDENTIAL_FORMS, HIDDEN, credential_in, without_secrets

LETTERS = "abcdefghijklmnopqrst"

CREDENTIALS = {
    "an AWS access key id": "AKIA" + "IOSFODNN7EXAMPLE",
    "a private key": "-----BEGIN OPENSSH PRIVATE KEY-----" + LETTERS,
    "a GitHub token": "ghp_" + LETTERS,
    "a GitLab token": "glpat-" + LETTERS,
    "a Hugging Face token": "hf_" + LETTERS,
    "a Slack token": "xoxe-" + LETTERS,
    "an API key": "nvapi-" + LETTERS,
    "a JSON web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
    "a password in a URL": "postgres://me:" + LETTERS + "@db/x",
    "an AWS secret": "aws_secret_access_key: wJalrXUtnFEMI" + LETTERS,
}


def test_every_form_has_an_example_here() -> None:
    assert [what for what, _ in CREDENTIAL_FORMS] == list(CREDENTIALS)


@pytest.mark.parametrize("what", CREDENTIALS)
def test_a_credential_is_known_by_its_form_and_hidden(what: str) -> None:
    text = f"value {CREDENTIALS[what]}"
    assert credential_in(text) == what
    (form,) = (form for name, form in CREDENTIAL_FORMS if name == what)
    found = form.search(text)
    assert found is not None
    assert found["value"] not in redacted(text)
    assert HIDDEN in redacted(text)


def test_what_only_begins_like_a_credential_is_none() -> None:
    for text in ("hf_hub_download", "sk-learn", "ghp_", "AKIA", "https://host:8080/x", "eyJ.a.b"):
        assert credential_in(text) is None


def test_what_stands_around_a_secret_stays() -> None:
    assert without_secrets("a b=c d", re.compile("b=(?P<value>c)")) == f"a b={HIDDEN} d"
