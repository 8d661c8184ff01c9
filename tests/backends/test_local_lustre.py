"""Checkpoints on the file system, in a local job: the channel is a folder that all hosts share."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from launcher.backends.interface import BackendError, JobState
from launcher.backends.local.backend import LocalBackend
from tests.backends.workplace import Workplace, channel, finish

CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))

PLACE = "/opt/ml/input/data/checkpoints/job-1"
MOUNTED = CASES["mounted"]
CHANNELS = [MOUNTED, channel("code", "s3://bucket/code")]
SCRIPT = """
    import os
    from pathlib import Path
    Path(os.environ["SLIPWAY_CHECKPOINT_DIR"], os.environ["SM_CURRENT_HOST"]).touch()
"""


def test_all_hosts_share_the_directory_without_being_given_one(
    workplace: Workplace, local: LocalBackend
) -> None:
    environment = {"SLIPWAY_CHECKPOINT_DIR": PLACE}
    local.submit(workplace.plan(SCRIPT, hosts=2, environment=environment, InputDataConfig=CHANNELS))
    status = finish(local)
    assert (status.state, status.checkpoints) == (JobState.COMPLETED, str(workplace.shared("")).rstrip("/"))
    assert sorted(file.name for file in workplace.shared("").iterdir()) == ["algo-1", "algo-2"]
    below = Path("hosts", "algo-1", "ml", *Path(PLACE).parts[3:])
    assert (workplace.home / "job-1" / below / "algo-2").exists()


def test_a_channel_that_the_user_called_so_wants_a_folder(workplace: Workplace, local: LocalBackend) -> None:
    with pytest.raises(BackendError, match="the file system path /abcdefgh/checkpoints"):
        local.submit(workplace.plan("pass", InputDataConfig=CHANNELS))
