"""The watchdog's sequence, with ranks that are played: what calls for a look, is said, and ends a job."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from slipway.container import Rendezvous
from slipway.host_assembly import Assembly
from slipway.ranks.attendant import LOADED, Beat
from slipway.watchdog.judge_stall import StallLimits
from slipway.watchdog.rank_views import RankView
from slipway.watchdog.watch_ranks import Watchdog, Watched, long_waits
from tests.slipway.test_host_assembly import container, two_free_ports
from tests.slipway.watchdog.ranks_seen import operation, seen, waiting


@dataclass
class Played:
    """In place of a host's ranks: what they are said to be."""

    views: list[RankView]
    last: float = 0.0
    longest: float = 1.0
    looks: int = 0
    group: int = 0

    def forget(self) -> None:
        pass

    def beats(self) -> dict[int, Beat]:
        told = Beat(1, 45, LOADED, 0, self.group, 0.0, 9, self.last, self.longest)
        return {view.rank: told for view in self.views}

    def look(self, seconds: float = 0.0, *, stacks: bool = False) -> list[RankView]:
        self.looks += 1
        return self.views

    def with_stacks(self, views: list[RankView]) -> list[RankView]:
        return list(views)

    def dumps(self) -> dict[int, bytes]:
        return {view.rank: b"dump" for view in self.views}


@dataclass
class Job:
    """Hosts with their watchdogs, and a clock that moves when it is told to."""

    hosts: list[Played]
    folder: Path
    now: float = 1.0
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        port = two_free_ports() if len(self.hosts) > 1 else 1
        self.assemblies = [
            Assembly(container(n, len(self.hosts)), Rendezvous("127.0.0.1", port), "job")
            for n in range(len(self.hosts))
        ]
        self.dogs = [
            Watchdog(
                Watched(ranks, assembly, self.folder, self.folder / assembly.current),  # type: ignore[arg-type]
                StallLimits(None, 1800),
                self.said.append,
                between=0.0,
                clock=lambda: self.now,
            )
            for ranks, assembly in zip(self.hosts, self.assemblies, strict=True)
        ]

    def at(self, seconds: float) -> None:
        """All watchdogs make a turn at this moment, and a second one, in which all know of all."""
        for _ in range(2):
            self.now = seconds
            with ThreadPoolExecutor(len(self.dogs)) as pool:
                list(pool.map(lambda dog: dog._watch_once(), self.dogs))


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[Job]:
    """Two hosts, whose rank 2 is stopped."""
    silent = seen(2, state="T", answered=False, recorded=False, last={}, lines=(), groups={})
    job = Job([Played([waiting(0), waiting(1)]), Played([silent, waiting(3)])], tmp_path)
    yield job
    for assembly in job.assemblies:
        assembly.close()


@pytest.fixture
def sleeping(tmp_path: Path) -> Job:
    """One host, whose rank 1 works in its own code."""
    return Job([Played([waiting(0, world=2), seen(1, world=2)])], tmp_path)


def test_before_the_limit_nobody_is_asked(stopped: Job) -> None:
    stopped.at(59.0)
    assert [host.looks for host in stopped.hosts] == [0, 0]
    assert stopped.said == []


def test_the_culprit_is_named_once_by_the_first_host_and_known_to_all(stopped: Job) -> None:
    stopped.at(62.0)
    stopped.at(63.0)
    assert [line[:51] for line in stopped.said] == ["NCCL004 rank 2 on algo-2 has not entered all_reduce"]
    assert stopped.said[0].endswith("; no rank has made a step for 62 s (limit 60 s)")
    assert [dog.verdict.ranks for dog in stopped.dogs if dog.verdict] == [(2,), (2,)]
    assert not any(dog.ends for dog in stopped.dogs), "a second look has to confirm it"


def test_what_is_certain_and_confirmed_ends_the_job_on_all_hosts(stopped: Job) -> None:
    stopped.at(62.0)
    stopped.at(68.0)
    assert [dog.ends for dog in stopped.dogs] == [True, True]
    assert len(stopped.said) == 1
    assert (stopped.folder / "algo-2" / "rank_3").read_bytes() == b"dump"


def test_what_a_second_look_does_not_confirm_goes_on(stopped: Job) -> None:
    stopped.at(62.0)
    for host in stopped.hosts:
        host.last = 65.0
    stopped.at(68.0)
    assert not any(dog.ends for dog in stopped.dogs)
    assert "the ranks get on again, after NCCL004 was told" in stopped.said


def test_who_still_works_is_a_warning_and_ends_the_job_when_its_group_would(sleeping: Job) -> None:
    sleeping.at(62.0)
    assert sleeping.said[0].startswith("warning: NCCL004 rank 1 on algo-1 has not entered")
    for moment in range(100, 660, 60):
        sleeping.at(float(moment))
        assert not sleeping.dogs[0].ends
    assert len(sleeping.said) == 1
    sleeping.at(700.0)
    assert sleeping.dogs[0].ends


def test_a_rank_that_got_on_between_the_two_looks_stalls_nobody(tmp_path: Path) -> None:
    class Moving(Played):
        def look(self, seconds: float = 0.0, *, stacks: bool = False) -> list[RankView]:
            super().look()
            return [waiting(0, operation(36 + self.looks), world=2), seen(1, world=2)]

    job = Job([Moving([waiting(0, world=2), seen(1, world=2)])], tmp_path)
    job.at(62.0)
    assert job.hosts[0].looks == 3, "two of the watchdog, and one that looks for long waits"
    assert job.said == []


def test_where_all_ranks_work_nothing_is_said_and_they_are_not_asked_all_the_time(tmp_path: Path) -> None:
    job = Job([Played([seen(0, world=2), seen(1, world=2)])], tmp_path)
    for moment in (62.0, 70.0, 100.0):
        job.at(moment)
    assert job.hosts[0].looks == 4, "two of the watchdog, and two that look for long waits"
    assert job.said == []


def test_a_stop_in_a_stall_is_held_for_a_look_and_reported_as_any_other(sleeping: Job) -> None:
    sleeping.now = 30.0
    (dog,) = sleeping.dogs
    assert dog.delays_stop(110.0)
    sleeping.at(30.0)
    assert sleeping.said[0].startswith("warning: NCCL004 rank 1 on algo-1 has not entered")
    assert not dog.delays_stop(110.0)


def test_a_stop_of_a_job_that_steps_is_not_held(sleeping: Job) -> None:
    sleeping.now = 9.0
    assert not sleeping.dogs[0].delays_stop(110.0)


def test_a_stop_is_held_for_half_of_its_grace_at_most(sleeping: Job) -> None:
    sleeping.now = 30.0
    (dog,) = sleeping.dogs
    assert dog.delays_stop(10.0)
    sleeping.now = 35.1
    assert not dog.delays_stop(10.0)


def test_sixty_four_hosts_agree(tmp_path: Path) -> None:
    hosts = [Played([waiting(n, world=64, host=f"algo-{n + 1}")]) for n in range(64)]
    hosts[40] = Played(
        [seen(40, world=64, host="algo-41", state="T", answered=False, recorded=False, last={})]
    )
    job = Job(hosts, tmp_path)
    job.at(62.0)
    job.at(68.0)
    assert all(dog.ends and dog.verdict and dog.verdict.ranks == (40,) for dog in job.dogs)
    for assembly in job.assemblies:
        assembly.close()


def test_a_verdict_stands_until_a_rank_makes_a_step_again(sleeping: Job) -> None:
    (dog,) = sleeping.dogs
    assert dog.standing_verdict() is None
    sleeping.at(62.0)
    sleeping.now = 90.0
    told = dog.standing_verdict()
    assert told is not None
    assert told.ranks == (1,)
    sleeping.hosts[0].last = 80.0
    assert dog.standing_verdict() is None


def test_the_sizes_of_groups_are_those_of_all_hosts_where_they_are_smaller_than_the_job(stopped: Job) -> None:
    first, second = stopped.hosts
    first.group, second.group = 2, 1
    stopped.at(5)
    stopped.dogs[0].close()
    assert sorted(stopped.dogs[0].sizes_of_groups(4)) == [1, 1, 2, 2]
    first.group = 4
    assert stopped.dogs[0].sizes_of_groups(4) == [4, 4], "of others nothing is asked then"


def test_the_longest_wait_of_a_group_is_told_from_half_of_its_timeout_on() -> None:
    views = [waiting(0, operation(seconds=299.0)), waiting(1, operation(seconds=310.0)), seen(2)]
    ((_, text),) = long_waits(views)
    assert text.startswith(
        "DDP005 rank 1 on algo-1 has waited 310 s in all_reduce #36 [4160] (train.py:6), 52 % of its group's "
        "timeout of 600 s"
    )


def test_a_shorter_wait_and_one_whose_timeout_is_not_known_are_not() -> None:
    views = [waiting(0, operation(seconds=299.0)), waiting(1, operation(seconds=9000.0, timeout=None))]
    assert list(long_waits(views)) == []
