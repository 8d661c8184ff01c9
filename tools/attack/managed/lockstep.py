"""Work in threads of which one goes on at a time, from one call of AWS to the next: a caller says which."""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition, Thread
from typing import Any, Protocol

from tests.emulator.stepped_clients import Call, Step

_LONGEST_SECONDS = 120.0


class Killed(BaseException):
    """The process is gone: nothing in it goes on."""


class Caller(Protocol):
    """Who makes calls, each of which passes through `step`."""

    step: Step


class Worker:
    """Some work that stops before each call that its caller makes, until it is told to go on.

    `meets` is what becomes of a call; where it raises Killed, the work makes no other one. `error` is what
    ended the work, None where it came to its end or goes on.
    """

    def __init__(self, caller: Caller, work: Callable[[], None], meets: Step) -> None:
        self.ended = False
        self.error: BaseException | None = None
        self._caller, self._work, self._meets = caller, work, meets
        self._changed = Condition()
        self._waiting = self._active = self._turns = 0
        self._killed = False

    def start(self) -> None:
        """Go to the first call, or to the end."""
        self._caller.step = self._step
        Thread(target=self._run, daemon=True).start()
        self._until_it_waits()

    def go_on(self) -> None:
        """Make the call that waits, and go to the next one, or to the end."""
        with self._changed:
            self._turns += 1
            self._changed.notify_all()
        self._until_it_waits()

    def _until_it_waits(self) -> None:
        with self._changed:
            settled = self._changed.wait_for(
                lambda: self.ended or (self._waiting and not self._turns and not self._active),
                _LONGEST_SECONDS,
            )
        if not settled:
            raise TimeoutError("a worker of the attack neither makes a call nor ends")

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # Whoever looks at the worker takes it up.
            self.error = error
        finally:
            with self._changed:
                self.ended = True
                self._changed.notify_all()

    def _step(self, call: Call) -> Any:
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._turns or self._killed)
            self._waiting -= 1
            if self._killed:
                raise Killed
            self._turns -= 1
            self._active += 1
        try:
            return self._meets(call)
        except Killed:
            self._killed = True
            raise
        finally:
            with self._changed:
                self._active -= 1
                self._changed.notify_all()
