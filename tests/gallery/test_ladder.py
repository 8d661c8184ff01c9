"""`launch ladder` with torchrun and real ranks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.cli.app import main

ROOT = Path(__file__).parents[2]

GUARDED_COLLECTIVE = """
import os
from datetime import timedelta
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=2))
    value = torch.ones(1)
    if dist.get_rank() == 0:
        dist.all_reduce(value)
    print("step=1 loss=1.0", flush=True)
    dist.destroy_process_group()

main()
"""

Climb = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def climb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Climb:
    """Climb the rungs of this machine, in an empty folder; the exit code and the document."""
    monkeypatch.chdir(tmp_path)

    def climb(file: Path, *words: str) -> tuple[int, dict[str, Any]]:
        with pytest.raises(SystemExit) as ended:
            main(["ladder", str(file), "--up-to", "n-here", "--output", "json", *words])
        return int(ended.value.code or 0), json.loads(capsys.readouterr().out)

    return climb


@pytest.mark.gallery
def test_the_ddp_example_holds_here_for_an_epoch(climb: Climb) -> None:
    code, document = climb(ROOT / "examples" / "ddp" / "job.yaml")
    assert (code, document["few_steps"]) == (0, "epochs=1")
    assert [rung["result"] for rung in document["rungs"]] == ["held", "held"]
    assert [rung["processes_per_host"] for rung in document["rungs"]] == [1, 2]


@pytest.mark.gallery
def test_a_collective_that_one_rank_alone_reaches_holds_with_one_process(
    climb: Climb, write_job: Callable[..., Path], tmp_path: Path
) -> None:
    file = write_job(
        distribution={"strategy": "torchrun", "processes_per_host": 2},
        resources={"instance_type": "ml.m5.xlarge"},
        ignore=["DDP004"],  # Else the script would be refused for it before anything starts.
    )
    (tmp_path / "src" / "train.py").write_text(GUARDED_COLLECTIVE)
    code, document = climb(file)
    one, two = document["rungs"]
    assert code == 1
    assert (one["result"], two["result"]) == ("held", "broke")
    assert two["finding"]["code"].startswith("NCCL")
    assert "something between ranks" in document["verdict"]
