"""Between hosts whose clocks cannot be compared no order is invented."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import Confidence
from launcher.diagnosis.record import Record
from tests.diagnosis.stories import raised, root, story

FIRST, SECOND = raised(0, "KeyError: 'labels'"), raised(9, "KeyError: 'labels'")


def at(minute: int, second: int, text: str) -> str:
    return "\n".join(f"2026-08-20 10:{minute:02}:{second:02} {line}" for line in text.split("\n"))


def steps_at(minute: int, second: int) -> str:
    return "\n".join(at(minute, second + number, f"step {number} loss 2.0") for number in range(5))


def test_without_times_nobody_is_named_and_all_are_listed() -> None:
    found = story(algo_1=FIRST, algo_2=f"printing\n{SECOND}")
    assert root(found) == ("CODE001", None)
    assert found.root_cause.host is None
    assert "rank 0 on algo-1" in found.root_cause.finding.message
    assert "rank 9 on algo-2" in found.root_cause.finding.message


def test_times_of_two_kinds_are_no_order() -> None:
    glog = "\n".join(f"E0820 10:00:10.0 a.py:1] {line}" for line in ("x", "y"))
    found = story(algo_1=at(0, 20, FIRST), algo_2=f"{glog}\n{SECOND}")
    assert root(found) == ("CODE001", None)


@pytest.mark.parametrize("second", [10, 40])
def test_clocks_that_nothing_holds_together_are_no_order(second: int) -> None:
    assert root(story(algo_1=at(0, 20, FIRST), algo_2=at(0, second, SECOND))) == ("CODE001", None)


def test_the_streams_of_one_host_have_one_clock() -> None:
    lines = [Record(None, "algo-1", line, "0.log") for line in at(0, 20, FIRST).split("\n")]
    lines += [Record(None, "algo-1", line, "1.log") for line in at(0, 10, SECOND).split("\n")]
    assert root(diagnose(lines)) == ("CODE001", 9)


def test_clocks_minutes_apart_are_no_order() -> None:
    assert root(story(algo_1=at(0, 20, FIRST), algo_2=at(2, 20, SECOND))) == ("CODE001", None)


def test_the_steps_that_hosts_share_tell_how_far_their_clocks_are_apart() -> None:
    one = f"{steps_at(0, 0)}\n{at(0, 30, FIRST)}"
    two = f"{steps_at(2, 0)}\n{at(2, 10, SECOND)}"
    assert root(story(algo_1=one, algo_2=two)) == ("CODE001", 9)
    late = f"{steps_at(2, 0)}\n{at(2, 50, SECOND)}"
    assert root(story(algo_1=one, algo_2=late)) == ("CODE001", 0)


def test_one_clock_for_all_streams_is_believed_however_far_apart() -> None:
    lines = [Record(900.0, "algo-1", line) for line in FIRST.split("\n")]
    lines += [Record(50.0, "algo-2", line) for line in SECOND.split("\n")]
    assert root(diagnose(lines)) == ("CODE001", 9)


def test_what_may_as_well_have_been_first_is_the_runner_up() -> None:
    full = "[rank9]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    broken = "[rank0]: RuntimeError: CUDA error: uncorrectable ECC error encountered"
    found = story(algo_1=broken, algo_2=f"printing\n{full}")
    assert found.root_cause.sureness.confidence is Confidence.UNSURE
    assert {found.root_cause.finding.code, found.runner_up.code} == {"HW001", "MEM001"}
    sure = story(
        algo_1=f"{steps_at(0, 0)}\n{at(0, 10, broken)}", algo_2=f"{steps_at(0, 0)}\n{at(0, 20, full)}"
    )
    assert (root(sure), sure.root_cause.sureness.confidence, sure.runner_up) == (
        ("HW001", 0),
        Confidence.SURE,
        None,
    )
