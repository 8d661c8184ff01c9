"""DDP005: a wait that comes near its group's timeout."""

from __future__ import annotations

from slipway.watchdog.long_waits import long_waits
from tests.slipway.watchdog.ranks_seen import operation, seen, waiting


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
