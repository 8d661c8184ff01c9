"""A sample of `make checkpoint-kills`: two interrupted trainings on two hosts with disks of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tools import ROOT


@pytest.mark.exhaustive
def test_interrupted_trainings_end_as_if_nobody_had() -> None:
    module = "tools.attack.real_ranks.checkpoint_kills"
    words = ["-W", "ignore", "-m", module, "--kills", "2", "--steps", "40"]
    ended = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "0 wrong" in ended.stdout
