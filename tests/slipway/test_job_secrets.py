"""The job's secrets: fetched, given to the processes, and hidden in what is printed."""

from __future__ import annotations

import importlib
import json
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import boto3
import pytest
from moto import mock_aws

from slipway.failure import BootError
from slipway.job_secrets import Masking, take_secrets
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


TOKEN = "hf_kTgWc0Vq81"
KEY = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END KEY-----\n"


def streamed(masking: Masking, *pieces: str) -> str:
    stream = masking.stream()
    return b"".join([*(stream.feed(piece.encode()) for piece in pieces), stream.end()]).decode()


def test_a_value_is_hidden_wherever_it_stands() -> None:
    masking = Masking([TOKEN])
    for text in (TOKEN, f"token={TOKEN},", f"{TOKEN}{TOKEN}", f"x{TOKEN}x"):
        assert masking.text(text) == text.replace(TOKEN, "***")
        assert streamed(masking, text) == text.replace(TOKEN, "***")


@pytest.mark.parametrize("written", [repr, json.dumps, lambda text: quote(text, safe="")])
def test_so_it_is_as_python_json_and_urls_write_it(written) -> None:
    value = 'a "quoted"\\ pässword/&'
    assert Masking([value]).text(f"<{written(value).strip(chr(34) + chr(39))}>") == "<***>"


def test_a_value_of_several_lines_is_hidden_line_by_line() -> None:
    printed = "".join(f"[rank0]:{line}\n" for line in KEY.splitlines())
    assert Masking([KEY]).text(printed) == "[rank0]:***\n" * 4


def test_of_a_value_that_is_json_the_texts_in_it_are_hidden() -> None:
    value = json.dumps({"user": "me", "login": {"password": "correct horse"}, "port": 5432})
    masking = Masking([value])
    assert masking.text("me at 5432 with correct horse") == "me at 5432 with ***"
    assert masking.text(f"<{value}>") == "<***>"


@pytest.mark.parametrize("value", ["{" * 100_000, '{"abc": 1', "[1, 2"])
def test_what_only_begins_like_json_is_a_text(value: str) -> None:
    assert Masking([value]).text(f"<{value}>") == "<***>"


def test_a_short_value_is_hidden_as_a_word_of_its_own() -> None:
    masking = Masking(["ab12"])
    text = "ab12 (ab12) x=ab12 ab123 xab12 ab12\n"
    hidden = "*** (***) x=*** ab123 xab12 ***\n"
    assert masking.text(text) == hidden
    assert streamed(masking, *text) == hidden


def test_the_shortest_are_not_hidden_and_hide_nothing_else() -> None:
    masking = Masking(["abc", "", "  "])
    assert not masking
    assert masking.text("abc") == streamed(masking, "ab", "c") == "abc"


def test_however_it_is_cut_a_stream_hides_what_the_whole_text_does() -> None:
    chance = random.Random(7)
    values = [TOKEN, "aaaaaaab", "aaaaaaaaaa", "aab1", KEY, "ünïcödé-9"]
    masking = Masking(values)
    for _ in range(300):
        parts = chance.choices([*values, "a", "hf_", " ", "\n", "b", "word ", TOKEN[:9]], k=12)
        text = "".join(parts).encode() + b"."
        cuts = sorted(chance.choices(range(len(text)), k=9))
        pieces = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        stream = masking.stream()
        shown = b"".join([*map(stream.feed, pieces), stream.end()]).decode()
        assert shown == masking.text(text.decode())
        assert not any(value in shown for value in (TOKEN, "aaaaaaab", "ünïcödé-9"))


def test_what_cannot_be_the_beginning_of_a_value_passes_at_once() -> None:
    stream = Masking([TOKEN]).stream()
    assert stream.feed(b"epoch 1: hf_k") == b"epoch 1: "
    assert stream.feed(b"x") == b"hf_kx"


def test_a_value_that_the_end_of_the_stream_cuts_is_hidden_where_much_of_it_is_there() -> None:
    masking = Masking([TOKEN])
    assert streamed(masking, "x ", TOKEN[:9]) == "x ***"
    assert streamed(masking, "x ", TOKEN[:4]) == f"x {TOKEN[:4]}"


def test_no_more_than_the_longest_value_waits() -> None:
    value = "a" * 50 + "b"
    stream = Masking([value]).stream()
    passed = b"".join(stream.feed(b"a" * 1000) for _ in range(20))
    assert len(passed) == 20_000 - 50


def test_a_job_without_secrets_gets_its_output_as_it_is() -> None:
    stream = Masking().stream()
    assert stream.feed(b"\xff\x00abc") == b"\xff\x00abc"
    assert stream.end() == b""
