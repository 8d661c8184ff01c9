"""The global rank of who is known only by a place: a host, and a local rank on it.

torchrun marks lines with local ranks (`[default3]:`) and names its folders by them. Which global rank that is
follows where the ranks of a host are known to be consecutive from a number on: from another rank of the same
host, from what torchrun says of its rendezvous (torch/distributed/elastic/agent/server/api.py of PyTorch 1.9
to 2.13, at LOGLEVEL=INFO), from the command that started it, from the plan. Where none of these tells, or two
of them disagree, nobody is named. Of lines of a host that nothing names those of several may be mixed, so
there only a world that one host holds tells anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from launcher.cluster.sagemaker_names import HOST_NAME
from launcher.diagnosis.record import Line

LITERALS = ("global_ranks=[", "global_world_sizes=[", "--node_rank", "--node-rank")
"""Lower-case parts of lines that tell it and that no row of the signatures has."""

_MOST_PLACES = 100_000
_GLOBAL_RANKS = re.compile(r"^\s*global_ranks=\[(?P<first>\d{1,6})[\],]")
_NODE = re.compile(r"--node[_-]rank[= ](?P<value>\d{1,5})(?!\S)")
_EACH = re.compile(r"--nproc[_-]per[_-]node[= ](?P<value>\d{1,4})(?!\S)")
_DYNAMIC = re.compile(r"--rdzv[_-]backend[= ](?!static)")
"""A rendezvous that numbers the hosts itself, whatever their commands say."""


class HostRanks:
    """What the lines of one stream tell of the ranks of hosts."""

    def __init__(self) -> None:
        self.told: dict[tuple[str, int], set[int]] = {}
        """The global ranks of a local rank of a host."""
        self.named: set[str] = set()
        """The hosts among them by which lines are known: no other's are mixed with theirs."""

    def read(self, line: Line, host: str) -> None:
        """Take what torchrun, or the command that started it, says of a whole host."""
        text = line.text
        if ranks := _GLOBAL_RANKS.match(text):
            # The local ranks of a host count from 0.
            self.placed(int(ranks["first"]), host, 0, named=is_named(line, host))
        elif (node := _NODE.search(text)) and (each := _EACH.search(text)) and not _DYNAMIC.search(text):
            self.placed(int(node["value"]) * int(each["value"]), host, 0, named=is_named(line, host))

    def placed(self, rank: int, host: str, local: int, *, named: bool) -> None:
        """A rank is that local rank of a host; `named` is whether all lines of that name are this host's."""
        if len(self.told) < _MOST_PLACES:
            self.told.setdefault((host, local), set()).add(rank)
            if named:
                self.named.add(host)


class RankPlaces:
    """Tells global ranks by places; until it is settled by the plan alone.

    `processes_per_host` is the plan's, by which the ranks of `algo-2` follow those of `algo-1`; None where
    there is no plan.
    """

    def __init__(self, processes_per_host: int | None = None) -> None:
        self._processes_per_host = processes_per_host
        self._alone = False
        self._highest = -1
        self._hosts: set[str] = set()
        self._exact: dict[tuple[str, int], set[int]] = {}
        self._first: dict[str, set[int]] = {}

    def met(self, host: str, local: int) -> None:
        """A line of that local rank of a host was read."""
        self._highest = max(self._highest, local)
        if len(self._hosts) < _MOST_PLACES:
            self._hosts.add(host)

    def settle(
        self, streams: Iterable[HostRanks], processes_per_host: int | None, said: int, seen: int
    ) -> None:
        """All lines have been read: `processes_per_host` are those that the boot says, `said` is the world
        that the ranks say they are in, `seen` the largest that any other line tells of, 0 for none."""
        self._processes_per_host = self._processes_per_host or processes_per_host
        self._alone = len(self._hosts) == 1 and 0 < said == self._highest + 1 and seen <= said
        for lines in streams:
            for (host, local), ranks in lines.told.items():
                self._exact.setdefault((host, local), set()).update(ranks)
                if host in lines.named:
                    self._first.setdefault(host, set()).update(rank - local for rank in ranks)

    def exact(self, host: str, local: int) -> int | None:
        """The rank that lines name for this very place, where all of them agree."""
        ranks = self._exact.get((host, local), set())
        return next(iter(ranks)) if len(ranks) == 1 else None

    def rank_of(self, host: str, local: int) -> int | None:
        """The rank at a place, where all that tells of it agrees."""
        ranks = set(self._answers(host, local))
        return ranks.pop() if len(ranks) == 1 and min(ranks) >= 0 else None

    def placed(self, line: Line, host: str) -> Line:
        """The line with its global rank, where its place tells it; `host` is that of its stream."""
        if line.rank is not None or line.local_rank is None:
            return line
        rank = self.rank_of(line.host or host, line.local_rank)
        return line if rank is None else replace(line, rank=rank)

    def _answers(self, host: str, local: int) -> Iterator[int]:
        for first in self._first.get(host, ()):
            yield first + local
        each, number = self._processes_per_host, HOST_NAME.fullmatch(host)
        if each is not None and number is not None and local < each:
            yield (int(number[1]) - 1) * each + local
        if self._alone:
            yield local


def is_named(line: Line, host: str) -> bool:
    """Whether a host is one that a line's prefix names, or SageMaker; else it may be the name of a file."""
    return line.host is not None or HOST_NAME.fullmatch(host) is not None
