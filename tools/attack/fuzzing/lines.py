"""Strategies of lines that a training may print: real ones, spoilt, and those on which patterns take long."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, integers, lists, sampled_from

_WORDS = (
    "step", "loss", "samples", "samples/s", "images", "epoch", "checkpoint", "saving checkpoint", "save",
    "model", "token", "secret", "password=", "AKIA", "eyJ", "://", "@", "=", ":", "-----BEGIN", "PRIVATE KEY",
    "Bearer", "Traceback (most recent call last):", '  File "train.py", line 9, in main', "Error",
    "ValueError: x",
    "[rank3]:", "[1,3]<stderr>:", "algo-1:77:79 [3]", "NCCL WARN", "NCCL INFO", "CUDA out of memory",
    "Killed", "signal 9", "exit code: 1", "0.", "1e", "-", "+", ".", "_", "/", " ", "\t", "nan",
    "inf", "environ({",
)  # fmt: skip
_UNITS = (
    "0", "9.", "1e", "a-", "a_", "a.", ".", "-", "_", "checkpoint-", "checkpoint ", "save ", "samples ",
    "eyJ", "eyJa.", "token", "secret_", "--token ", " ", "\t", "[", "(", "{", "'", '"', "\\", "=", ":", "/",
    "a", "A", "aA0", "rank0]: ", "://a:", "@", "é", "\u202e", "\ud83d", "\x1b[", "\x9d52;", "\r", "\x00", "E",
    "-----BEGIN ", "Error: ", "step=1 ", "loss ", "1.0,", "x=", "during handling ",
)  # fmt: skip
_LENGTHS = (1, 10, 100, 1_000, 4_000, 20_000)
_words, _units = sampled_from(_WORDS), sampled_from(_UNITS)


@st.composite
def _spoilt(draw: DrawFn, real: list[str]) -> str:
    line = draw(sampled_from(real))
    at, length = draw(integers(0, len(line))), draw(integers(0, 19))
    piece = draw(_units | st.just(line[at : at + length] * draw(sampled_from((1, 50)))))
    return line[:at] + piece + line[at + draw(integers(0, 19)) :]


@st.composite
def _one_thing_many_times(draw: DrawFn) -> str:
    unit = "".join(draw(lists(_units, min_size=1, max_size=3)))
    many = unit * (draw(sampled_from(_LENGTHS)) // len(unit) + 1)
    return f"{draw(_words)}{draw(sampled_from((' ', '=', '')))}{many}{draw(_words)}"


def odd_lines(real: list[str], number: int) -> st.SearchStrategy[list[str]]:
    """Some lines: real ones that were spoilt, words in any order, and one thing many times over."""
    line = st.one_of(
        lists(_words, min_size=1, max_size=11).map(" ".join),
        lists(_words | _units, min_size=1, max_size=29).map("".join),
        _spoilt(real),
        st.text(st.characters(max_codepoint=0x2FFF), max_size=199),
        _one_thing_many_times(),
    )
    return lists(line, min_size=number, max_size=number)
