"""The page of mishaps: what it says is printed is what examples/mishaps prints (the rest: tests/gallery)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.mishaps import KINDS, promised, same
from tests.examples.forking import ForkedRanks

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "mishaps" / "src" / "train.py"
OF_CHECKPOINTS = ["truncated", "flipped_bit", "module_keys"]


@pytest.mark.few_cases("truncated")
@pytest.mark.parametrize("kind", OF_CHECKPOINTS)
def test_what_is_said_of_a_damaged_checkpoint_is_what_the_page_says(
    tmp_path: Path, forked_ranks: ForkedRanks, kind: str
) -> None:
    lines = promised(kind)
    assert lines
    (printed,) = forked_ranks.train(SCRIPT, 4, {"folder": str(tmp_path), "arguments": ["--kind", kind]})
    for line in lines:
        assert any(same(line, each) for each in printed.splitlines()), printed


def test_the_page_shows_every_mishap_of_the_example() -> None:
    assert [kind for kind in KINDS if not promised(kind)] == []
