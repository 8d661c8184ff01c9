"""The thread beside a script: it answers the boot, beats in a file, and counts PyTorch's steps alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import types
from pathlib import Path
from typing import Any

import pytest

from slipway.ranks import attendant
from slipway.ranks.attendant import (
    LOADED,
    STARTED,
    Beat,
    Heartbeat,
    answer_file,
    heartbeat_file,
    question_file,
    read_beat,
)

REPOSITORY = Path(__file__).resolve().parents[3]
PATIENCE_SECONDS = 120.0

ASKED_AT_ITS_END = """
    import os, pickle, sys, threading, types

    def dump(*chosen):
        dumping.set()
        # Comes back only once the script has ended, as PyTorch may.
        while threading.main_thread().is_alive():
            pass
        return pickle.dumps({"entries": []})

    dumping = threading.Event()
    recorder = types.ModuleType("torch._C._distributed_c10d")
    recorder._dump_fr_trace = dump
    sys.modules[recorder.__name__] = recorder
    question = os.open(sys.argv[1], os.O_WRONLY)
    os.write(question, b"1 1\\n")
    dumping.wait()
"""


GROUP_LEFT = """
    import sys, threading, types

    class world:
        pg_names = {"the group": "0"}
        pg_group_ranks = {"the group": {0: 0}}

    groups = types.ModuleType("torch.distributed.distributed_c10d")
    groups._world = world
    sys.modules[groups.__name__] = groups

    def finish():
        # Comes back only once the script has ended, as the thread of a collective may.
        while threading.main_thread().is_alive():
            pass
        print("came to its end", flush=True)

    threading.Thread(target=finish, daemon=True).start()
"""


def run_rank(folder: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(textwrap.dedent(script))
    return subprocess.run(
        [
            *(sys.executable, "-m", "slipway.ranks.start", "--heartbeat"),
            *(str(folder / "train.py"), *arguments),
        ],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "SLIPWAY_STATE": str(folder / "state"),
            "RANK": "3",
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


def test_an_answer_under_way_is_ended_before_the_interpreter_is(tmp_path: Path) -> None:
    file = heartbeat_file(tmp_path / "state", 3)
    process = run_rank(tmp_path, ASKED_AT_ITS_END, str(question_file(file)))
    assert (process.returncode, process.stderr) == (0, "")
    assert json.loads(answer_file(file).read_text())["number"] == 1


def test_threads_of_groups_that_a_script_leaves_come_to_their_end_before_the_interpreter_does(
    tmp_path: Path,
) -> None:
    process = run_rank(tmp_path, GROUP_LEFT)
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout == "came to its end\n"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(attendant.time, "monotonic", lambda: now[0])
    return now


def test_the_boot_reads_what_the_rank_wrote(tmp_path: Path, clock: list[float]) -> None:
    file = heartbeat_file(tmp_path, 5)
    rank = Heartbeat(file, signal=45)
    beat = read_beat(file)
    assert beat is not None
    assert (beat.pid, beat.signal, beat.phase, beat.started) == (os.getpid(), 45, STARTED, 100.0)
    assert (beat.steps, beat.last) == (0, 0.0)
    rank.enter(LOADED)
    for clock[0] in (110.0, 112.0, 119.0, 120.0):
        rank.beat()
    beat = read_beat(file)
    assert beat is not None
    assert (beat.phase, beat.steps, beat.last) == (LOADED, 4, 120.0)
    assert beat.longest == 7.0, "from the start to the first step is no pause between steps"


def test_it_tells_the_size_of_the_default_group_at_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group: Any = types.SimpleNamespace(is_initialized=lambda: True, get_world_size=lambda: 2)
    monkeypatch.setitem(sys.modules, "torch.distributed.distributed_c10d", group)
    rank = Heartbeat(tmp_path / "0")
    rank.beat()
    group.is_initialized = lambda: False
    rank.beat()
    beat = read_beat(tmp_path / "0")
    assert beat is not None and (beat.group, beat.steps) == (2, 2)
    Heartbeat(tmp_path / "1").beat()
    beat = read_beat(tmp_path / "1")
    assert beat is not None and (beat.group, beat.steps) == (0, 1)


@pytest.mark.parametrize("content", [b"", b"slipway1", b"x" * 4096])
def test_another_file_is_no_heartbeat(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "0").write_bytes(content)
    assert read_beat(tmp_path / "0") is None
    assert read_beat(tmp_path / "1") is None


def test_who_is_silenced_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    rank = Heartbeat(tmp_path / "0")
    rank.beat()
    rank.silence()
    rank.beat()
    beat = read_beat(tmp_path / "0")
    assert beat is not None and beat.steps == 1


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
        from slipway.ranks.attendant import heartbeat_file, read_beat
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


def test_a_rank_whose_script_failed_answers_where_that_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise RuntimeError

    monkeypatch.setattr(attendant, "_failed_in", None)
    try:
        fails()
    except RuntimeError as error:
        attendant.note_failure(error.__traceback__)
    found = attendant._stack_of_failure(attendant._failed_in)
    names = [frame[2] for frame in found]
    assert names == ["test_a_rank_whose_script_failed_answers_where_that_was", "fails"]
    threads = attendant._threads()
    assert all((each["frames"] == found) is each["main"] for each in threads)
