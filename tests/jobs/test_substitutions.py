"""Texts with the names of variables in place of their values."""

from __future__ import annotations

import json

import pytest

from launcher.failure_modes import job_file
from launcher.failure_modes.model import Stage
from launcher.failure_modes.refusal import AwsRefusal
from launcher.jobs.substitutions import Substitution, Substitutions

SECRET = "hunter2-SUPERSECRET-value"


def made(written: str, *path: str, **values: str) -> Substitutions:
    text = written
    for name, value in values.items():
        text = text.replace(f"${{{name}}}", value)
    return Substitutions((Substitution(path or ("environment", "X"), written, text, values),))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"{SECRET!r} is no duration", "'${S}' is no duration"),
        (f"x{SECRET}y", "x${S}y"),
        (f"{SECRET[:20]}... is too long", "${S} is too long"),
        ("nothing of it", "nothing of it"),
        (SECRET[:20], SECRET[:20]),
    ],
)
def test_a_long_value_is_replaced_wherever_it_stands(text: str, shown: str) -> None:
    assert made("${S}", S=SECRET).shown(text) == shown


@pytest.mark.parametrize("value", ["a\nb \"quoted\" 'twice' \\ secret", "grün und blau, das ist geheim"])
def test_so_is_one_that_messages_write_in_quotes(value: str) -> None:
    for written in (repr(value), json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert made("${S}", S=value).shown(f"{written} is wrong")[1:-1].startswith("${S}")


def test_the_field_is_shown_as_it_was_written() -> None:
    replaced = made("s3://${BUCKET}/${TEAM}/x", BUCKET="acme-secret-bucket", TEAM="a")
    whole = replaced.shown("s3://acme-secret-bucket/a/x is no prefix")
    assert whole == "s3://${BUCKET}/${TEAM}/x is no prefix"
    assert replaced.shown("no bucket acme-secret-bucket") == "no bucket ${BUCKET}"


def test_the_parts_of_an_address_are_replaced_but_not_the_region() -> None:
    replaced = made("${URI}", URI="arn:aws:kms:eu-central-1:111122223333:key/0123-4567-89ab")
    assert replaced.shown("no key 0123-4567-89ab of 111122223333 in eu-central-1") == (
        "no key ${URI} of ${URI} in eu-central-1"
    )


def test_a_short_value_is_replaced_in_what_is_said_of_its_field_only() -> None:
    replaced = made("${N}", "resources", "instance_count", N="3")
    about = ("resources", "instance_count")
    text = replaced.shown("3 hosts of ml.p3.8xlarge, 13 in all, 3,100.3 USD for 3.", about)
    assert text == "${N} hosts of ml.p3.8xlarge, 13 in all, 3,100.3 USD for ${N}."
    assert replaced.shown("3 hosts", ("resources",)) == "${N} hosts"
    assert replaced.shown("3 hosts", ("limits",)) == "3 hosts"
    assert replaced.shown("3 hosts") == "3 hosts"


def test_a_very_short_word_is_replaced_only_where_it_is_quoted() -> None:
    replaced = made("${N}", "name", N="a")
    assert replaced.shown("'a' is not a name", ("name",)) == "'${N}' is not a name"


def test_a_value_of_middle_length_is_replaced_as_a_word() -> None:
    assert made("${T}", T="vision").shown("vision, not divisions") == "${T}, not divisions"


def test_what_was_put_in_is_not_replaced_again() -> None:
    replaced = made("${SECRET_TEAM} ${TEAM}", SECRET_TEAM="SECRET_TEAM", TEAM="vision")
    assert replaced.shown("SECRET_TEAM and vision") == "${SECRET_TEAM} and ${TEAM}"


def test_a_finding_keeps_what_the_catalogue_says_in_general() -> None:
    replaced = made("${S}", S="durations")
    general = job_file.INVALID_VALUE.finding(Stage.SPEC, "durations are wrong", subject="durations")
    shown = replaced.finding(general)
    assert (shown.message, shown.subject) == ("${S} are wrong", "${S}")
    assert shown.remedy == general.remedy
    assert "durations" in shown.remedy
    special = job_file.INVALID_VALUE.finding(Stage.SPEC, "x", remedy="Use durations.")
    assert replaced.finding(special).remedy == "Use ${S}."


def test_a_refusal_passes_without_the_value_in_it_or_in_its_cause() -> None:
    with pytest.raises(AwsRefusal) as refused, made("${S}", S=SECRET).refusals():
        try:
            raise ValueError(SECRET)
        except ValueError as cause:
            raise AwsRefusal(f"no {SECRET}.", f"Make {SECRET}.") from cause
    error = refused.value
    assert (error.message, error.remedy, str(error)) == ("no ${S}.", "Make ${S}.", "no ${S}. Make ${S}.")
    assert error.__cause__ is None
    assert error.__suppress_context__


def test_a_number_is_shown_as_it_was_written() -> None:
    replaced = made("${T}", "limits", "max_runtime", T="2h")
    assert replaced.value(7200, ("limits", "max_runtime")) == "${T}"
    assert replaced.value(7200, ("limits", "max_wait")) == 7200
