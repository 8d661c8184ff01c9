"""What is shown of a log holds no secrets and no control characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.diagnosis.redaction import HIDDEN, LONGEST, redacted, shown
from launcher.text.line_length import LONGEST_LINE

LETTERS = "abcdefghijklmnopqrst"
AWS_KEY = "AKIA" + "ABCDEFGH12345678"
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY"


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ("WANDB_API_KEY=abc123", "abc123"),
        ("export DATABASE_URL=postgres://x", "postgres"),
        (f"using key {AWS_KEY} now", AWS_KEY),
        (f"second value {AWS_SECRET} printed", AWS_SECRET),
        ("{'aws_secret_access_key': 'abc/def'}", "abc/def"),
        ("train.py --hf-token hunter2 --lr 1", "hunter2"),
        ("token=12345", "12345"),
        ("hub_tokens: 12hunter2", "12hunter2"),
        ('{"password": "hunter2", "user": "me"}', "hunter2"),
        ("Authorization: Bearer abcdef.ghijk-123", "ghijk"),
        (f"login hf_{LETTERS}", LETTERS),
        (f"token ghp_{LETTERS}", LETTERS),
        ("git clone https://me:hunter2@example.com/x.git", "hunter2"),
        ("GET https://s3/x?X-Amz-Signature=deadbeef&X-Amz-Expires=60", "deadbeef"),
        ("environ({'HOME': '/root', 'MY_THING': 'hunter2'})", "hunter2"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "eyJzdWIiOiIxIn0"),
    ],
)
def test_a_secret_is_hidden(line: str, secret: str) -> None:
    assert secret not in redacted(line)
    assert HIDDEN in redacted(line)


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB.",
        "[E ProcessGroupNCCL.cpp:455] [Rank 1] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=3)",
        '  File "/opt/ml/code/tokenizer.py", line 3, in <module>',
        "ImportError: tokenizers>=0.14,<0.15 is required, but found tokenizers==0.13.3",
        "step 4 tokens: 1024 tokens_per_sec=512.5 tokens/s: 99 'max_new_tokens': 256",
        "sha256 3f786850e387550fdab836ed7e6dc881de23001b",
        "KeyError: 'labels'",
        "step 3 loss=2.31 lr=0.1",
    ],
)
def test_what_is_no_secret_stays(line: str) -> None:
    assert redacted(line) == line


def test_control_characters_and_colours_never_reach_the_terminal() -> None:
    assert shown("\x1b[31mred\x1b[0m \x1b]0;title\x07bell\x07\x00 \x9b31m") == "red bell \\u009b31m"


def test_a_long_line_is_cut() -> None:
    assert len(shown("x y" * 1000)) == LONGEST


@pytest.mark.parametrize("before", range(LONGEST_LINE - 60, LONGEST_LINE))
def test_a_secret_that_the_longest_line_cuts_in_two_is_not_shown(before: int) -> None:
    hidden = "password=" + "x" * (before - len("password= key "))
    line = f"{hidden} key {AWS_SECRET} and more"
    assert AWS_SECRET[:8] not in shown(line)
    assert AWS_SECRET[:8] not in redacted(AWS_SECRET * 200)


def test_a_very_long_line_keeps_its_beginning() -> None:
    assert shown("loss exploded " + "0.5 " * 100_000).startswith("loss exploded 0.5 0.5")


@given(st.text())
def test_what_is_shown_is_printable(text: str) -> None:
    assert all(
        character.isprintable() or ord(character) > 0xFF or character in "\t\xa0\xad"
        for character in shown(text)
    )
