"""Steps are counted by PyTorch's optimizers of any version, in the rank's own process alone."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from slipway.ranks.heartbeat import LOADED, Beat, heartbeat_file, read_beat

REPOSITORY = Path(__file__).resolve().parents[3]

SINCE_2_0 = """
hooks = []

def register_optimizer_step_post_hook(hook):
    hooks.append(hook)

class Optimizer:
    def step(self):
        for hook in hooks:
            hook(self, (), {})

class SGD(Optimizer):
    pass
"""
BEFORE_2_0 = """
class Optimizer:
    def __init__(self):
        self.made = True

    def step(self):
        raise NotImplementedError

class SGD(Optimizer):
    def step(self):
        return "stepped"
"""
"""As much of torch/optim/optimizer.py as counts, of both kinds."""

UNTIL_COUNTED = """
import os
from slipway.ranks.attendant import current_heartbeat
from torch.optim.optimizer import SGD

def steps(heartbeat=current_heartbeat()):
    return heartbeat._steps

optimizer = SGD()
while not steps():
    optimizer.step()
"""
"""The thread needs a moment: the script steps until it is counted."""


def beat_of(folder: Path, script: str, torch: str) -> Beat:
    code = folder / "code"
    (code / "torch" / "optim").mkdir(parents=True)
    (code / "torch" / "__init__.py").write_text("import torch.optim.optimizer")
    (code / "torch" / "optim" / "__init__.py").touch()
    (code / "torch" / "optim" / "optimizer.py").write_text(torch)
    (code / "train.py").write_text(UNTIL_COUNTED + textwrap.dedent(script))
    ended = subprocess.run(
        [sys.executable, "-m", "slipway.ranks.start", "--heartbeat", str(code / "train.py")],
        env={
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "SLIPWAY_STATE": str(folder / "state"),
            "RANK": "0",
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    beat = read_beat(heartbeat_file(folder / "state", 0))
    assert beat is not None
    return beat


@pytest.mark.parametrize("torch", [SINCE_2_0, BEFORE_2_0], ids=["since 2.0", "before 2.0"])
def test_every_step_is_a_beat(tmp_path: Path, torch: str) -> None:
    beat = beat_of(
        tmp_path,
        """
        before = steps()
        for _ in range(10):
            optimizer.step()
        assert steps() == before + 10
        os._exit(0)
        """,
        torch,
    )
    assert beat.steps >= 11
    assert beat.phase == LOADED
    assert beat.last > beat.started


def test_classes_that_come_later_count_too_and_each_step_once(tmp_path: Path) -> None:
    beat_of(
        tmp_path,
        """
        class Own(SGD):
            def __init__(self):
                super().__init__()

        class Other(SGD):
            def step(self):
                return "own"

        before = steps()
        Own().step()
        assert steps() == before + 1
        assert Other().step() == "own"
        assert steps() == before + 2
        """,
        BEFORE_2_0,
    )


def test_a_data_loaders_fork_does_not_beat_for_its_rank(tmp_path: Path) -> None:
    beat_of(
        tmp_path,
        """
        import slipway

        before = steps()
        child = os.fork()
        if child == 0:
            for _ in range(100):
                optimizer.step()
                slipway.progress()
            os._exit(0)
        os.waitpid(child, 0)
        from slipway.ranks.heartbeat import heartbeat_file, read_beat
        from pathlib import Path
        assert read_beat(heartbeat_file(Path(os.environ["SLIPWAY_STATE"]), 0)).steps == before
        """,
        SINCE_2_0,
    )


def test_progress_is_a_beat(tmp_path: Path) -> None:
    beat_of(
        tmp_path,
        """
        import slipway

        before = steps()
        slipway.progress()
        assert steps() == before + 1
        """,
        SINCE_2_0,
    )


def test_outside_of_a_job_progress_does_nothing() -> None:
    from slipway import progress

    progress()


def test_what_is_not_offered_is_no_attribute() -> None:
    import slipway

    assert "progress" in dir(slipway)
    with pytest.raises(AttributeError, match="no attribute 'advance'"):
        slipway.advance  # noqa: B018
