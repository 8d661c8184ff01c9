"""`launch diagnose --log FOLDER` where the folder holds more than logs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.cli.conftest import RunLaunch
from tests.diagnosis.evidence.recorders import RECORDED


def test_a_folder_with_dumps_and_a_log_is_read(run_launch: RunLaunch, tmp_path: Path) -> None:
    shutil.copytree(RECORDED / "size", tmp_path / "algo-1")
    (tmp_path / "algo-1" / "settings.json").write_text('{"loss": "CUDA out of memory"}')
    (tmp_path / "algo-1" / "stderr.log").write_text("step 1\n")
    code, printed, _ = run_launch("diagnose", "--log", str(tmp_path), "--output", "json")
    assert code == 1
    cause = json.loads(printed)["root_cause"]
    assert (cause["code"], cause["rank"], cause["host"]) == ("NCCL004", 2, "algo-1")


def test_a_hostile_dump_is_said_to_be_unread(run_launch: RunLaunch, tmp_path: Path) -> None:
    (tmp_path / "rank_0").write_bytes(b"\x80\x02cos\nsystem\nX\x07\x00\x00\x00entries\x85R.")
    _, _, said = run_launch("diagnose", "--log", str(tmp_path))
    assert "not read" in said
    assert "plain value" in said
