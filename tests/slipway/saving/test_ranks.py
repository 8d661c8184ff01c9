"""Checkpoints of several ranks over gloo: what `training.py` ends with, however it was interrupted."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.examples.forking import ForkedRanks

TRAINING = Path(__file__).with_name("training.py")


def run(folder: Path, steps: int, *arguments: str, **interruption: Any) -> dict[str, Any]:
    wanted: dict[str, Any] = {"folder": str(folder), "arguments": ["--steps", str(steps), *arguments]}
    return {**wanted, "interruption": interruption} if interruption else wanted


def final(printed: str) -> str:
    found = re.search(r"^final \d+ (\w{64})$", printed, re.MULTILINE)
    assert found, printed
    return found[1]


def samples(printed: str) -> dict[int, set[int]]:
    """What all ranks together trained on, by step."""
    taken: dict[int, set[int]] = {}
    for step, indices in re.findall(r"^step (\d+) ([\d ]+)$", printed, re.MULTILINE):
        taken.setdefault(int(step), set()).update(int(index) for index in indices.split())
    return taken


@pytest.mark.few_cases("ddp")
@pytest.mark.parametrize("kind", ["ddp", "fsdp1", "fsdp2"])
def test_hosts_with_disks_of_their_own_resume_to_the_same_bits(
    tmp_path: Path, forked_ranks: ForkedRanks, kind: str
) -> None:
    apart = ["--kind", kind, "--ranks-per-host", "1"]
    killed = {"text": "saved 6", "seconds": 0, "signal": signal.SIGKILL, "ranks": [0, 1]}
    unbroken, ended, resumed, interrupted, again = forked_ranks.train(
        TRAINING,
        2,
        run(tmp_path / "unbroken", 14, "--kind", kind),
        run(tmp_path / "apart", 7, *apart),
        run(tmp_path / "apart", 14, *apart),
        run(tmp_path / "killed", 14, *apart, **killed),
        run(tmp_path / "killed", 14, *apart),
    )
    assert "rank 1 resumed 6 {'of': 1}" in resumed
    assert "final" in ended and "final" not in interrupted
    assert final(resumed) == final(again) == final(unbroken)


def test_another_number_of_ranks_takes_the_samples_of_an_unbroken_run(
    tmp_path: Path, forked_ranks: ForkedRanks
) -> None:
    (whole,) = forked_ranks.train(TRAINING, 2, run(tmp_path / "whole", 12, "--tell"))
    forked_ranks.train(TRAINING, 2, run(tmp_path / "cut", 6, "--kind", "fsdp2"), run(tmp_path / "plain", 6))
    sharded, plain = forked_ranks.train(
        TRAINING,
        3,
        run(tmp_path / "cut", 12, "--kind", "fsdp2", "--tell"),
        run(tmp_path / "plain", 12, "--tell"),
    )
    expected = {step: indices for step, indices in samples(whole).items() if step > 6}
    assert samples(sharded) == samples(plain) == expected
    assert "rank 2 resumed 6 {'of': 0}" in sharded


def test_what_goes_wrong_on_one_rank_is_named_on_all(tmp_path: Path, forked_ranks: ForkedRanks) -> None:
    folder = tmp_path / "damaged"
    absent = ["--patience", "0.5", "--absent", "1"]
    _, plain, sharded = forked_ranks.train(
        TRAINING,
        2,
        run(folder, 6, "--ranks-per-host", "1", "--kind", "fsdp2"),
        run(tmp_path / "plain", 9, *absent),
        run(tmp_path / "sharded", 9, *absent, "--kind", "fsdp2"),
    )
    for printed in (plain, sharded):
        assert (
            "slipway.CheckpointError: CKPT003 rank 1 did not come to save(step=3) in 0.5 s, rank 0 did"
            in printed
        )
    # A shard that is on the second host alone is cut; then that host loses its disk.
    newest = sorted((folder / "algo-2").iterdir())[-1]
    shard = newest / "shards" / "__1_0.distcp"
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 4
    shard.write_bytes(content)
    (flipped,) = forked_ranks.train(TRAINING, 2, run(folder, 9, "--ranks-per-host", "1", "--kind", "fsdp2"))
    assert f"slipway: CKPT009 {newest.name}: shards/__1_0.distcp has another SHA-256" in flipped
    assert "rank 0 resumed 3" in flipped and "final 9" in flipped
    shutil.rmtree(folder / "algo-2")
    (lost,) = forked_ranks.train(TRAINING, 2, run(folder, 12, "--ranks-per-host", "1", "--kind", "fsdp2"))
    assert lost.count("slipway.CheckpointError: CKPT009 none of the 3 checkpoints in") == 2
    assert "rank-00001.pt and 1 more" in lost
