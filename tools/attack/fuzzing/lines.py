"""Lines that a training may print: real ones, spoilt, and those on which patterns take long."""

from __future__ import annotations

from random import Random

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


def odd_lines(chosen: Random, real: list[str], number: int) -> list[str]:
    """Some lines: real ones that were spoilt, words in any order, and one thing many times over."""
    return [_line(chosen, real) for _ in range(number)]


def _line(chosen: Random, real: list[str]) -> str:
    match chosen.randrange(5):
        case 0:
            return _spoilt(chosen, chosen.choice(real))
        case 1:
            return " ".join(chosen.choices(_WORDS, k=chosen.randrange(1, 12)))
        case 2:
            return "".join(chosen.choices([*_WORDS, *_UNITS], k=chosen.randrange(1, 30)))
        case 3:
            return "".join(map(chr, chosen.choices(range(0x3000), k=chosen.randrange(200))))
        case _:
            unit = "".join(chosen.choices(_UNITS, k=chosen.choice((1, 1, 2, 3))))
            many = unit * (chosen.choice(_LENGTHS) // len(unit) + 1)
            return f"{chosen.choice(_WORDS)}{chosen.choice((' ', '=', ''))}{many}{chosen.choice(_WORDS)}"


def _spoilt(chosen: Random, line: str) -> str:
    at, length = chosen.randrange(len(line) + 1), chosen.randrange(20)
    piece = chosen.choice((*_UNITS, line[at : at + length] * chosen.choice((1, 50))))
    return line[:at] + piece + line[at + chosen.randrange(20) :]
