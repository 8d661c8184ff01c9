"""When a job stands still: from what all hosts say of their ranks' heartbeats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from slipway.ranks.heartbeat import ENDED, STARTED, Beat

SHORTEST_STALL = 60.0
"""Seconds without a step that are no stall by themselves: a checkpoint or a slow file may take as long."""

PAUSES = 5.0
"""So many times the longest pause between two steps so far is one, where that is longer."""


@dataclass(frozen=True)
class StallLimits:
    """Seconds. `stall` replaces what is derived from the pauses; None leaves it."""

    stall: float | None
    first_step: float

    def without_step(self, longest_pause: float) -> float:
        """How long no rank of the job may make a step, once one did."""
        return self.stall if self.stall is not None else max(SHORTEST_STALL, PAUSES * longest_pause)


@dataclass(frozen=True)
class Pulse:
    """What a host says of its ranks, in seconds: since the last step of any (None before the first), since
    they began, and the longest pause. `watched` ranks have loaded PyTorch, and have not ended."""

    since: float | None
    begun: float
    longest: float
    watched: int


def pulse_of(beats: Iterable[Beat], now: float) -> Pulse:
    """The pulse of a host by its ranks' heartbeats; `now` is the monotonic clock's."""
    listed = list(beats)
    stepped = [now - beat.last for beat in listed if beat.steps]
    return Pulse(
        since=min(stepped, default=None),
        begun=min((now - beat.started for beat in listed), default=0.0),
        longest=max((beat.longest for beat in listed), default=0.0),
        watched=sum(beat.phase not in (STARTED, ENDED) for beat in listed),
    )


@dataclass(frozen=True)
class Standstill:
    """For how many seconds no rank of the job made a step, the limit, and whether any made one before."""

    seconds: float
    limit: float
    stepped: bool

    @property
    def over(self) -> bool:
        """Whether it is a stall."""
        return self.seconds > self.limit

    def __str__(self) -> str:
        done = "has made a step" if self.stepped else "has made its first step"
        return f"no rank {done} for {self.seconds:.0f} s (limit {self.limit:.0f} s)"


class Pulses:
    """The pulses of all hosts, aged by how long ago each was heard: a host that says nothing gets older."""

    def __init__(self, limits: StallLimits) -> None:
        self._limits = limits
        self._heard: dict[str, tuple[Any, float]] = {}

    def hear(self, said: Mapping[str, Any], now: float) -> None:
        """Take what was read of the hosts at this moment: of each a pulse as a list of its fields, and a
        number that changes with each."""
        for host, value in said.items():
            if host not in self._heard or self._heard[host][0] != value:
                self._heard[host] = (value, now)

    def standstill(self, now: float) -> Standstill | None:
        """How the job stands; None as long as no rank can be watched."""
        known = [(Pulse(*value[1:]), now - heard) for value, heard in self._heard.values()]
        if not any(pulse.watched for pulse, _ in known):
            return None
        stepped = [pulse.since + age for pulse, age in known if pulse.since is not None]
        if not stepped:
            begun = min(pulse.begun + age for pulse, age in known)
            return Standstill(begun, self._limits.first_step, False)
        longest = max(pulse.longest for pulse, _ in known)
        return Standstill(min(stepped), self._limits.without_step(longest), True)
