"""What the hosts tell each other of their checkpoints: how far each is, and what the first one wants next."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from slipway.hosts.wire import FirstHostSilent

_SAID, _LED = "checkpoints/said", "checkpoints/led"
_SILENCE_SECONDS = 60.0
"""So long a first host that did not answer is not asked again: each question waits for it by itself."""


class Hosts(Protocol):
    """The part of an Assembly that this needs."""

    @property
    def current(self) -> str:
        """This host's name."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts of the job."""

    @property
    def is_first(self) -> bool:
        """Whether this host is the one that answers."""

    def post(self, topic: str, value: Any) -> None:
        """Raises FirstHostSilent."""

    def read(self, topic: str) -> Mapping[str, Any]:
        """Raises FirstHostSilent."""


class Talk:
    """This host's part of it. `silent` is set where the first host did not answer."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._not_before = 0.0
        self.silent: FirstHostSilent | None = None

    def say(self, value: Mapping[str, Any]) -> bool:
        """Tell how far this host is; whether it was heard."""
        return self._heard(_SAID, value)

    def said(self) -> dict[str, Any]:
        """How far each host is, by its name in manifests."""
        return {manifest_name(host): told for host, told in self._read(_SAID).items()}

    def lead(self, value: Mapping[str, Any]) -> None:
        """On the first host: tell what is wanted next, and what was withdrawn."""
        self._heard(_LED, value)

    def led(self) -> dict[str, Any]:
        """What the first host has told; empty before it did."""
        return dict(next(iter(self._read(_LED).values()), {}))

    def _heard(self, topic: str, value: Mapping[str, Any]) -> bool:
        if time.monotonic() < self._not_before:
            return False
        try:
            self._hosts.post(topic, value)
        except FirstHostSilent as silent:
            self._note(silent)
            return False
        return True

    def _read(self, topic: str) -> Mapping[str, Any]:
        if time.monotonic() < self._not_before:
            return {}
        try:
            return self._hosts.read(topic)
        except FirstHostSilent as silent:
            self._note(silent)
            return {}

    def _note(self, silent: FirstHostSilent) -> None:
        self.silent = silent
        self._not_before = time.monotonic() + _SILENCE_SECONDS


def manifest_name(host: str) -> str:
    """A host's name as manifests have it (slipway/checkpoints/manager.py)."""
    return "".join(one if one.isascii() and (one.isalnum() or one in ".-") else "-" for one in host)[:253]
