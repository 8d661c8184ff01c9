"""Time that passes without waiting: each thread has a clock, which goes on where it would have slept.

A message from one thread to another carries the time at which it was sent, and whoever waits with a bound
gives up where that time is beyond it. So a bound of fifty seconds is tried in milliseconds, with the
product's own code around it.
"""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import botocore.endpoint
import botocore.retries.bucket

import launcher.account.questions.ask as asking
import launcher.aws.bounded_calls as bounded
import launcher.backends.sagemaker.logs as log_streams
import launcher.session.account_checks as live
import launcher.session.runs.follow_job as run

OUTAGE_SECONDS = 1800.0
"""For which followers wait here; half a day, as they do else, would only be more of the same."""

RENEWAL_SECONDS = 600.0
"""For which they wait for new credentials."""

_REAL_LIMIT = 120.0
"""Seconds after which a thread that says nothing counts as hanging in earnest."""


class VirtualClock:
    """The seconds that have passed for the thread that asks; `furthest` is the latest of all threads."""

    def __init__(self) -> None:
        self.furthest = 0.0
        self._threads = threading.local()
        self._main = 0.0
        self._main_thread = threading.main_thread()

    def now(self) -> float:
        """The time of this thread; one that nobody has told begins where the main thread is."""
        return float(getattr(self._threads, "now", self._main))

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.move_to(self.now() + max(0.0, seconds))

    def begin_at(self, time: float) -> None:
        """Take up work that came at this time."""
        self._threads.now = time

    def move_to(self, time: float) -> None:
        """Go on at this time, unless it is past already."""
        self._threads.now = max(self.now(), time)
        self.furthest = max(self.furthest, self._threads.now)
        if threading.current_thread() is self._main_thread:
            self._main = self._threads.now


def virtual_time(clock: VirtualClock) -> ExitStack:
    """Have all that the launcher waits for pass on this clock, until the stack is closed."""
    stack = ExitStack()
    for place, name, value in (
        (botocore.endpoint, "time", SimpleNamespace(sleep=clock.sleep)),
        (botocore.retries.bucket, "time", SimpleNamespace(time=lambda: clock.furthest)),
        (botocore.retries.bucket, "threading", _throttle_of(clock)),
        (bounded, "Future", partial(_Future, clock)),
        (asking, "monotonic", clock.now),
        (asking, "SimpleQueue", partial(_Inbox, clock)),
        (asking, "Thread", partial(_Asker, clock)),
        (run, "Pace", partial(run.Pace, sleep=clock.sleep, outage=OUTAGE_SECONDS, renewal=RENEWAL_SECONDS)),
    ):
        stack.enter_context(mock.patch.object(place, name, value))
    for function, arguments in (
        (log_streams.LogStreams.__init__, {"clock": clock.now}),
        (live.wait_for_file_system, {"clock": clock.now, "pause": clock.sleep}),
    ):
        stack.enter_context(mock.patch.dict(function.__kwdefaults__, arguments))  # type: ignore[attr-defined]
    return stack


class _Future(Future[Any]):
    """A future whose answer is late where it came after the bound of who waits for it."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock
        self._submitted = clock.now()
        self._ended = 0.0
        self._late = False

    def set_running_or_notify_cancel(self) -> bool:
        # A thread that has ended its last task in no time stands for one that was free.
        self._clock.begin_at(self._submitted)
        return super().set_running_or_notify_cancel()

    def set_result(self, result: Any) -> None:
        self._ended = self._clock.now()
        super().set_result(result)

    def set_exception(self, exception: BaseException | None) -> None:
        self._ended = self._clock.now()
        super().set_exception(exception)

    def done(self) -> bool:
        return not self._late and super().done()

    def result(self, timeout: float | None = None) -> Any:
        super().exception(_REAL_LIMIT)
        if timeout is not None and self._ended > self._clock.now() + timeout:
            self._clock.sleep(timeout)
            self._late = True
            raise TimeoutError
        self._clock.move_to(self._ended)
        return super().result()


class _Inbox:
    """A queue that hands over in the order of the clocks, once all who will put something in have."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._come: queue.SimpleQueue[tuple[float, Any]] = queue.SimpleQueue()
        self._sorted: list[tuple[float, Any]] = []
        self.expected = 0

    def put(self, item: Any) -> None:
        self._come.put((self._clock.now(), item))

    def get(self, timeout: float) -> Any:
        while self.expected:
            self._sorted.append(self._come.get(timeout=_REAL_LIMIT))
            self.expected -= 1
        self._sorted.sort(key=lambda item: item[0])
        if not self._sorted or self._sorted[0][0] > self._clock.now() + timeout:
            self._clock.sleep(timeout)
            raise queue.Empty
        time, item = self._sorted.pop(0)
        self._clock.move_to(time)
        return item


class _Asker(threading.Thread):
    """The thread of a question, which puts its answer into the inbox that is its last argument."""

    def __init__(self, clock: VirtualClock, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._clock = clock
        self._asked = clock.now()
        arguments["args"][-1].expected += 1

    def run(self) -> None:
        self._clock.move_to(self._asked)
        super().run()


def _throttle_of(clock: VirtualClock) -> SimpleNamespace:
    """The locks of botocore's client-side throttling, of which the condition waits on the clock.

    Threads share what they may still ask, so its time is that of the latest of them, and never goes back.
    """

    class Condition(threading.Condition):
        def wait(self, timeout: float | None = None) -> bool:
            # The least step that a clock can tell: what is left may be too small to be added.
            clock.move_to(clock.furthest + max(timeout or 0.0, 0.001))
            return False

    return SimpleNamespace(Lock=threading.Lock, Condition=Condition)
