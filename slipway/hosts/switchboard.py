"""What the hosts have said, kept by the first host's boot.

A topic holds one value a host. Values are whatever JSON can hold.
"""

from __future__ import annotations

import threading
import time
import typing
from collections.abc import Callable, Sequence
from typing import Any

# Those of collections.abc have no brackets before Python 3.9.
Answers = typing.Mapping[str, Any]
"""A value by the name of the host that said it."""


class Switchboard:
    """Takes what hosts say and answers them; called by as many threads as there are questions."""

    def __init__(self, hosts: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._hosts = tuple(hosts)
        self._clock = clock
        self._said: dict[str, dict[str, Any]] = {}
        self._closed: dict[str, dict[str, Any]] = {}
        self._ends: dict[str, float] = {}
        self._changed = threading.Condition()

    def post(self, topic: str, host: str, value: Any) -> None:
        """Keep what a host says under a topic, in place of what it said there before."""
        with self._changed:
            self._said.setdefault(topic, {})[self._known(host)] = value
            self._changed.notify_all()

    def read(self, topic: str) -> Answers:
        """What each host said last under a topic, at this moment."""
        with self._changed:
            return dict(self._said.get(topic, {}))

    def exchange(self, topic: str, host: str, value: Any, seconds: float) -> Answers:
        """Say something and wait for what the others say, all getting the same answers.

        It ends when all hosts have spoken, or so many seconds after the first of them did. Who comes later
        gets the answers of those who were in time, without its own.
        """
        with self._changed:
            if topic not in self._closed:
                self._said.setdefault(topic, {})[self._known(host)] = value
                self._ends.setdefault(topic, self._clock() + seconds)
                self._changed.notify_all()
            while topic not in self._closed:
                left = self._ends[topic] - self._clock()
                if left <= 0 or len(self._said[topic]) == len(self._hosts):
                    self._closed[topic] = dict(self._said[topic])
                    self._changed.notify_all()
                else:
                    self._changed.wait(left)
            return dict(self._closed[topic])

    def decide(self, topic: str, host: str, value: Any) -> Any:
        """The value of whoever asked first under a topic, the same for all who ask."""
        with self._changed:
            first = self._said.setdefault(topic, {})
            if not first:
                first[self._known(host)] = value
            return next(iter(first.values()))

    def _known(self, host: str) -> str:
        """Raises ValueError for a name that no host of this job has."""
        if host not in self._hosts:
            raise ValueError(f"{host!r} is not one of this job's hosts")
        return host
