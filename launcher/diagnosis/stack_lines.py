"""Stacks that ranks print into their logs: faulthandler's at a signal or a timeout, and `py-spy dump`'s.

A file that holds nothing but stacks is evidence by itself (`evidence/stacks.py`). Here they stand among other
lines, each of a rank that its prefix or its stream tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from launcher.diagnosis.evidence.stacks import RankStack, read_stacks
from launcher.diagnosis.last_lines import LastLine
from launcher.diagnosis.record import Line, parse
from launcher.diagnosis.scan import Candidate

LITERALS = ("thread 0x", '"mainthread"')
"""Lower-case parts of the lines above a thread's frames."""

_MOST_RANKS = 4096


class StackLines:
    """The newest stack of each rank and stream, as far as the lines after its heading reach."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, int], tuple[int, RankStack]] = {}

    def read(self, candidate: Candidate, line: Line, host: str) -> None:
        """Take the heading of a thread into account, with the frames below it."""
        if line.rank is None or len(self._newest) >= _MOST_RANKS:
            return
        below = [parse(text) for text in candidate.following()]
        frames = [each.text for each in below if each.writer == line.writer]
        for stack in read_stacks("\n".join([line.text, *frames]), line.rank, host or None):
            # Of several threads the last with a line of the user's is the main one, or waits as it does.
            if stack.users is not None or (candidate.stream, stack.rank) not in self._newest:
                self._newest[candidate.stream, stack.rank] = (candidate.index, stack)

    def forget(self, stream: str) -> None:
        """The ranks were started again."""
        self._newest = {key: told for key, told in self._newest.items() if key[0] != stream}

    def last(
        self, tails: Mapping[str, Sequence[LastLine]], ended_well: Mapping[str, int]
    ) -> tuple[RankStack, ...]:
        """The stacks after which their rank, or whoever prints without a name, made no step and came to no
        good end."""
        if not self._newest:
            return ()
        further: dict[tuple[str, int | None], int] = {}
        for name, lines in tails.items():
            further.update({(name, each.line.rank): each.index for each in lines if each.goes_on})
        return tuple(
            stack
            for (stream, rank), (index, stack) in sorted(self._newest.items())
            if index
            > max(
                further.get((stream, rank), -1), further.get((stream, None), -1), ended_well.get(stream, -1)
            )
        )
