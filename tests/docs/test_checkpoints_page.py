"""The page of checkpoints: its example trains, stops and resumes as it says."""

from __future__ import annotations

import re
from pathlib import Path

from tests.examples.forking import ForkedRanks

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "checkpoints.md").read_text("utf-8")


def test_the_example_resumes_where_it_was(tmp_path: Path, forked_ranks: ForkedRanks) -> None:
    example = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert example
    (tmp_path / "short.py").write_text(example[1].replace("sampler.epoch < 3", "sampler.epoch < 2"), "utf-8")
    (tmp_path / "train.py").write_text(example[1], "utf-8")
    run = {"folder": str(tmp_path / "checkpoints"), "arguments": []}
    printed = ""
    for script in ("short.py", "train.py"):
        printed += "".join(forked_ranks.train(tmp_path / script, 2, run))
    assert re.findall(r"from step \d+", printed) == ["from step 0"] * 2 + ["from step 20"] * 2
    kept = sorted(folder.name[:17] for folder in (tmp_path / "checkpoints").iterdir())
    assert kept == ["step-000000000010", "step-000000000020", "step-000000000030"]
