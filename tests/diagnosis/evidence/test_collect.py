"""What several dumps of a job say beside each other, and beside its lines."""

from __future__ import annotations

import random

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.evidence.collect import NO_DUMP, StallEvidence, combine_evidence, find_stuck
from launcher.diagnosis.evidence.dumps import FileEvidence
from launcher.diagnosis.logs.lines import Record
from launcher.diagnosis.model import Verdict
from slipway.watchdog.judge_stall import judge_stall
from slipway.watchdog.rank_views import RankView, operations_in, read_dump
from tests.diagnosis.evidence.recorders import RECORDED, entry, recorded, recording
from tests.diagnosis.stories import raised, root


@pytest.mark.parametrize(
    ("case", "because", "ranks"),
    [
        ("never", StallEvidence.ABSENT, (2,)),
        ("two", StallEvidence.ABSENT, (1, 3)),
        ("size", StallEvidence.MISMATCH, (2,)),
        ("op", StallEvidence.MISMATCH, (2,)),
        ("exit", StallEvidence.ABSENT, (2,)),
        ("subgroup", StallEvidence.ABSENT, (2,)),
        ("teardown", StallEvidence.ABSENT, (2,)),
    ],
)
def test_the_rank_that_a_recorded_job_waited_for_is_named(
    case: str, because: StallEvidence, ranks: tuple[int, ...]
) -> None:
    recordings = recorded(case)
    random.Random(0).shuffle(recordings)
    found = find_stuck(recordings)
    assert found is not None
    assert (found.because, found.ranks) == (because, ranks)


def test_a_rank_that_left_no_dump_is_named_with_whom_it_keeps_waiting() -> None:
    recordings = [each for each in recorded("never") if each.rank != 2]
    found = find_stuck(recordings)
    assert found is not None
    assert (found.ranks, found.waiting) == ((2,), (0, 1, 3))


def test_what_hangs_in_a_receive_of_gloo_is_no_culprit_for_sure() -> None:
    """gloo records no receive: rank 0, which waits in one for rank 2, looks as idle as rank 2."""
    found = find_stuck(recorded("p2p"))
    assert found is not None
    assert set(found.ranks) == {0, 2}
    assert not found.certain


def test_one_dump_alone_names_nobody() -> None:
    found = find_stuck([each for each in recorded("never") if each.rank == 0])
    assert found is not None
    assert (found.because, found.ranks) == (StallEvidence.ALONE, ())


def test_ranks_whose_dumps_are_mostly_elsewhere_are_not_blamed() -> None:
    found = find_stuck([recording(0, [entry(5)], world=8), recording(1, [entry(5)], world=8)])
    assert found is None or found.ranks == ()


def test_nobody_waits_in_a_job_that_goes_on() -> None:
    assert find_stuck([recording(rank, [entry(5, state="completed")]) for rank in range(4)]) is None


def test_a_gpu_that_does_not_end_what_others_have_ended_stands_still() -> None:
    waits = [recording(rank, [entry(9)], ended_in_0=8) for rank in (0, 1)]
    broken = [recording(rank, [entry(6), entry(7), entry(8), entry(9)], ended_in_0=5) for rank in (2, 3)]
    found = find_stuck([*waits, *broken])
    assert found is not None
    assert (found.because, found.ranks, found.waiting) == (StallEvidence.DEVICE, (2, 3), (0, 1))


def test_a_broadcast_that_ended_at_its_source_blames_no_gpu() -> None:
    found = find_stuck(
        [recording(0, [entry(6, "all_reduce")], ended_in_0=5)]
        + [recording(rank, [entry(5, "broadcast"), entry(6)], ended_in_0=4) for rank in (1, 2, 3)]
    )
    assert found is not None
    assert found.because is StallEvidence.NOBODY


def test_of_two_groups_the_rank_that_waits_is_only_a_link() -> None:
    """Ranks 2 and 3 wait for rank 1, which waits in the pair for rank 0: that one waits nowhere."""
    found = find_stuck(
        [
            recording(0, [entry(5, state="completed")]),
            recording(1, [entry(5, state="completed"), entry(1, group="1")]),
            recording(2, [entry(6)]),
            recording(3, [entry(6)]),
        ]
    )
    assert found is not None
    assert (found.ranks, found.certain) == ((0,), True)


def test_ranks_that_wait_for_each_other_are_not_blamed_alone() -> None:
    found = find_stuck(
        [
            recording(0, [entry(6)], world=2),
            recording(1, [entry(1, group="1")], world=2),
        ]
    )
    assert found is not None
    assert (found.because, found.certain) == (StallEvidence.RING, False)


def test_where_all_have_entered_it_the_network_is_to_blame() -> None:
    found = find_stuck([recording(rank, [entry(6)]) for rank in range(4)])
    assert found is not None
    assert (found.because, found.ranks) == (StallEvidence.NOBODY, ())


def test_another_type_of_numbers_is_a_mismatch() -> None:
    odd = recording(3, [entry(6, input_dtypes=["Half"])])
    found = find_stuck([*(recording(rank, [entry(6)]) for rank in range(3)), odd])
    assert found is not None
    assert (found.because, found.ranks) == (StallEvidence.MISMATCH, (3,))


def test_two_against_two_name_nobody_for_sure() -> None:
    found = find_stuck(
        [*(recording(rank, [entry(6)]) for rank in (0, 1))]
        + [recording(rank, [entry(6, "broadcast")]) for rank in (2, 3)]
    )
    assert found is not None
    assert not found.certain


def test_dumps_alone_name_the_rank_and_the_collective() -> None:
    cause = diagnose([], evidence=[FileEvidence(recordings=(each,)) for each in recorded("op")]).root_cause
    assert cause is not None
    assert (cause.finding.code, cause.rank) == ("NCCL004", 2)
    assert "called broadcast #6 [3] (train.py:24 in <module>)" in cause.finding.message
    assert "where ranks 0, 1, 3 wait in all_reduce #6 [4160] (train.py:34 in step)" in cause.finding.message


def test_an_exception_in_the_log_is_the_cause_and_the_dumps_what_followed() -> None:
    lines = [
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "/opt/ml/code/train.py", line 3, in <module>',
        "[rank1]: KeyError: 'label'",
    ]
    evidence = [FileEvidence(recordings=(each,)) for each in recorded("never")]
    found = diagnose([Record(None, "algo-1", line) for line in lines], evidence=evidence)
    assert found.root_cause is not None
    assert (found.root_cause.finding.code, found.root_cause.rank) == ("CODE001", 1)
    assert "NCCL004" in [each.code for each in found.consequences]


def test_dumps_of_a_job_that_stands_still_by_nobody_name_no_rank() -> None:
    cause = diagnose([], evidence=[FileEvidence(recordings=(recorded("never")[0],))]).root_cause
    assert cause is not None
    assert cause.rank is None


def test_the_dump_of_one_that_waits_hides_no_rank_that_ended_without_a_word() -> None:
    closed = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:398"
    lines = [
        *(Record(None, "algo-1", line) for line in raised(0, closed, "loss.backward()").split("\n")),
        Record(None, "algo-2", "Root Cause (first observed failure):"),
        *(
            Record(None, "algo-2", line)
            for line in ("[0]:", "  rank      : 2 (local_rank: 0)", "  exitcode  : 3 (pid: 7)")
        ),
    ]
    found = diagnose(lines, evidence=[FileEvidence(recordings=(recorded("exit")[0],))])
    assert root(found) == ("CODE001", 2)


def test_every_rank_has_a_row_also_the_one_without_a_dump() -> None:
    found = combine_evidence(FileEvidence(recordings=(each,)) for each in recorded("exit"))
    assert found.world_size == 4
    rows = {row.rank: row for row in found.rows}
    assert rows[0].enqueued is not None
    assert (rows[0].enqueued.name, rows[0].enqueued.sequence) == ("all_reduce", 6)
    assert rows[0].frame == "train.py:34 in step"
    assert rows[2].state == NO_DUMP


def test_nothing_fails_by_no_evidence_and_nothing_is_well_by_it() -> None:
    found = diagnose([], evidence=[])
    assert (found.verdict, found.root_cause) == (Verdict.UNKNOWN, None)


@pytest.mark.parametrize("case", ["never", "two", "size", "op", "subgroup", "teardown"])
def test_both_name_the_same_ranks(case: str) -> None:
    views = []
    for file in sorted((RECORDED / case).iterdir()):
        last, operations = operations_in(read_dump(file.read_bytes()), "/opt/ml/code", 0.0)
        rank = int(file.name.rpartition("_")[2])
        groups = {"0": (0, 1, 2, 3), "1": (1, 2)}
        mine = {name: ranks for name, ranks in groups.items() if rank in ranks}
        views.append(RankView(rank, "algo-1", "S", 5, False, True, True, mine, last, operations))
    verdict, found = judge_stall(views), find_stuck(recorded(case))
    assert verdict is not None
    assert found is not None
    assert verdict.ranks == found.ranks
