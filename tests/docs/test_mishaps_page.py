"""The page of mishaps: what it says is printed is what examples/mishaps prints (the rest: tests/gallery)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.mishaps import KINDS, promised, same
from tests.examples.forking import ForkedRanks

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "mishaps" / "src" / "train.py"
OF_CHECKPOINTS = ["truncated", "flipped_bit", "module_keys"]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory, forked_ranks: ForkedRanks) -> dict[str, str]:
    """What each mishap of checkpoints prints, on four ranks that are forked from one process."""
    folder = tmp_path_factory.mktemp("mishaps")
    runs = [{"folder": str(folder / kind), "arguments": ["--kind", kind]} for kind in OF_CHECKPOINTS]
    return dict(zip(OF_CHECKPOINTS, forked_ranks.train(SCRIPT, 4, *runs), strict=True))


@pytest.mark.parametrize("kind", OF_CHECKPOINTS)
def test_what_is_said_of_a_damaged_checkpoint_is_what_the_page_says(
    printed: dict[str, str], kind: str
) -> None:
    lines = promised(kind)
    assert lines
    for line in lines:
        assert any(same(line, each) for each in printed[kind].splitlines()), printed[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_shows_every_mishap_of_the_example(kind: str) -> None:
    assert promised(kind)
