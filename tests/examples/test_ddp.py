"""The example that people copy, really run: four ranks, as on the two hosts of its job file."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.examples.forking import ForkedRanks

ROOT = Path(__file__).parents[2]
TRAIN = ROOT / "examples" / "ddp" / "src" / "train.py"
RANKS = [0, 1, 2, 3]


def run(folder: Path, epochs: int, **interruption: Any) -> dict[str, Any]:
    """A run with more steps in an epoch than the example's own, to be interrupted between two of them."""
    arguments = ["--epochs", str(epochs), "--global_batch", "64"]
    return {
        "folder": str(folder),
        "arguments": arguments,
        **({"interruption": interruption} if interruption else {}),
    }


STEPS = 1437 // 64
"""In an epoch."""


@pytest.mark.exhaustive
def test_a_run_that_was_interrupted_and_resumed_ends_with_the_same_weights_to_the_bit(
    tmp_path: Path, forked_ranks: ForkedRanks
) -> None:
    terminated = {"signal": signal.SIGTERM, "ranks": [3], "text": "epoch=0", "seconds": 0.1}
    killed = {"signal": signal.SIGKILL, "ranks": RANKS, "text": "epoch=1", "seconds": 0.1}
    _, _, after_end, termination, after_termination, _, after_kill = forked_ranks.train(
        TRAIN,
        len(RANKS),
        run(tmp_path / "uninterrupted", 4),
        run(tmp_path / "ended", 2),
        run(tmp_path / "ended", 4),
        run(tmp_path / "terminated", 4, **terminated),
        run(tmp_path / "terminated", 4),
        run(tmp_path / "killed", 4, **killed),
        run(tmp_path / "killed", 4),
    )
    assert f"resumed after step {2 * STEPS}" in after_end
    stopped = re.search(r"stopped in epoch (\d+) after step (\d+)", termination)
    assert stopped, termination
    epoch, step = map(int, stopped.groups())
    assert epoch * STEPS < step <= (epoch + 1) * STEPS
    assert f"resumed after step {step}\n" in after_termination
    assert f"epoch={epoch - 1} " not in after_termination
    assert "resumed after step " in after_kill
    models = {file.parts[-3]: file.read_bytes() for file in tmp_path.glob("*/model/model.pt")}
    same = [name for name, model in models.items() if model == models["uninterrupted"]]
    assert sorted(same) == ["ended", "killed", "terminated", "uninterrupted"]
