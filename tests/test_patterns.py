"""Every regular expression of the launcher takes time in proportion to its text, on its own worst texts too.

Logs are written by others: a line that takes a pattern minutes stands still whoever follows the job.
"""

from __future__ import annotations

import ast
import importlib
import re
import re._parser as sre  # type: ignore[import-not-found]
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from launcher.text.log_lines import LONGEST_LINE

LAUNCHER = Path(__file__).parents[1] / "launcher"
LENGTHS = (24, 200, 1500, 20_000)
"""Ever longer texts, so that a cubic pattern is found out before it takes its time."""
SLOWEST = 200
"""So many times the time of a search for one of two characters: bounded repetitions multiply by their bound,
a quadratic pattern by the length. One of `\\d{1,7}` takes up to 130 times as long, by the processor."""
LENGTHS_OF_LINES = (24, 200, 1500, LONGEST_LINE)
SLOWEST_SIGNATURE = 1000
"""Signatures see no more of a line than LONGEST_LINE. `this.*that` tries again at each `this` of a line: at
some hundreds of them, a fraction of what a repetition in a repetition costs."""
SHORTEST = 0.001
"""Seconds below which no time says anything."""
SEEDS = (" ", "\t", "\n", "a", "A", "0", "0.", "-", "a-", "a.", "a ", "0 ", "[", "\x1b]", "a/", ":", "_a")
BASELINE = re.compile("[\ud800\ud801]")
"""Half characters, which no text holds: it looks at each character once."""
ASKED = ("search", "match", "fullmatch", "finditer", "findall", "sub", "split")
WRITTEN = re.compile(rf"\bre\s*\.\s*({'|'.join(ASKED)})\b")


def patterns() -> Iterator[tuple[str, re.Pattern[str], frozenset[str]]]:
    """Each pattern that a module keeps or writes into a call: where, the pattern, how it is asked."""
    seen = set()
    # Many modules import the same large tables.
    walked: dict[int, list[re.Pattern[str]]] = {}
    for file in sorted(LAUNCHER.rglob("*.py")):
        name = ".".join(file.relative_to(LAUNCHER.parent).with_suffix("").parts)
        text = file.read_text("utf-8")
        for variable, value in vars(importlib.import_module(name.removesuffix(".__init__"))).items():
            if id(value) not in walked:
                walked[id(value)] = list(kept_in(value))
            kept = walked[id(value)]
            if not kept:
                continue
            asked = frozenset(re.findall(rf"\b{re.escape(variable)}\.({'|'.join(ASKED)})\(", text))
            for pattern in kept:
                if (pattern, asked) not in seen and (asked or not isinstance(value, re.Pattern)):
                    seen.add((pattern, asked))
                    yield f"{name}:{variable}", pattern, asked or frozenset({"search"})
        for call in ast.walk(ast.parse(text)) if WRITTEN.search(text) else ():
            match call:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=method),
                    args=[ast.Constant(value=str(written)), *_],
                ) if method in ASKED:
                    yield f"{name}:{call.lineno}", re.compile(written), frozenset({method})


def kept_in(value: Any) -> Iterator[re.Pattern[str]]:
    """The patterns in a variable of a module, in tables and rows too."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from kept_in(each)
    elif isinstance(value, (tuple, list, frozenset)):
        for each in value:
            yield from kept_in(each)
    elif is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            yield from kept_in(getattr(value, each.name))


def worst_texts(pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Beginnings, and what to repeat after them: what the pattern's own parts match, and the seeds."""
    parsed = sre.parse(pattern.pattern, pattern.flags)
    whole = example(parsed)
    yield from (("", seed) for seed in SEEDS)
    yield from (("", whole[:end]) for end in {len(whole), len(whole) - 1, len(whole) // 2} if end > 0)
    for before, repeated in repetitions(parsed):
        # What comes before, once and again and again; that it is repeated is where the quadratic ones are.
        yield from ((before, repeated), ("", before + repeated), ("", before + "-"))
        yield from ((before, seed) for seed in SEEDS[:4])


def repetitions(parsed: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """What stands before each unbounded repetition, and what it repeats."""
    for operator, argument in parsed:
        name = str(operator)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            _, most, inner = argument
            if most > 20 and example(inner):
                yield before, example(inner)
            yield from repetitions(inner, before)
        elif name == "SUBPATTERN":
            yield from repetitions(argument[-1], before)
        elif name == "ATOMIC_GROUP":
            yield from repetitions(argument, before)
        elif name == "BRANCH":
            for branch in argument[1]:
                yield from repetitions(branch, before)
        before += example([(operator, argument)])


def example(parsed: Any) -> str:
    """A text that the parts match, mostly: repetitions as often as they must be, of branches the first."""
    text = ""
    for operator, argument in parsed:
        match str(operator):
            case "LITERAL":
                text += chr(argument)
            case "NOT_LITERAL":
                text += "x" if argument != ord("x") else "y"
            case "ANY":
                text += "x"
            case "IN":
                text += one_of(argument)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                text += example(argument[2]) * min(argument[0], 20)
            case "SUBPATTERN":
                text += example(argument[-1])
            case "ATOMIC_GROUP":
                text += example(argument)
            case "BRANCH":
                text += example(argument[1][0])
    return text


def one_of(members: Any) -> str:
    negated = str(members[0][0]) == "NEGATE"
    written = "".join(
        {"LITERAL": lambda of: f"\\u{of:04x}", "RANGE": lambda of: f"\\u{of[0]:04x}-\\u{of[1]:04x}"}.get(
            str(kind), lambda of: CATEGORIES[str(of)]
        )(of)
        for kind, of in members[negated:]
    )
    fits = re.compile(f"[{'^' * negated}{written}]")
    return next((each for each in "a0 -_.:/A\tx\x1b\n" if fits.match(each)), "") or chr(
        next(number for number in range(0x3000) if fits.match(chr(number)))
    )


CATEGORIES = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}


def seconds(pattern: re.Pattern[Any], asked: str, text: str | bytes) -> float:
    began = time.thread_time()
    match asked:
        case "match" | "fullmatch" | "search":
            getattr(pattern, asked)(text)
        case _:
            for _ in pattern.finditer(text):
                pass
    return time.thread_time() - began


def is_too_slow(pattern: re.Pattern[str], asked: str, text: str, slowest: float) -> bool:
    """Whether the pattern takes so many times the baseline, timed on this machine in this moment."""
    # A pattern of bytes is given the text as such.
    took = seconds(pattern, asked, text.encode() if isinstance(pattern.pattern, bytes) else text)
    return took > SHORTEST and took > slowest * seconds(BASELINE, "search", text)


def too_slow_on(
    pattern: re.Pattern[str],
    asked: str,
    lengths: Sequence[int] = LENGTHS,
    slowest: float = SLOWEST,
) -> str | None:
    """The beginning of a text on which the pattern takes more than its time, None where there is none."""
    for length in lengths:
        for before, repeated in worst_texts(pattern):
            for end in ("", "\x02"):
                text = (before + repeated * (length // len(repeated))) + end
                # Again, for the machine may have been busy with something else.
                if all(is_too_slow(pattern, asked, text, slowest) for _ in range(3)):
                    return f"{length} characters of {before + repeated * 2 + end!r}"
    return None


@pytest.mark.few_cases("3")
@pytest.mark.parametrize("lengths", [3, 4])
def test_each_pattern_is_linear_on_its_own_worst_texts(lengths: int) -> None:
    slow = {}
    for name, pattern, ways in patterns():
        of_lines = re.search(r"\.signatures\.|:(?:SIGNATURES|CONTEXTS)$", name)
        for asked in sorted(ways):
            if of_lines:
                found = too_slow_on(pattern, asked, LENGTHS_OF_LINES[:lengths], SLOWEST_SIGNATURE)
            else:
                found = too_slow_on(pattern, asked, LENGTHS[:lengths])
            if found is not None:
                slow[f"{name}.{asked}"] = found
    assert slow == {}


@pytest.mark.parametrize(
    "written", [r"a+b", r"\d+\.?\d*x", r"(?:a|aa)+b", r"loss\s*:?\s*x", r"\b[\w.-]*token=", r"\be[\w-]{8,}\."]
)
def test_the_measure_finds_patterns_that_are_not(written: str) -> None:
    assert too_slow_on(re.compile(written), "search")
