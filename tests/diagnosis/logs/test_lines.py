"""Lines as they come: behind their prefixes, cut out of bytes, and without secrets."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.diagnosis.logs.lines import (
    AHEAD,
    HIDDEN,
    LONGEST_KEPT,
    LONGEST_SHOWN,
    WINDOW,
    Line,
    Window,
    Windows,
    parse,
    redacted,
    shown,
)
from launcher.text.log_lines import LONGEST_LINE


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[1,23]<stdout>:hello", Line("hello", rank=23)),
        ("[1,mpirank:9,algo-2]<stderr>:hello", Line("hello", rank=9, host="algo-2")),
        ("[rank3]: hello", Line("hello", rank=3)),
        ("algo-1:126:199 [5] NCCL INFO x", Line("NCCL INFO x", host="algo-1", device=5)),
        (
            "[2026-08-20 11:30:44] algo-1:126:199 [5] a.cc:1 NCCL WARN x",
            Line("a.cc:1 NCCL WARN x", host="algo-1", device=5),
        ),
        ("algo-1-ABCDE_1  | hello", Line("hello", host="algo-1")),
        ("xtwk0cmckh-algo-1-p7p3n | hello", Line("hello", host="algo-1")),
        ("10.9.12.40: hello", Line("hello", host="10.9.12.40")),
        ("[pod/train-worker-0/pytorch] hello", Line("hello", host="train-worker-0")),
        ("2026-11-21T10:00:00.123456789Z hello", Line("hello")),
        ("2026-11-21T10:00:00.123456+00:00 train-a/algo-2-1763724000 hello", Line("hello", host="algo-2")),
        ("2026-11-21T10:00:00 hello", Line("hello")),
        ("(RayTrainWorker pid=951, ip=10.0.0.2) hello", Line("hello", host="10.0.0.2")),
        ("(RayTrainWorker pid=951) [rank3]: hello", Line("hello", rank=3)),
        ("gpu-node-3: hello", Line("hello", host="gpu-node-3")),
        (
            " 2025-02-11 08:31 [rank13]:[E211 00:31:04.1 P.cpp:6] [Rank 1] x",
            Line("[E211 00:31:04.1 P.cpp:6] [Rank 1] x", rank=13),
        ),
        (
            "[1,24]<stdout>:worker-3:33:33 [0] NCCL INFO x",
            Line("NCCL INFO x", rank=24, host="worker-3", device=0),
        ),
        ("[rank1]:   File x", Line("  File x", rank=1)),
        ("\x1b[31mRuntimeError: x\x1b[0m", Line("RuntimeError: x")),
        ("RuntimeError: x", Line("RuntimeError: x")),
        ("ERROR: x", Line("ERROR: x")),
    ],
)
def test_a_line_is_read_behind_its_prefixes(text: str, line: Line) -> None:
    assert parse(text) == line


def windows(blocks: list[bytes], size: int = WINDOW) -> list[Window]:
    cut = Windows(size)
    found = [window for block in blocks for window in cut.feed(block)]
    return [*found, *cut.end()]


def lines(blocks: list[bytes], size: int = WINDOW) -> list[bytes]:
    return [line for window in windows(blocks, size) for line in window.lines[: window.count]]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n"]), max_size=60).map(b"".join),
    st.integers(1, 9),
    st.integers(1, 40),
)
def test_the_lines_are_the_same_wherever_blocks_and_windows_end(text: bytes, block: int, size: int) -> None:
    blocks = [text[at : at + block] for at in range(0, len(text), block)]
    wanted = re.split(rb"\r\n|\r|\n", text)
    assert lines(blocks, size) == (wanted if wanted[-1] else wanted[:-1])


def test_windows_number_their_lines_and_look_ahead() -> None:
    text = b"".join(b"line %d\n" % number for number in range(1000))
    found = windows([text], 500)
    assert len(found) > 10
    for window in found[:-1]:
        assert len(window.lines) == window.count + AHEAD
        assert window.lines[-1] == b"line %d" % (window.start + len(window.lines) - 1)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([b"", b"a", b"line"]), min_size=1, max_size=60).map(b"\n".join),
    st.integers(1, 80),
    st.integers(1, 30),
)
def test_the_last_lines_of_a_window_are_those_that_it_has_when_it_is_cut_apart(
    text: bytes, size: int, most: int
) -> None:
    for window in windows([text], size):
        last = window.last(most)
        assert last == window.lines[max(0, window.count - most) : window.count]


def test_a_line_that_somebody_noted_is_the_same_before_and_after_the_lines_are_cut_apart() -> None:
    text = b"".join(b"line %d\n" % number for number in range(20))
    for number in (0, 7, 15, 19):
        (window,) = windows([text])
        window.note(number, text.index(b"line %d\n" % number))
        early = (window.line(number), window.after(number))
        assert early == (window.lines[number], window.lines[number + 1 : number + 1 + AHEAD])
        assert early == (window.line(number), window.after(number))


def test_of_a_line_without_an_end_only_the_beginning_is_kept() -> None:
    cut = Windows()
    for _ in range(20):
        assert list(cut.feed(b"x" * (1 << 20))) == []
        assert sum(map(len, cut._blocks)) <= WINDOW + LONGEST_KEPT
    found = [*cut.feed(b"\nnext\n"), *cut.end()]
    assert [window.lines for window in found] == [[b"x" * LONGEST_KEPT, b"next"]]


def test_a_break_behind_a_long_line_may_be_cut_in_half() -> None:
    for end in (b"\r", b"\n", b"\r\n"):
        long = b"x" * (2 * WINDOW - 1) + end + b"next"
        assert lines([long]) == [b"x" * LONGEST_KEPT, b"next"]


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
    assert len(shown("x y" * 1000)) == LONGEST_SHOWN


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
