"""Ranks that more than one process claims: the rank on the host was given as the rank of the job."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import Diagnosis, Verdict
from launcher.diagnosis.record import Record

TIMED_OUT = "torch.distributed.DistStoreError: wait timeout after 20000ms, keys: /default_pg/0//cpu//0/{key}"
INIT = (
    "{host}:88:141 [{device}] NCCL INFO ncclCommInitRank comm 0x55d0{device} rank {rank} nranks 4 "
    "cudaDev {device} nvmlDev {device} busId 1{device}1d0 commId {identity} - Init START"
)


def member(rank: int, size: int = 4) -> str:
    return f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/{size}"


def diagnosis(lines: Iterable[tuple[str, str]]) -> Diagnosis:
    return diagnose([Record(None, host, line, host) for host, line in lines])


def code(found: Diagnosis) -> str | None:
    return None if found.root_cause is None else found.root_cause.finding.code


def waiting_for(key: int, ranks: Iterable[int]) -> list[tuple[str, str]]:
    return [(f"algo-{1 + rank // 2}", f"[rank{rank}]:{TIMED_OUT.format(key=key)}") for rank in ranks]


def test_a_rank_that_waits_for_itself_joined_as_another_one() -> None:
    found = diagnosis(waiting_for(2, range(4)))
    assert found.root_cause is not None
    assert (code(found), found.root_cause.finding.subject) == ("DIST007", "rank 2")
    assert found.root_cause.finding.message == (
        "rank 2 on algo-2: waited in vain for rank 2, which it is itself: it joined under another rank"
    )


def test_a_rank_for_which_only_others_wait_is_missing() -> None:
    assert code(diagnosis(waiting_for(2, (0, 1, 3)))) == "NCCL008"


def test_in_a_group_of_some_ranks_the_numbers_are_others() -> None:
    of_group = [(host, line.replace("//cpu", "//2//cpu")) for host, line in waiting_for(2, range(4))]
    assert code(diagnosis(of_group)) == "NCCL008"


def test_ranks_that_two_hosts_announce_are_named_with_them() -> None:
    found = diagnosis((host, member(rank)) for host in ("algo-1", "algo-2") for rank in (0, 1))
    assert found.root_cause is not None
    assert code(found) == "DIST007"
    assert found.root_cause.finding.message == (
        "ranks 0, 1 of 4 are each claimed by more than one host: algo-1, algo-2"
    )


def test_hosts_that_announce_all_ranks_have_a_world_each() -> None:
    assert (
        code(diagnosis((host, member(rank, 2)) for host in ("algo-1", "algo-2") for rank in (0, 1))) is None
    )


def test_each_rank_once_is_as_it_should_be() -> None:
    assert code(diagnosis((f"algo-{1 + rank // 2}", member(rank)) for rank in range(4))) is None


@pytest.mark.parametrize(
    ("ranks", "wanted"),
    [((0, 0, 1, 1), "DIST007"), ((0, 1, 0, 1), "DIST007"), ((0, 1), None), ((0, 0, 1), None)],
)
@pytest.mark.parametrize("also", [(), (2, 3)])
def test_without_hosts_a_part_of_the_ranks_comes_as_often_as_there_are_parts(
    ranks: tuple[int, ...], wanted: str | None, also: tuple[int, ...]
) -> None:
    found = diagnosis(("", member(rank)) for rank in (*ranks, *also))
    assert code(found) == (None if also else wanted)


def test_one_communicator_has_each_rank_once() -> None:
    def lines(identities: tuple[str, str]) -> list[tuple[str, str]]:
        return [
            (f"algo-{1 + host}", INIT.format(host=f"algo-{1 + host}", device=n, rank=n, identity=identity))
            for host, identity in enumerate(identities)
            for n in range(2)
        ]

    started = lines(("0x9c1", "0x9c1"))
    assert code(diagnosis(started)) == "DIST007"
    assert code(diagnosis(lines(("0x9c1", "0x77f")))) is None
    complete = [(host, line.replace("START", "COMPLETE")) for host, line in started]
    assert code(diagnosis(started + complete)) is None
    split = [(host, line.replace("commId", "parent 0x5 color 1 key 0 commId")) for host, line in started]
    assert code(diagnosis(split)) is None


def test_after_a_start_anew_ranks_may_be_on_other_hosts() -> None:
    first = [(f"algo-{1 + rank}", member(rank, 3)) for rank in range(2)]
    again = [(f"algo-{2 - rank}", member(rank, 3)) for rank in range(2)]
    start = "INFO torch.distributed.elastic.agent.server.api:[default] Restarting worker group"
    assert code(diagnosis([*first, *again])) == "DIST007"
    restarts = [(host, start) for host in ("algo-1", "algo-2")]
    assert diagnosis([*first, *restarts, *again]).verdict is not Verdict.FAILED
