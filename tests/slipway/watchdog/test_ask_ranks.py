"""Ranks that are asked where they are: scripts of real processes, without PyTorch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slipway.ranks.attendant import Beat, answer_file, answer_question, stacks_file
from slipway.watchdog.ask_ranks import (
    NcclPipes,
    Ranks,
    handles_signal,
    process_state,
    stacks_by_signal,
    stacks_in,
)
from slipway.watchdog.rank_views import GONE, RankView

REPOSITORY = Path(__file__).resolve().parents[3]
PATIENCE_SECONDS = 60.0

Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start rank 0 with a script, up to its first line of output."""
    started = []

    def begin(script: str) -> subprocess.Popen[str]:
        (tmp_path / "code").mkdir()
        file = tmp_path / "code" / "train.py"
        file.write_text(textwrap.dedent(script))
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "slipway.ranks.start", "--heartbeat", str(file)],
            env={
                **os.environ,
                "PYTHONPATH": str(REPOSITORY),
                "SLIPWAY_STATE": str(tmp_path / "state"),
                "RANK": "0",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return Ranks(tmp_path / "state", [0], "algo-1", tmp_path / "code")


def the_one(views: list[RankView]) -> RankView:
    (view,) = views
    return view


def state_becomes(pid: int, state: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while process_state(pid) != state:
        assert time.monotonic() < deadline, "waited in vain"


def test_a_rank_that_waits_says_where(start: Start, ranks: Ranks) -> None:
    start(
        """
        import sys

        def train():
            print("ready")
            sys.stdin.read()

        train()
        """
    )
    view = the_one(ranks.look(PATIENCE_SECONDS))
    assert (view.answered, view.recorded, view.state) == (True, False, "S")
    assert [line.function for line in view.lines] == ["<module>", "train"]
    assert str(view.lines[0]) == "train.py:8"


def test_a_rank_in_an_endless_loop_says_where_and_is_asked_again(start: Start, ranks: Ranks) -> None:
    start("def spin():\n    print('ready')\n    while True:\n        pass\nspin()")
    for _ in range(2):
        view = the_one(ranks.look(PATIENCE_SECONDS))
        assert view.answered
        assert view.lines[-1].function == "spin"


def test_a_stopped_rank_is_seen_and_not_disturbed(start: Start, ranks: Ranks) -> None:
    process = start("import sys\nprint('ready')\nsys.stdin.read()")
    process.send_signal(signal.SIGSTOP)
    state_becomes(process.pid, "T")
    view = the_one(ranks.look(PATIENCE_SECONDS))
    assert (view.answered, view.state) == (False, "T")
    assert ranks.with_stacks([view]) == [view]


def test_a_rank_that_has_ended_is_gone(start: Start, ranks: Ranks) -> None:
    process = start("print('ready')")
    process.wait(PATIENCE_SECONDS)
    view = the_one(ranks.look(PATIENCE_SECONDS))
    assert (view.state, view.ended) == (GONE, True)


@pytest.mark.skipif(not hasattr(signal, "SIGRTMIN"), reason="real-time signals are Linux's")
def test_where_c_keeps_the_interpreters_lock_a_signal_brings_the_line_to_light(
    start: Start, ranks: Ranks, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A rank that began to answer before C took the lock never ends its answer.
    monkeypatch.setattr("slipway.watchdog.ask_ranks.LONGEST_ANSWER_SECONDS", 1.0)
    start("import ctypes\nprint('ready')\nctypes.PyDLL(None).pause()")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (view := the_one(ranks.look(0.3))).answered:
        assert time.monotonic() < deadline, "it never kept the lock"
    (shown,) = ranks.with_stacks([view])
    assert [str(line) for line in shown.lines] == ["train.py:3"]


def test_the_scripts_own_signals_still_reach_its_main_thread(start: Start) -> None:
    process = start(
        """
        import signal
        signal.signal(signal.SIGTERM, lambda *_: exit(7))
        print("ready")
        while True:
            signal.pause()
        """
    )
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_SECONDS) == 7


WAITS = """
import os, signal, sys
sys.path.insert(0, {folder!r})
from torch.distributed import distributed_c10d

def train():
    {wait}

train()
"""
BARRIER = """
import os, signal, sys

def barrier():
    print("ready")
    sys.stdin.read()

def lost():
    sys.__excepthook__ = lambda *_: print("ready")
    raise RuntimeError("Connection closed by peer")

def terminated():
    os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.fixture
def libraries(tmp_path: Path) -> str:
    """A folder with what stands for PyTorch's collectives."""
    folder = tmp_path / "libraries" / "torch" / "distributed"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder.parent / "__init__.py").touch()
    (folder / "distributed_c10d.py").write_text(BARRIER)
    return str(tmp_path / "libraries")


def test_a_rank_that_is_ended_while_it_waits_has_left_word_where(
    start: Start, ranks: Ranks, libraries: str
) -> None:
    process = start(WAITS.format(folder=libraries, wait="distributed_c10d.barrier()"))
    process.terminate()
    assert process.wait(PATIENCE_SECONDS) == -signal.SIGTERM
    view = the_one(ranks.ended_while_waiting())
    assert (view.failed, view.waits_by_stack, [str(line) for line in view.lines]) == (
        True,
        True,
        ["train.py:9", "train.py:7"],
    )


def test_so_has_one_that_lost_its_peer_and_nobody_asked(start: Start, ranks: Ranks, libraries: str) -> None:
    process = start(WAITS.format(folder=libraries, wait="distributed_c10d.lost()"))
    process.terminate()
    process.wait(PATIENCE_SECONDS)
    assert [str(line) for line in the_one(ranks.ended_while_waiting()).lines] == ["train.py:9", "train.py:7"]


@pytest.mark.parametrize(
    "wait",
    [
        'print("ready"); sys.stdin.read()',
        "signal.signal(signal.SIGTERM, lambda *_: os._exit(0)); distributed_c10d.barrier()",
    ],
    ids=["works", "has a handler of its own"],
)
def test_who_does_not_wait_or_ends_by_itself_has_not(
    start: Start, ranks: Ranks, libraries: str, wait: str
) -> None:
    process = start(WAITS.format(folder=libraries, wait=wait))
    process.terminate()
    process.wait(PATIENCE_SECONDS)
    assert ranks.ended_while_waiting() == []


def test_nor_has_a_fork_of_a_rank(start: Start, ranks: Ranks, libraries: str) -> None:
    forks = "child = os.fork(); child or distributed_c10d.terminated(); os.waitpid(child, 0); print('ready')"
    process = start(WAITS.format(folder=libraries, wait=forks))
    process.wait(PATIENCE_SECONDS)
    assert ranks.ended_while_waiting() == []


def test_a_process_without_the_handler_is_never_sent_the_signal(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        number = int(signal.SIGRTMIN) + 11
        assert not handles_signal(process.pid, number)
        assert stacks_by_signal({tmp_path / "0.stacks": Beat(process.pid, number, 1, 0, 0, 0, 0, 0, 0)}) == {}
        assert process.poll() is None
        process.kill()


def test_what_an_earlier_start_left_is_removed(tmp_path: Path, ranks: Ranks) -> None:
    (tmp_path / "state" / "ranks").mkdir(parents=True)
    for file in (tmp_path / "state" / "ranks" / "0", answer_file(tmp_path / "state" / "ranks" / "0")):
        file.write_bytes(b"old")
    ranks.forget()
    assert list((tmp_path / "state" / "ranks").iterdir()) == []
    assert ranks.look(0) == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"number": 1}', b'{"number": 1, "groups": 3}'])
def test_a_broken_answer_is_none_or_tells_nothing(
    start: Start, ranks: Ranks, tmp_path: Path, content: bytes
) -> None:
    process = start("import sys\nprint('ready')\nsys.stdin.read()")
    process.send_signal(signal.SIGSTOP)
    state_becomes(process.pid, "T")
    answer_file(tmp_path / "state" / "ranks" / "0").write_bytes(content)
    assert the_one(ranks.look(0)).lines == ()


def test_faulthandlers_stacks_are_read_from_the_outermost_frame_on() -> None:
    text = b"""Thread 0x00007f (most recent call first):
  File "/lib/threading.py", line 10 in wait

Current thread 0x00007e (most recent call first):
  File "/code/train.py", line 3 in step
  File "/code/train.py", line 9 in <module>
"""
    assert [[(f.number, f.function) for f in stack] for stack in stacks_in(text)] == [
        [(10, "wait")],
        [(9, "<module>"), (3, "step")],
    ]


def test_an_answer_holds_the_main_threads_stack_first(tmp_path: Path) -> None:
    attendant = threading.Thread(target=answer_question, args=(tmp_path / "0", 7, True))
    attendant.start()
    attendant.join(PATIENCE_SECONDS)
    text = answer_file(tmp_path / "0").read_text()
    assert text.startswith('{"number": 7, ')
    assert "test_an_answer_holds_the_main_threads_stack_first" in text
    assert not stacks_file(tmp_path / "0").exists()


def test_nccls_recorder_is_asked_by_its_pipe_and_read_once_it_has_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe_3.pipe")
    reader = os.open(tmp_path / "pipe_3.pipe", os.O_RDWR)
    (tmp_path / "dump_3").write_bytes(b"of an earlier time.")
    os.utime(tmp_path / "dump_3", (1, 1))

    def as_pytorchs_own_thread_does() -> None:
        if os.read(reader, 10):
            (tmp_path / "dump_3").write_bytes(b"new.")

    recorder = threading.Thread(target=as_pytorchs_own_thread_does)
    recorder.start()
    pipes = NcclPipes(str(tmp_path / "pipe_"), str(tmp_path / "dump_"))
    assert pipes.ask([3, 4]) == {3: b"new."}
    recorder.join(PATIENCE_SECONDS)
    os.close(reader)
