"""Write slipway/signatures.json: the log signatures, for the boot in the container.

The rows are those of `launcher/diagnosis/signatures`, in their order, without examples, near misses and
remedies, and without those of other places (`in_container` is false): SLURM, Kubernetes and Ray's cluster
start no job of SageMaker, what mpirun starts, Horovod's scripts too, the images' toolkit starts without the
boot, no strategy is for JAX or TensorFlow, and neither what the service says of a job's channels nor what its
host says is in a container.
The boot runs on Python 3.8, whose `re` knows neither atomic groups nor possessive quantifiers (they came with
3.11). Both are written in the way that every version knows: a look ahead that captures, and what it captured,
which nothing goes back into either.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from launcher.diagnosis.logs.tracebacks import FOLLOWS_FROM_ANOTHER
from launcher.diagnosis.signatures import CONTEXTS, FRAGMENTS, SIGNATURES, Context, Signature
from launcher.diagnosis.signs.group_lines import WAITS_FOR
from launcher.diagnosis.signs.sightings import GOES_ON
from launcher.text.log_lines import PREFIX
from tools.generate.generated import ROOT, command_of

TABLE = ROOT / "slipway" / "signatures.json"

PATTERNS = {
    "prefix": PREFIX,
    "goes_on": GOES_ON,
    "follows_from_another": FOLLOWS_FROM_ANOTHER,
    "waits_for_rank": WAITS_FOR,
}
"""Patterns of the diagnosis that belong to no row, by which the container reads lines too."""

MEETINGS = {
    "torch": FRAGMENTS["MEET_PYTORCH"],
    "tensorflow": FRAGMENTS["MEET_TENSORFLOW"],
    "jaxlib": FRAGMENTS["MEET_JAX"],
}
"""How ranks meet, by the package that shows in the process which framework it is."""

ROWS = tuple(row for row in SIGNATURES if row.in_container)
"""The rows that may match what a container of SageMaker prints."""

ATOM = "_atom"
"""How the names of the groups begin that stand for atomic groups and possessive quantifiers."""

_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?P<\w+>|\(\?P=\w+\)|\(\?>|\(\?<[=!]|\(\?[=!:]|\(\?[aiLmsux-]+:"
    r"|\(|\)|(?:[*+?]|\{\d*,?\d*\})[+?]?|.",
    re.DOTALL,
)
_QUANTIFIER = re.compile(r"(?:[*+?]|\{\d*,?\d*\})[+?]?")


def generated() -> dict[Path, str]:
    """What the table's file should hold now: a line for each row, so that changes can be read."""
    rows = [_line(_of_signature(row)) for row in ROWS]
    contexts = [_line(_of_context(row)) for row in CONTEXTS]
    patterns = {
        name: [old_spelling(each.pattern), each.flags & ~re.UNICODE] for name, each in PATTERNS.items()
    }
    head = _line({"generated_by": command_of(__name__), "patterns": patterns, "meetings": MEETINGS})[1:-1]
    return {TABLE: f'{{{head},\n"signatures": {_listed(rows)},\n"contexts": {_listed(contexts)}}}\n'}


def old_spelling(pattern: str) -> str:
    """The pattern without atomic groups and possessive quantifiers, meaning the same.

    Raises ValueError for a group that this does not know.
    """
    tokens = _TOKEN.findall(pattern)
    written, end = _sequence(tokens, 0, [0])
    if end != len(tokens):
        raise ValueError(f"{pattern}: a parenthesis too many")
    return written


def _sequence(tokens: Sequence[str], start: int, count: list[int]) -> tuple[str, int]:
    """What stands from a token on to the end of its group, rewritten, and where that is."""
    parts: list[str] = []
    position = start
    while position < len(tokens) and tokens[position] != ")":
        token = tokens[position]
        if token.startswith("(") and not token.startswith("(?P="):
            inner, position = _sequence(tokens, position + 1, count)
            parts.append(_atomic(inner, count) if token == "(?>" else f"{token}{inner})")
        elif _QUANTIFIER.fullmatch(token) and len(token) > 1 and token.endswith("+"):
            parts.append(_atomic(parts.pop() + token[:-1], count))
        elif _QUANTIFIER.fullmatch(token):
            parts.append(parts.pop() + token)
        else:
            parts.append(token)
        position += 1
    return "".join(parts), position


def _atomic(inner: str, count: list[int]) -> str:
    count[0] += 1
    name = f"{ATOM}{count[0]}"
    return f"(?:(?=(?P<{name}>{inner}))(?P={name}))"


def _of_signature(row: Signature) -> dict[str, object]:
    says = row.says
    if says is None and row.vague:
        # The diagnosis says the failure mode's title then, which the container does not have.
        says = row.mode.title.replace("{", "{{").replace("}", "}}")
    return {
        "code": row.code,
        "role": row.role.value,
        "literal": row.literal,
        "pattern": old_spelling(row.pattern.pattern),
        **_flags(row.pattern),
        **({"says": says} if says is not None else {}),
        **({"vague": True} if row.vague else {}),
    }


def _of_context(row: Context) -> dict[str, object]:
    return {
        "code": row.mode.code,
        "symptoms": [mode.code for mode in row.symptoms],
        "literal": row.literal,
        "pattern": old_spelling(row.pattern.pattern),
        **_flags(row.pattern),
    }


def _flags(pattern: re.Pattern[str]) -> dict[str, object]:
    flags = pattern.flags & ~re.UNICODE
    return {"flags": flags} if flags else {}


def _line(row: Mapping[str, object]) -> str:
    return json.dumps(row, ensure_ascii=True, separators=(",", ":"))


def _listed(lines: Sequence[str]) -> str:
    return "[\n" + ",\n".join(lines) + "\n]"
