"""The judge of the campaign of data, numbers and memory: what it calls wrong."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tools.attack.real_ranks.numbers import CASES, Judge, checkpoints_in, equal_on_all_ranks

LOADERS = (
    "sequential", "shuffled", "slice", "weighted", "random subset", "batch sampler",
    "distributed sampler over files of its own", "drop_last", "workers", "iterable",
    "iterable with workers", "list", "even already",
)  # fmt: skip


def judge_of(name: str) -> Judge:
    return next(case.judge for case in CASES if case.name == name)


def said(steps: dict[str, int], otherwise: int) -> list[str]:
    return [
        f"{name}: epoch {epoch}: rank {rank}: {steps.get(name, otherwise)} of 9"
        for name in LOADERS
        for epoch in range(2)
        for rank in range(4)
    ]


def test_ranks_that_end_with_other_weights_or_not_at_all_are_wrong() -> None:
    assert equal_on_all_ranks(["trained a"] * 4) == ""
    assert equal_on_all_ranks(["trained a"] * 3)
    assert equal_on_all_ranks(["trained a"] * 3 + ["trained b"])


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("uneven loaders, padded", said({"drop_last": 6, "even already": 7}, 8)),
        ("uneven loaders, cut", said({"drop_last": 1, "even already": 7}, 2)),
    ],
)
def test_a_rank_with_another_number_of_steps_is_wrong(name: str, right: list[str]) -> None:
    judge = judge_of(name)
    assert judge(right) == ""
    assert judge([line.replace("rank 3: 7", "rank 3: 6") for line in right])
    assert judge(right[:-8])


def test_a_file_that_is_not_what_its_manifest_says_is_wrong(tmp_path: Path) -> None:
    folder = tmp_path / "algo-1" / "checkpoints" / "step-000000000003-0a1b2c3d"
    folder.mkdir(parents=True)
    (folder / "model.pt").write_bytes(b"weights")
    file = {
        "name": "model.pt",
        "bytes": 7,
        "sha256": hashlib.sha256(b"weights").hexdigest(),
        "host": "algo-1",
    }
    (folder / "manifest.json").write_text(json.dumps({"step": 3, "files": [file]}))
    assert checkpoints_in(tmp_path) == (3, [])
    (folder / "model.pt").write_bytes(b"weighty")
    assert len(checkpoints_in(tmp_path)[1]) == 1
