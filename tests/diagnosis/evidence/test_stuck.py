"""Whom the ranks wait for, by recorded jobs and by made ones."""

from __future__ import annotations

import random

import pytest

from launcher.diagnosis.evidence.stuck import Because, stuck
from tests.diagnosis.evidence.recorders import entry, recorded, recording


@pytest.mark.parametrize(
    ("case", "because", "ranks"),
    [
        ("never", Because.ABSENT, (2,)),
        ("two", Because.ABSENT, (1, 3)),
        ("size", Because.MISMATCH, (2,)),
        ("op", Because.MISMATCH, (2,)),
        ("exit", Because.ABSENT, (2,)),
        ("subgroup", Because.ABSENT, (2,)),
        ("teardown", Because.ABSENT, (2,)),
    ],
)
def test_the_rank_that_a_recorded_job_waited_for_is_named(
    case: str, because: Because, ranks: tuple[int, ...]
) -> None:
    recordings = recorded(case)
    random.Random(0).shuffle(recordings)
    found = stuck(recordings)
    assert found is not None
    assert (found.because, found.ranks) == (because, ranks)


def test_a_rank_that_left_no_dump_is_named_with_whom_it_keeps_waiting() -> None:
    recordings = [each for each in recorded("never") if each.rank != 2]
    found = stuck(recordings)
    assert found is not None
    assert (found.ranks, found.waiting) == ((2,), (0, 1, 3))


def test_what_hangs_in_a_receive_of_gloo_is_no_culprit_for_sure() -> None:
    """gloo records no receive: rank 0, which waits in one for rank 2, looks as idle as rank 2."""
    found = stuck(recorded("p2p"))
    assert found is not None
    assert set(found.ranks) == {0, 2}
    assert not found.certain


def test_one_dump_alone_names_nobody() -> None:
    found = stuck([each for each in recorded("never") if each.rank == 0])
    assert found is not None
    assert (found.because, found.ranks) == (Because.ALONE, ())


def test_ranks_whose_dumps_are_mostly_elsewhere_are_not_blamed() -> None:
    found = stuck([recording(0, [entry(5)], world=8), recording(1, [entry(5)], world=8)])
    assert found is None or found.ranks == ()


def test_nobody_waits_in_a_job_that_goes_on() -> None:
    assert stuck([recording(rank, [entry(5, state="completed")]) for rank in range(4)]) is None


def test_a_gpu_that_does_not_end_what_others_have_ended_stands_still() -> None:
    waits = [recording(rank, [entry(9)], ended_in_0=8) for rank in (0, 1)]
    broken = [recording(rank, [entry(6), entry(7), entry(8), entry(9)], ended_in_0=5) for rank in (2, 3)]
    found = stuck([*waits, *broken])
    assert found is not None
    assert (found.because, found.ranks, found.waiting) == (Because.DEVICE, (2, 3), (0, 1))


def test_a_broadcast_that_ended_at_its_source_blames_no_gpu() -> None:
    found = stuck(
        [recording(0, [entry(6, "all_reduce")], ended_in_0=5)]
        + [recording(rank, [entry(5, "broadcast"), entry(6)], ended_in_0=4) for rank in (1, 2, 3)]
    )
    assert found is not None
    assert found.because is Because.NOBODY


def test_of_two_groups_the_rank_that_waits_is_only_a_link() -> None:
    """Ranks 2 and 3 wait for rank 1, which waits in the pair for rank 0: that one waits nowhere."""
    found = stuck(
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
    found = stuck(
        [
            recording(0, [entry(6)], world=2),
            recording(1, [entry(1, group="1")], world=2),
        ]
    )
    assert found is not None
    assert (found.because, found.certain) == (Because.RING, False)


def test_where_all_have_entered_it_the_network_is_to_blame() -> None:
    found = stuck([recording(rank, [entry(6)]) for rank in range(4)])
    assert found is not None
    assert (found.because, found.ranks) == (Because.NOBODY, ())


def test_another_type_of_numbers_is_a_mismatch() -> None:
    odd = recording(3, [entry(6, input_dtypes=["Half"])])
    found = stuck([*(recording(rank, [entry(6)]) for rank in range(3)), odd])
    assert found is not None
    assert (found.because, found.ranks) == (Because.MISMATCH, (3,))


def test_two_against_two_name_nobody_for_sure() -> None:
    found = stuck(
        [*(recording(rank, [entry(6)]) for rank in (0, 1))]
        + [recording(rank, [entry(6, "broadcast")]) for rank in (2, 3)]
    )
    assert found is not None
    assert not found.certain
