"""The page of checkpoints: its example trains, stops and resumes as it says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FORKED = ROOT / "tests" / "examples" / "forked_ranks.py"
PAGE = (ROOT / "docs" / "checkpoints.md").read_text("utf-8")


def test_the_example_resumes_where_it_was(tmp_path: Path) -> None:
    example = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert example
    (tmp_path / "short.py").write_text(example[1].replace("sampler.epoch < 3", "sampler.epoch < 2"), "utf-8")
    (tmp_path / "train.py").write_text(example[1], "utf-8")
    printed = ""
    for script in ("short.py", "train.py"):
        ended = subprocess.run(
            [
                sys.executable,
                "-W",
                "ignore",
                str(FORKED),
                str(tmp_path / script),
                "2",
            ],
            cwd=ROOT,
            input=json.dumps([{"folder": str(tmp_path / "checkpoints"), "arguments": []}]),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        printed += json.loads(ended.stdout)[0]
    assert re.findall(r"from step \d+", printed) == ["from step 0"] * 2 + ["from step 20"] * 2
    kept = sorted(folder.name[:17] for folder in (tmp_path / "checkpoints").iterdir())
    assert kept == ["step-000000000010", "step-000000000020", "step-000000000030"]
