"""A real job of two hosts that stalls on purpose. All kinds of stalls: `make stalls`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.attack.real_ranks.stalls import CASES, run

CASE = {case.name: case for case in CASES}


@pytest.fixture(scope="module")
def stalled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a job leaves whose rank 2 calls a collective too many."""
    folder = tmp_path_factory.mktemp("stalled")
    judged = run(CASE["one collective too many"], folder)
    assert judged.wrong == "", judged
    return folder


def test_the_rank_is_named_once_and_both_hosts_end_with_it_as_their_reason(stalled: Path) -> None:
    logs = "".join((stalled / f"algo-{host}.log").read_text() for host in (1, 2))
    assert logs.count("slipway: NCCL004 ") == 1
    for host in (1, 2):
        reason = (stalled / f"algo-{host}" / "output" / "failure").read_text()
        assert reason.startswith("NCCL004 rank 2 on algo-2 called broadcast #21")
        assert "line 33, in mishap" in reason.splitlines()[-1]


def test_pytorchs_analyzer_reads_the_dumps_that_are_kept(stalled: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch.distributed.flight_recorder.fr_trace")
    dumps = sorted(stalled.glob("algo-*/output/data/slipway/algo-*/flight_recorder/rank_*"))
    assert [dump.name for dump in dumps] == ["rank_0", "rank_1", "rank_2", "rank_3"]
    for dump in dumps:
        shutil.copy(dump, tmp_path)
    # From torch 2.13 on the analyzer belongs to torch itself.
    ended = subprocess.run(
        [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert ended.returncode == 0, ended.stderr
    assert "all_reduce" in ended.stdout + ended.stderr


@pytest.mark.exhaustive
def test_a_rank_that_ends_while_the_others_train_is_the_reason_of_both_hosts(tmp_path: Path) -> None:
    folder = tmp_path / "once"
    judged = run(CASE["ended while the others train"], folder)
    if "behind the script's end" in judged.wrong:
        # Python before 3.14 may abort where threads of C++ come back to it as it ends, and is named then.
        folder = tmp_path / "again"
        judged = run(CASE["ended while the others train"], folder)
    assert judged.wrong == "", judged
    for host in (1, 2):
        reason = (folder / f"algo-{host}" / "output" / "failure").read_text()
        assert "; steps made: rank 2 20; rank" in reason
