"""The ranks of a job: what lines tell of each, how many there are, on which host each runs, who claims which.

A line or a sign that names a local rank, or a task of srun, gets the global rank here, as far as it is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from launcher.diagnosis import attempts, rank_lines
from launcher.diagnosis.candidates import line_of
from launcher.diagnosis.claimed_ranks import ClaimedRanks
from launcher.diagnosis.places import RankPlaces
from launcher.diagnosis.rank_lines import RankLines
from launcher.diagnosis.ranks import RankState
from launcher.diagnosis.record import Line
from launcher.diagnosis.scan import Candidate
from launcher.diagnosis.sighting import Sighting
from launcher.diagnosis.topics import Topic
from launcher.diagnosis.world_size import WorldSizes
from launcher.failure_modes import distribution
from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import finds


class JobRanks:
    """What the lines of all streams tell of ranks, in one pass.

    `processes_per_host` are the plan's, None where only the lines are known.
    """

    def __init__(self, processes_per_host: int | None = None) -> None:
        self._streams: dict[str, RankLines] = {}
        self._places = RankPlaces(processes_per_host)
        self._worlds = WorldSizes()
        self._claims = ClaimedRanks()
        self.states: tuple[RankState, ...] = ()
        """The table of ranks, once all lines were read (`conclude`)."""
        self.waiting: tuple[rank_lines.Waiting, ...] = ()
        """Where ranks stand in their collectives, known at the same time."""
        self._tasks = 0
        self.world_size = 0
        """How many ranks there are, known at the same time; 0 where no line tells."""

    def line_of(self, candidate: Candidate) -> Line:
        """The line; who is known by a local rank has the global one as far as that is known by now."""
        line = line_of(candidate)
        if line.local_rank is not None:
            self._places.met(line.host or candidate.host, line.local_rank)
        return self._places.placed(line, candidate.host)

    def read(self, topics: Collection[Topic], candidate: Candidate, line: Line) -> Sighting | None:
        """Take a line into account by what it speaks of; the sign of a rank that is not what it says."""
        if Topic.WORLD_SIZE in topics:
            self._worlds.read(line, candidate.host, candidate.index, candidate.time)
        if Topic.RANKS in topics:
            ends = candidate.following() if "(local_rank: " in line.text else ()
            self.of_stream(candidate.stream).read(line, line.host or candidate.host, ends)
        return self._claims.read(candidate, line) if Topic.CLAIMED_RANK in topics else None

    def of_stream(self, stream: str) -> RankLines:
        """What the lines of one stream tell."""
        lines = self._streams.get(stream)
        if lines is None:
            lines = self._streams[stream] = RankLines()
        return lines

    @property
    def told_size(self) -> int:
        """The largest world that a line told of so far, 0 where none did."""
        return self._worlds.size

    def forget(self, stream: str) -> None:
        """What a stream told is of an earlier start."""
        self.of_stream(stream).forget()
        self._claims.forget(stream)

    def superseded(self) -> frozenset[str]:
        """The streams of attempts that another one followed."""
        return attempts.superseded(self._streams)

    def settle(self, tails: Collection[tuple[Candidate, Line]]) -> None:
        """All lines were read but for the last ones of each stream: local ranks become global ones. A file of
        one process tells the place of the rank that its lines name."""
        for candidate, line in tails:
            if line.rank is not None and candidate.local_rank is not None:
                of_hosts = self.of_stream(candidate.stream).of_hosts
                of_hosts.placed(line.rank, line.host or candidate.host, candidate.local_rank, named=True)
        gone = self.superseded()
        lines = [each for stream, each in self._streams.items() if stream not in gone]
        seen = max((each.world_size for each in lines), default=0)
        each_host = self._worlds.processes_per_host
        self._places.settle((each.of_hosts for each in lines), each_host, self._worlds.size, seen)

    def placed_line(self, line: Line, host: str) -> Line:
        """The line with its global rank, as far as its local one tells it."""
        return self._places.placed(line, host)

    def conclude(self) -> None:
        """Nothing comes any more: make the table of ranks."""
        self.waiting, self.states, size = rank_lines.told(self._streams)
        self.world_size = max(self._worlds.size, size)
        self._tasks = max((lines.tasks for lines in self._streams.values()), default=0)

    def placed(self, sign: Sighting) -> Sighting:
        """The sign with its global rank where its line, or the path of its stream, tells the local one, or
        where it names a task of srun and each rank is a task: there are as many of both."""
        task = sign.captured.get("task")
        if sign.rank is None and task is not None and 1 < self.world_size == self._tasks:
            return replace(sign, rank=int(task))
        host, rank, told = sign.host or "", sign.rank, sign.captured.get("local_rank", "")
        if rank is None and told.isdecimal():
            exact = self._places.exact(host, int(told))
            rank = exact if exact is not None else self._places.rank_of(host, int(told))
        elif rank is None and sign.local_rank is not None:
            rank = self._places.rank_of(host, sign.local_rank)
        return sign if rank is None else replace(sign, rank=rank)

    @finds(Stage.LOG, distribution.RANKS_NEVER_MET)
    def signs(self) -> Iterator[Sighting]:
        """What all lines together show of the world: that nobody met, or that ranks are claimed twice."""
        for sign in (self._worlds.never_met(), self._claims.claimed_twice()):
            if sign is not None:
                yield sign
