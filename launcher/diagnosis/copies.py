"""What a rank printed may lie in several streams: its host's log, a file of its own, the file of its failure.

Not all of them have its rank, or the steps that it made afterwards. What one of them shows holds for all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from launcher.diagnosis.sighting import Sighting

_Line = tuple[object, ...]


def without_copies(signs: Sequence[Sighting], survived: Iterable[Sighting]) -> list[Sighting]:
    """The signs without those of unknown rank that another stream of their host has with the rank, and those
    that a rank `survived` as another stream shows, where that stream has them no second time."""
    ranked = _streams((_of_host(sign), sign.stream) for sign in signs if sign.rank is not None)
    still = _streams((_of_rank(sign), sign.stream) for sign in signs if sign.rank is not None)
    past = _streams((_of_rank(sign), sign.stream) for sign in survived if sign.rank is not None)
    return [
        sign
        for sign in signs
        if not (
            ranked.get(_of_host(sign), set()) - {sign.stream}
            if sign.rank is None
            else past.get(_of_rank(sign), set()) - still[_of_rank(sign)]
        )
    ]


def _streams(entries: Iterable[tuple[_Line, str]]) -> dict[_Line, set[str]]:
    streams: dict[_Line, set[str]] = defaultdict(set)
    for line, stream in entries:
        streams[line].add(stream)
    return dict(streams)


def _of_host(sign: Sighting) -> _Line:
    return sign.host, sign.code, sign.text


def _of_rank(sign: Sighting) -> _Line:
    return sign.rank, sign.code, sign.text
