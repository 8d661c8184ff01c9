"""What a stop leaves of the time that SageMaker gives; real processes are stopped in test_boot."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from slipway.processes.supervise import LOST_STATUS, SWEEP_SECONDS, StopRequest, poll_end, running_below

SECONDS_TO_SIGKILL = 120.0
"""Between SIGTERM and SIGKILL (API reference, StopTrainingJob)."""


def test_after_the_grace_there_is_time_to_sweep_and_to_write_the_failure() -> None:
    sweep = 2 * SWEEP_SECONDS  # asked first, then killed
    assert StopRequest().grace + sweep < SECONDS_TO_SIGKILL


def test_the_script_has_most_of_the_time_to_save_its_checkpoint() -> None:
    assert StopRequest().grace > 0.9 * SECONDS_TO_SIGKILL


@contextlib.contextmanager
def shell(script: str) -> Iterator[tuple[int, list[int]]]:
    """A running shell and the process ids that it prints, one a line, up to `ready`."""
    process = subprocess.Popen(
        ["bash", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        yield process.pid, [int(line) for line in iter(process.stdout.readline, "ready\n")]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


IDLE = "import threading; threading.Event().wait()"
SAYS_ITSELF = f"import os; print(os.getpid(), flush=True); print('ready', flush=True); {IDLE}"
RANK = f"""
import os, subprocess, sys
loader = subprocess.Popen([sys.executable, "-c", {IDLE!r}])
print(os.getpid(), flush=True)
{IDLE}
"""
LAUNCHER = f"""
import os, subprocess, sys
for rank in "01":
    started = [sys.executable, "-c", {RANK!r}]
    child = subprocess.Popen(started, env={{**os.environ, "RANK": rank}}, stdout=subprocess.PIPE)
    print(child.stdout.readline().decode(), end="", flush=True)
print("ready", flush=True)
{IDLE}
"""


def python(program: str) -> str:
    return f"{sys.executable} -c {shlex.quote(program)}"


def test_a_stop_goes_past_the_shells_to_what_they_run() -> None:
    with shell(f"bash -c {shlex.quote(python(SAYS_ITSELF) + '; true')}; true") as (pid, running):
        assert len(running) == 1
        assert running_below(pid) == running


def test_a_stop_goes_to_the_topmost_ranks_below_what_starts_them() -> None:
    with shell(f"{python(LAUNCHER)}; true") as (pid, ranks):
        assert len(ranks) == 2
        assert sorted(running_below(pid)) == sorted(ranks)


def test_a_program_in_the_place_of_the_shell_is_stopped_itself() -> None:
    loader = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {IDLE!r}])"
    with shell(f"exec {python(f'{loader}; {SAYS_ITSELF}')}") as (pid, _):
        assert running_below(pid) == [pid]


def test_a_shell_that_runs_nothing_is_stopped_itself() -> None:
    with shell("echo ready; read -r never < /dev/fd/0") as (pid, _):
        assert running_below(pid) == [pid]


def test_a_status_that_somebody_else_had_is_not_success() -> None:
    ended = subprocess.Popen(["true"])
    os.waitpid(ended.pid, 0)
    assert poll_end(ended) == LOST_STATUS != 0


def test_an_exit_code_and_a_signal_are_as_popen_has_them() -> None:
    for script, expected in (("exit 7", 7), ("kill -9 $$", -9), ("exit 0", 0)):
        process = subprocess.Popen(["sh", "-c", script])
        while poll_end(process) is None:
            pass
        assert process.returncode == expected


def test_a_file_that_appears_asks_for_the_end_as_a_signal_does(tmp_path: Path) -> None:
    stop = StopRequest()
    stop.LOOK_SECONDS = 0.01
    watching = threading.Thread(target=stop._watch_for, args=(tmp_path / "end-0",), daemon=True)
    watching.start()
    assert stop.at is None
    (tmp_path / "end-0").touch()
    watching.join(30)
    assert (stop.signal, stop.pending) == (signal.SIGTERM, [signal.SIGTERM])
    assert stop.at is not None
