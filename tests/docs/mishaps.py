"""What docs/mishaps.md says is printed, by the kind of mishap of examples/mishaps."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "mishaps.md").read_text("utf-8")
KINDS = [
    "sleep", "stopped", "killed", "extra_collective", "saved_alone", "early_end",
    "truncated", "flipped_bit", "module_keys",
]  # fmt: skip

_CHANGES = re.compile(r"\b\d+ s\b|#\d+|-[0-9a-f]{8}\b|\b\d+\.\d+e[+-]\d+\b")
"""What is another one in every run: times, numbers of collectives, tokens of starts."""


def promised(kind: str) -> list[str]:
    """What is said of a mishap with Slipway: the text under its command, without the hosts' names."""
    _, command, rest = PAGE.partition(f"--set hyperparameters.kind={kind}")
    assert command, f"the page does not show {kind}"
    _, begun, rest = rest.partition("```text\n")
    assert begun
    lines = rest.partition("\n```")[0].splitlines()
    return [re.sub(r"^algo-\d (?:\[rank\d\]:)?", "", line) for line in lines]


def same(promised: str, printed: str) -> bool:
    """Whether a printed line says what was promised, whatever is another one in every run."""
    return _CHANGES.sub("", promised) in _CHANGES.sub("", printed)
