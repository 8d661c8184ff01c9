"""Text from elsewhere cannot act on a terminal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.text.controls import without_controls


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]52;c;ZXZpbA==\x07", ""),
        ("\x9d52;c;ZXZpbA==\x9c", "\\u009d52;c;ZXZpbA==\\u009c"),
        ("\x9b2J", "\\u009b2J"),
        ("access = \u202enimda", "access = \\u202enimda"),
        ("\u2066a\u2069", "\\u2066a\\u2069"),
        ("10%\r20%\x08\x00", "10%20%"),
        ("a\tb\n", "a\tb\n"),
        ("Grüße, 日本語 · ×", "Grüße, 日本語 · ×"),
    ],
)
def test_colours_go_and_what_would_act_unseen_is_written_out(text: str, shown: str) -> None:
    assert without_controls(text) == shown


@given(st.text())
def test_nothing_that_acts_is_left(text: str) -> None:
    left = without_controls(text)
    assert not any((ord(each) < 0x20 and each not in "\t\n") or 0x7F <= ord(each) < 0xA0 for each in left)
    assert not set(left) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    assert without_controls(left) == left


@given(st.text())
def test_json_keeps_its_value(text: str) -> None:
    assert json.loads(without_controls(json.dumps({text: [text]}, ensure_ascii=False))) == {text: [text]}
