"""Secrets in the container: fetched with the role, given to the script alone, shown to nobody."""

from __future__ import annotations

import importlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from slipway.failure import BootError
from slipway.secrets import take_secrets
from tests.emulator.faults import DENIED, THROTTLED, Fault, inject, no_backoff
from tests.slipway.test_boot import PATIENCE_SECONDS, Boot

VALUE = "hf_plantedPLANTED1234"
KMS = Fault("key", 400, "AccessDeniedException", "Access to KMS is not allowed")


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Secrets Manager in us-west-2, with the secret team/hf."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws(), no_backoff():
        client = boto3.client("secretsmanager", region_name="us-west-2")
        client.create_secret(Name="team/hf", SecretString=VALUE)
        yield client


def taken(wanted: dict[str, str], connect: Any = None, **environment: str) -> dict[str, str]:
    given = {"AWS_REGION": "us-west-2", "SLIPWAY_SECRETS": json.dumps(wanted), **environment}
    return take_secrets(given, connect)


def test_a_secret_is_fetched_by_its_name_in_the_jobs_region(secrets: Any) -> None:
    environment = {"AWS_REGION": "us-west-2", "SLIPWAY_SECRETS": '{"HF_TOKEN": "team/hf"}', "A": "1"}
    assert take_secrets(environment) == {"HF_TOKEN": VALUE}
    assert environment == {"AWS_REGION": "us-west-2", "A": "1"}


def test_by_its_arn_in_the_arns_region(secrets: Any) -> None:
    arn = secrets.describe_secret(SecretId="team/hf")["ARN"]
    assert taken({"HF_TOKEN": arn}, AWS_REGION="eu-west-1") == {"HF_TOKEN": VALUE}


def test_a_job_without_secrets_asks_nobody() -> None:
    environment = {"A": "1"}
    assert take_secrets(environment, connect=lambda region: pytest.fail(region)) == {}
    assert environment == {"A": "1"}


def test_on_the_users_machine_the_values_are_there_already() -> None:
    environment = {"SLIPWAY_SECRETS": '{"X": "x"}', "SLIPWAY_SECRETS_HERE": "1", "X": VALUE, "A": "1"}
    assert take_secrets(environment, connect=lambda region: pytest.fail(region)) == {"X": VALUE}
    assert environment == {"A": "1"}


def test_without_that_a_value_of_the_image_does_not_stand_in_for_a_secret(secrets: Any) -> None:
    assert taken({"HF_TOKEN": "team/hf"}, HF_TOKEN="of the image") == {"HF_TOKEN": VALUE}
    with pytest.raises(BootError, match="there is no such secret"):
        taken({"HF_TOKEN": "other"}, HF_TOKEN="of the image")


def test_all_that_is_missing_is_told_at_once(secrets: Any) -> None:
    secrets.create_secret(Name="binary", SecretBinary=b"\x00\x01")
    secrets.create_secret(Name="nul", SecretString="a\0b")
    with pytest.raises(BootError) as error:
        taken({"A": "a", "B": "binary", "C": "team/hf", "D": "nul"})
    told = str(error.value)
    assert told.startswith("IAM002 the script was not started without its secrets: a (for A): there is no")
    assert "binary (for B): its value is binary" in told
    assert "nul (for D): its value holds a NUL" in told
    assert "team/hf" not in told
    assert VALUE not in told


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (DENIED, "the execution role may not secretsmanager:GetSecretValue on it"),
        (KMS, "the execution role may not kms:Decrypt with the key that encrypts it"),
        (THROTTLED, "Secrets Manager answered ThrottlingException: Rate exceeded"),
    ],
    ids=lambda value: value.name if isinstance(value, Fault) else "",
)
def test_a_refusal_names_the_secret_and_what_is_missing(secrets: Any, fault: Fault, told: str) -> None:
    inject(secrets, "GetSecretValue", *[fault] * 10)
    with pytest.raises(BootError) as error:
        taken({"HF_TOKEN": "team/hf"}, lambda region: secrets)
    assert f"team/hf (for HF_TOKEN): {told}" in str(error.value)


def test_a_network_that_leads_nowhere_is_tried_once_and_for_a_minute_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from botocore.exceptions import ConnectTimeoutError

    calls, made = [], []

    class Unreachable:
        def get_secret_value(self, **arguments: str) -> Any:
            calls.append(arguments)
            raise ConnectTimeoutError(endpoint_url="https://secretsmanager.us-west-2.amazonaws.com/")

    client = boto3.client
    monkeypatch.setattr(boto3, "client", lambda *words, **more: made.append(more) or client(*words, **more))
    with pytest.raises(BootError, match=r"us-west-2 was not reached .*ConnectTimeoutError.* endpoint"):
        taken({"A": "a", "B": "b"}, lambda region: Unreachable())
    assert len(calls) == 1
    with mock_aws(), pytest.raises(BootError):
        taken({"A": "a"})
    config = made[0]["config"]
    tries = config.retries["total_max_attempts"]
    assert tries * max(config.connect_timeout, config.read_timeout) <= 60


def test_an_image_without_boto3_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", nothing)
    with pytest.raises(BootError, match="the image has no boto3"):
        taken({"A": "a"})


def test_without_a_region_the_arn_is_asked_for() -> None:
    with pytest.raises(BootError, match="no region is known; name it by its ARN"):
        take_secrets({"SLIPWAY_SECRETS": '{"A": "a"}'}, connect=lambda region: pytest.fail(region))


PRINTS = f"""
    import os, sys
    value = os.environ["HF_TOKEN"]
    assert value.startswith("hf_planted"), value
    assert not any("SLIPWAY_SECRETS" in name for name in os.environ)
    assert not [name for name, text in os.environ.items() if value in text and name != "HF_TOKEN"]
    print("told", value, repr(value), flush=True)
    for letter in value:
        sys.stdout.write(letter)
        sys.stdout.flush()
    print()
    print("to stderr", value, file=sys.stderr)
    raise RuntimeError(f"{VALUE[:2]} could not log in with {{value}}")
"""


def environment_with(value: str) -> dict[str, str]:
    named = {"SLIPWAY_SECRETS": '{"HF_TOKEN": "team/hf"}', "SLIPWAY_SECRETS_HERE": "1"}
    return {**named, "HF_TOKEN": value}


def everything_below(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


@pytest.mark.few_cases("torchrun")
@pytest.mark.parametrize("strategy", ["none", "torchrun"])
def test_a_value_is_in_nothing_that_the_boot_prints_keeps_or_reports(
    tmp_path: Path, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = tmp_path / "tmp"
    private.mkdir()
    monkeypatch.setenv("TMPDIR", str(private))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        rendezvous = f"127.0.0.1:{probe.getsockname()[1]}"
    boot = Boot(tmp_path / "ml")
    environment = {**environment_with(VALUE), "SLIPWAY_RENDEZVOUS": rendezvous}
    process = boot.start(PRINTS, "--strategy", strategy, environment=environment)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    mark = "[rank0]:" if strategy == "torchrun" else ""
    # The value, also as it comes letter by letter, whoever hands it on.
    assert f"{mark}told *** '***'\n{mark}***\n" in out
    assert f"{mark}to stderr ***\n" in err
    assert boot.failure.startswith("CODE001 rank 0 on algo-1: RuntimeError: hf could not log in with ***")
    kept = everything_below(boot.root / "output")
    assert b"told *** '***'\n***\n" in kept
    for written in (out.encode(), err.encode(), everything_below(tmp_path)):
        assert VALUE.encode() not in written
    assert b"plantedPLANTED" not in kept
    assert list(private.iterdir()) == []
    assert boot.left() == []


def test_a_value_too_short_to_mask_is_told_of(tmp_path: Path) -> None:
    boot = Boot(tmp_path)
    process = boot.start("import os; print(os.environ['HF_TOKEN'])", environment=environment_with("ab1"))
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert out.splitlines()[-1] == "ab1"
    assert err == "slipway: the value of HF_TOKEN is too short to be masked in what the job prints\n"


def test_a_secret_that_cannot_be_had_ends_the_job_before_the_script(tmp_path: Path) -> None:
    boot = Boot(tmp_path)
    nobody = {name: "" for name in os.environ if name.startswith("AWS_")}
    environment = {**nobody, "SLIPWAY_SECRETS": '{"HF_TOKEN": "team/hf"}', "HF_TOKEN": "of the image"}
    process = boot.start("print('started')", environment=environment)
    out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, "started" in out) == (1, False)
    assert boot.failure.startswith("IAM002 the script was not started without its secrets: team/hf")
