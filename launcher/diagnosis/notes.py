"""The signs noted so far in each stream: which are of its last incident, and which were survived."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from launcher.diagnosis.progress import Moment
from launcher.diagnosis.sighting import Sighting
from launcher.failure_modes import interruption

COMES_DOWN = 500
"""Lines of a stream after the end of a process, more than the others print until they end as well, and what
Python had in its buffer for standard output, which comes after the traceback."""

_MOST = 20_000
"""Each row counts once for each rank of each host; ranks beyond this many in all are not noted."""

_MOST_HISTORY = 1_000


@dataclass(frozen=True, slots=True)
class Survived:
    """A sign after which the job went on; `restarted` where its ranks were started again, else they made
    further steps."""

    sign: Sighting
    restarted: bool


class Notes:
    """The first of each kind of sign by host and rank, of the last incident of every stream."""

    def __init__(self) -> None:
        self._noted: dict[str, dict[tuple[object, str | None, int | None, int | None], Sighting]] = {}
        self._count = 0
        self.given: set[object] = set()
        """The kinds of the signs that were given since somebody cleared it."""
        self.refused = False
        """Whether there was no room for one of them."""
        self._history: dict[tuple[object, ...], Survived] = {}

    def note(self, kind: object, sighting: Sighting) -> bool:
        """Note a sign of its stream unless this kind of host and rank was noted; whether it was new."""
        self.given.add(kind)
        noted = self._noted.setdefault(sighting.stream, {})
        key = (kind, sighting.host, sighting.rank, sighting.local_rank)
        if key in noted:
            return False
        if self._count >= _MOST:
            self.refused = True
            return False
        noted[key] = sighting
        self._count += 1
        return True

    def repeats(
        self, kind: object, stream: str, host: str | None, rank: int | None, local_rank: int | None
    ) -> bool:
        """Whether a sign of this kind was noted of them, so that another one need not be made to be given."""
        if (kind, host, rank, local_rank) not in self._noted.get(stream, {}):
            return False
        self.given.add(kind)
        return True

    def forget(self, stream: str) -> None:
        """What this stream showed is told elsewhere."""
        self._count -= len(self._noted.pop(stream, {}))

    def started_again(self, stream: str) -> None:
        """All that this stream showed is of an earlier start."""
        for (kind, *_), sign in self._noted.get(stream, {}).items():
            self._keep(kind, Survived(sign, restarted=True))
        self.forget(stream)

    def went_on(self, stream: str, since: Moment) -> bool:
        """What this stream showed before that moment was survived; whether more may have been since."""
        noted = self._noted.get(stream, {})
        survived = [key for key, sign in noted.items() if self._was_survived(sign, since)]
        for key in survived:
            self._keep(key[0], Survived(noted.pop(key), restarted=False))
            self._count -= 1
        return any(sign.role.may_be_root for sign in noted.values())

    def _was_survived(self, sign: Sighting, since: Moment) -> bool:
        if not sign.role.may_be_root or sign.index >= since.index:
            return False
        if sign.mode is interruption.STOPPED:
            # Ranks make steps until the signal reaches them, and some until its grace is over.
            return since.index - sign.index > COMES_DOWN
        if not sign.fatal or since.index - sign.index > COMES_DOWN:
            return True
        # Once torchrun has seen the end of a process it ends all of its host: who makes steps after that
        # was started anew.
        others = self._noted[sign.stream].values()
        return any("exit" in each.captured and sign.index < each.index < since.index for each in others)

    def _keep(self, kind: object, survived: Survived) -> None:
        if not survived.sign.role.may_be_root:
            return
        sign = survived.sign
        key = (kind, sign.stream, sign.host, sign.rank, sign.local_rank)
        if key in self._history or len(self._history) < _MOST_HISTORY:
            self._history[key] = survived  # the last one of its kind

    @property
    def sightings(self) -> list[Sighting]:
        """The signs of the last incident of each stream."""
        return list(self._all())

    @property
    def history(self) -> list[Survived]:
        """The last of each kind of sign that was survived."""
        return list(self._history.values())

    def _all(self) -> Iterator[Sighting]:
        for noted in self._noted.values():
            yield from noted.values()
