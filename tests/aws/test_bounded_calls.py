"""Bounds that hold against silence and drips, and threads that do not outlive a command."""

from __future__ import annotations

import subprocess
import sys
from threading import Barrier, Event, current_thread

import pytest

from launcher.aws.bounded_calls import DaemonPool, bounded
from launcher.failure_modes.model import Unreachable


def test_an_answer_in_time_is_returned_and_an_error_raised() -> None:
    assert bounded(60, "ask", lambda: 42) == 42
    with pytest.raises(ValueError, match="x"):
        bounded(60, "ask", lambda: int("x"))
    # Silence ends at the bound.
    with pytest.raises(Unreachable, match=r"could not ask within 0\.01 s"):
        bounded(0.01, "ask", Event().wait)


def test_silence_does_not_keep_the_process_from_ending() -> None:
    program = (
        "from threading import Event\nfrom launcher.aws.bounded_calls import bounded\n"
        "from launcher.aws.errors import Unreachable\n"
        "try: bounded(0.01, 'ask', Event().wait)\nexcept Unreachable: print('cut')"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)

    assert (ended.returncode, ended.stdout.strip()) == (0, "cut")


def test_a_pool_works_in_as_many_threads_as_it_has() -> None:
    pool, meeting = DaemonPool(3), Barrier(3, timeout=60)

    places = [future.result(60) for future in [pool.submit(meeting.wait) for _ in range(6)]]
    assert sorted(places) == [0, 0, 1, 1, 2, 2]


def test_the_threads_of_a_pool_end_with_it() -> None:
    pool = DaemonPool(2)
    threads = {future.result(60) for future in [pool.submit(current_thread) for _ in range(2)]}
    del pool

    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
