"""A sample of `make checkpoint-kills`: two interrupted trainings on two hosts with disks of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


@pytest.mark.exhaustive
def test_interrupted_trainings_end_as_if_nobody_had() -> None:
    words = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "tools.attack.real_ranks.checkpoint_kills",
        "--kills",
        "2",
        "--steps",
        "40",
    ]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "0 wrong" in ended.stdout
