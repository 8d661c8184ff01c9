"""What is called healthy, and what is said of what nobody understood."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.evidence.dumps import FileEvidence
from launcher.diagnosis.logs.lines import Record
from launcher.diagnosis.model import Diagnosis, End, Ending, RankState, Verdict
from launcher.diagnosis.verdict.stream_ends import describe_first_silent
from tests.diagnosis.cases import records
from tests.logs.cases import log_cases

STEPS = "\n".join(f"step {number} loss 2.0" for number in range(1, 40))
BROKEN = "flux capacitor error: no more plutonium"


def said(text: str) -> Diagnosis:
    return diagnose(records(text))


@pytest.mark.parametrize(
    "text",
    [
        STEPS,
        f"{BROKEN}\n{STEPS}",
        "reading\nTraining finished",
        "reading\nalgo-1-abcde exited with code 0",
        " 31%|###       | 31/100 [00:02<00:05, 12.1it/s]",
        "2026-08-20 10:00:00 INFO reading the data",
        "evaluation\nerrors: 0, failed_batches: 0\nstep 9 loss 1",
        f"{STEPS}\n2026-08-20 10:00:00 WARNING could not open the board, going on without it",
    ],
)
def test_what_shows_that_it_is_well_is_healthy(text: str) -> None:
    assert (said(text).verdict, said(text).unusual) == (Verdict.HEALTHY, ())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "starting",
        "loading the data\nbuilding the model",
        f"{STEPS}\n{BROKEN}",
        f"2026-08-20 10:00:00 INFO reading\n{BROKEN}",
        "2026-08-20 10:00:00 INFO connecting to 10.0.0.1",
        "algo-1:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 8 cudaDev 0 - Init START",
    ],
)
def test_what_shows_nothing_or_ends_with_an_error_that_nobody_knows_is_unknown(text: str) -> None:
    assert (said(text).verdict, said(text).root_cause) == (Verdict.UNKNOWN, None)


def test_the_unknown_shows_how_much_was_read_and_the_last_lines_that_are_unusual() -> None:
    found = said(f"{STEPS}\n{BROKEN}")
    assert found.unusual == (BROKEN,)
    assert "nothing known was met in 40 lines" in found.summary
    assert BROKEN in found.summary


def test_of_several_streams_without_times_no_line_is_called_the_last() -> None:
    one, two = records("something odd: 1", "algo-1"), records("something odder: 2", "algo-2")
    summaries = {diagnose([*first, *then]).summary for first, then in ((one, two), (two, one))}
    assert summaries == {"nothing known was met in 2 lines"}


def test_what_is_shown_of_them_names_who_printed_it_and_hides_secrets() -> None:
    lines = [Record(1.0, "algo-2", "[rank3]: strange error with token=hunter2")]
    (line,) = diagnose(lines).unusual
    assert line.startswith("algo-2 rank 3: strange error")
    assert "hunter2" not in line


def test_the_place_that_ran_it_decides_what_lines_leave_open() -> None:
    lines = records("starting")
    assert diagnose(lines, ending=Ending(End.COMPLETED)).verdict is Verdict.HEALTHY
    assert diagnose(lines, ending=Ending(End.RUNNING)).verdict is Verdict.HEALTHY
    failed = diagnose(records(STEPS), ending=Ending(End.FAILED))
    assert (failed.verdict, "39 lines" in failed.summary) == (Verdict.UNKNOWN, True)


def test_a_dump_that_could_not_be_read_leaves_it_open() -> None:
    found = diagnose(records(STEPS), evidence=[FileEvidence(unread=("rank_0: cut",))])
    assert found.verdict is Verdict.UNKNOWN
    assert "1 file of evidence could not be read" in found.summary


def test_silent_and_empty_streams_beside_one_that_goes_on_say_nothing() -> None:
    lines = [Record(float(number), "algo-1", f"step {number} loss 2") for number in range(9)]
    assert diagnose([Record(0.0, "algo-2", "starting"), *lines]).verdict is Verdict.HEALTHY


def test_the_rank_that_fell_silent_long_before_all_others_is_named() -> None:
    rows = [RankState(rank, last_output=1000.0 if rank != 3 else 400.0) for rank in range(8)]
    assert "rank 3 fell silent first, 10 minutes" in describe_first_silent(rows)
    assert describe_first_silent([RankState(rank, last_output=1000.0 + rank) for rank in range(8)]) is None
    stepped = [RankState(rank, step=40 if rank != 2 else 12) for rank in range(4)]
    assert "rank 2 stopped first, at step 12" in describe_first_silent(stepped)


def test_no_log_of_those_without_a_failure_becomes_unknown_unless_it_is_cut_off() -> None:
    """Of those in which nothing shows how the job goes on unknown is right: their labels say why."""
    without = [case for case in log_cases() if not case.codes and not case.failure_reason]
    unknown = {case.name for case in without if said(case.text).verdict is Verdict.UNKNOWN}
    assert unknown == {case.name for case in without if case.unknown}
    assert len(without) >= 300


def test_a_clock_without_a_year_gives_no_date() -> None:
    lines = [f"E1231 01:18:5{number}.928463388 31 flux.py:7] {BROKEN}" for number in range(3)]
    found = said("\n".join([*lines, BROKEN]))
    assert found.verdict is Verdict.UNKNOWN
    assert "2000" not in (found.summary or "")
    ended = said("\n".join([BROKEN, *lines]))
    assert "2000" not in (ended.summary or "")


@pytest.mark.parametrize(
    "last",
    [
        "algo-1:88:141 [3] init.cc:1247 NCCL WARN what nobody said before; NCCL_DEBUG=INFO shows more",
        "[rank3]:[E820 11:30:44.123 ProcessGroupNew.cpp:12] what no version before said",
        "[E ProcessGroupNew.cpp:12] what no version before said",
        "E0820 11:30:44.123000 140 torch/distributed/new.py:8] what no version before said",
        "the segments are mismatched",
        "the ring is timing out",
    ],
)
def test_a_last_line_of_the_level_of_errors_is_not_healthy_whatever_it_says(last: str) -> None:
    assert said(f"step 1 loss 2.3\nstep 2 loss 2.2\n{last}").verdict is Verdict.UNKNOWN
