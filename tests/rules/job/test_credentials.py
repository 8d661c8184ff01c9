"""Credentials in what everyone can read: SPEC005. All of them are invented."""

from __future__ import annotations

import pytest

KEY_ID = "AKIA" + "IOSFODNN7EXAMPLE"
TEXT = "wJalrXUtnFEMI/K7MDENG"


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        pytest.param("X", KEY_ID, True, id="an access key id by its form"),
        pytest.param("X", "ASIA" + KEY_ID[4:], True, id="a temporary one"),
        pytest.param("X", KEY_ID[:-1], False, id="one character short"),
        pytest.param("X", "-----BEGIN RSA PRIVATE KEY-----\nMII", True, id="a private key"),
        pytest.param("X", "-----BEGIN CERTIFICATE-----\nMII", False, id="a certificate"),
        pytest.param("X", "ghp_" + "a" * 36, True, id="GitHub"),
        pytest.param("X", "hf_" + "a" * 34, True, id="Hugging Face"),
        pytest.param("X", "xoxb-1234567890-abc", True, id="Slack"),
        pytest.param("X", "nvapi-" + "a" * 64, True, id="NVIDIA"),
        pytest.param("X", "https://me:pass@host/x", True, id="password in a URL"),
        pytest.param("X", "https://host:8080/x", False, id="port in a URL"),
        pytest.param("AWS_SECRET_ACCESS_KEY", TEXT, True, id="secret key by its name"),
        pytest.param("AWS_ACCESS_KEY_ID", TEXT, True, id="key id by its name"),
        pytest.param("AWS_SESSION_TOKEN", TEXT, True, id="session token by its name"),
        pytest.param("HF_TOKEN", TEXT, True, id="a hub's token by its name"),
        pytest.param("hub-token", TEXT, True, id="with a hyphen"),
        pytest.param("WANDB_API_KEY", TEXT, True, id="an API key by its name"),
        pytest.param("db.password", "correct horse", True, id="a password by its name"),
        pytest.param("password", "1234567", False, id="too short to be one"),
        pytest.param("password", "abcdefg", False, id="seven letters"),
        pytest.param("password", "abcdefgh", True, id="eight letters"),
        pytest.param("pad_token", "<|endoftext|>", False, id="a token of text"),
        pytest.param("eos_token", "end-of-sequence", False, id="another one"),
        pytest.param("max_tokens", "123456789", False, id="a number of tokens"),
        pytest.param("use_auth_token", "true", False, id="a switch"),
        pytest.param(
            "API_KEY", "arn:aws:secretsmanager:us-west-2:1:secret:a", False, id="where the secret is kept"
        ),
        pytest.param("private_key", "/opt/ml/input/data/keys/id.pem", False, id="a file's path"),
        pytest.param("learning_rate", "0.000012345", False, id="nothing of the kind"),
    ],
)
def test_what_looks_like_a_credential(judge, name: str, value: str, found: bool) -> None:
    for section in ("environment", "hyperparameters"):
        findings = judge("SPEC005", **{section: {name: value}})
        assert bool(findings) is found
        for finding in findings:
            assert finding.severity == "error"
            assert finding.subject == f"{section}.{name}"
            assert finding.location is not None


@pytest.mark.parametrize(
    "job",
    [
        pytest.param({"environment": {"AWS_SECRET_ACCESS_KEY": TEXT}}, id="by name"),
        pytest.param({"environment": {"X": f"AWS_SECRET_ACCESS_KEY={TEXT}"}}, id="an assignment"),
        pytest.param({"environment": {"X": f"id {KEY_ID} {TEXT}"}}, id="amid other text"),
        pytest.param({"hyperparameters": {KEY_ID: TEXT}}, id="in a name"),
        pytest.param({"hyperparameters": {"hub": {"auth": [{"token": TEXT}]}}}, id="deep inside"),
        pytest.param(
            {
                "code_section": {
                    "source_dir": "src",
                    "entry_point": "train.py",
                    "arguments": ["--token", TEXT],
                }
            },
            id="an argument",
        ),
        pytest.param(
            {"code_section": {"source_dir": "src", "entry_point": "train.py", "arguments": [KEY_ID]}},
            id="an argument without a name",
        ),
    ],
)
def test_the_value_is_never_shown(judge, job: dict) -> None:
    findings = judge("SPEC005", **job)
    assert len(findings) == 1
    shown = str(findings[0].to_json())
    assert TEXT not in shown
    assert KEY_ID not in shown


def test_in_a_run_on_this_machine_it_is_a_warning(judge) -> None:
    (refused,) = judge("SPEC005", environment={"X": KEY_ID})
    (warned,) = judge("SPEC005", environment={"X": KEY_ID}, here=True)
    assert (refused.blocks, warned.blocks, warned.severity) == (True, False, "warning")
    assert KEY_ID not in warned.message
