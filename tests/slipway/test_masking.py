"""What is hidden of secrets, in texts and in streams that come in pieces. All values are invented."""

from __future__ import annotations

import json
import random
from urllib.parse import quote

import pytest

from slipway.masking import Masking

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
