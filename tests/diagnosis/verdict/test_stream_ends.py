"""A job that stood still is not called healthy, nor one that only its limit ended; one that is slow is."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import Record
from launcher.diagnosis.model import End, Ending, Stop, StopCause, Verdict

NOON = 1_790_000_000.0
HOUR = 3600.0


def steps(
    host: str, every: float, count: int, words: str = "step {} loss 2.0", first: int = 1
) -> list[Record]:
    return [Record(NOON + n * every, host, words.format(n), host) for n in range(first, first + count)]


def limited(at: float, cause: StopCause = StopCause.MAX_RUNTIME) -> Ending:
    return Ending(End.STOPPED, "llama-1", Stop(cause, at=at, limit=86_400.0))


def test_a_job_that_was_silent_for_hours_when_its_limit_ended_it_is_unknown() -> None:
    found = diagnose(steps("algo-1", 10, 40), ending=limited(NOON + 5 * HOUR))
    assert (found.verdict, found.root_cause) == (Verdict.UNKNOWN, None)
    assert "it stood still" in (found.summary or "")
    assert [each.code for each in found.findings] == ["STOP001"]
    assert found.unusual


def test_it_is_told_who_of_them_fell_silent_first() -> None:
    lines = [*steps("algo-1", 10, 200), *steps("algo-2", 10, 40)]
    found = diagnose(lines, ending=limited(NOON + 5 * HOUR))
    assert "algo-2 fell silent first, 26 minutes before the last output of all" in (found.summary or "")


@pytest.mark.parametrize("cause", [StopCause.ASKED, StopCause.SPOT])
def test_what_somebody_stopped_is_stopped_however_long_it_was_silent(cause: StopCause) -> None:
    assert diagnose(steps("algo-1", 10, 40), ending=limited(NOON + HOUR, cause)).verdict is Verdict.STOPPED


@pytest.mark.parametrize(
    ("every", "count", "at"),
    [(10, 40, NOON + 405), (10, 40, NOON + 400 + 500), (HOUR, 6, NOON + 8 * HOUR), (10, 2, NOON + 9 * HOUR)],
    ids=["to the end", "a short silence", "an epoch takes an hour", "too few lines for a rhythm"],
)
def test_a_job_that_went_on_until_its_limit_was_only_stopped(every: float, count: int, at: float) -> None:
    assert diagnose(steps("algo-1", every, count), ending=limited(at)).verdict is Verdict.STOPPED


def test_a_host_that_fell_silent_while_others_count_on_is_named() -> None:
    found = diagnose([*steps("algo-1", 10, 200), *steps("algo-2", 10, 40)])
    assert found.verdict is Verdict.UNKNOWN
    assert "algo-2 fell silent first" in (found.summary or "")


def test_so_is_a_rank_of_one_host() -> None:
    lines = [
        *steps("algo-1", 30, 60, "[rank0]: step {} loss 2"),
        *steps("algo-1", 30, 20, "[rank1]: step {}"),
    ]
    found = diagnose(sorted(lines, key=lambda line: line.time or 0.0))
    assert "rank 1 fell silent first" in (found.summary or "")


def test_hosts_that_print_other_times_are_not_compared() -> None:
    lines = [Record(None, "algo-1", f"2026-09-21 12:{n:02}:00 step {n}", "algo-1") for n in range(30)]
    lines += [Record(None, "algo-2", f"2026-09-21 14:{n:02}:00 step {n}", "algo-2") for n in range(30)]
    assert diagnose(lines).verdict is Verdict.HEALTHY


def test_hosts_that_print_no_steps_may_be_silent() -> None:
    quiet = steps("algo-2", 1, 30, "algo-2:7:9 [0] NCCL INFO Channel {}")
    assert diagnose([*steps("algo-1", 10, 200), *quiet]).verdict is Verdict.HEALTHY


def test_information_that_goes_on_without_a_step_is_no_training() -> None:
    idle = steps("algo-1", 60, 60, "2026-09-21 12:00:00 INFO gpu_monitor: 71 C, sample {}", first=10)
    found = diagnose([*steps("algo-1", 10, 40), *idle])
    assert found.verdict is Verdict.UNKNOWN
    assert "algo-1 made no step in its last" in (found.summary or "")


def test_saving_and_evaluating_for_a_while_is_not_standing_still() -> None:
    saving = steps("algo-1", 60, 20, "2026-09-21 12:00:00 INFO uploading part {}", first=10)
    assert diagnose([*steps("algo-1", 10, 40), *saving]).verdict is Verdict.HEALTHY


def test_one_that_says_that_training_is_finished_may_go_on_as_it_likes() -> None:
    idle = steps("algo-1", 60, 60, "2026-09-21 12:00:00 INFO gpu_monitor: 71 C, sample {}", first=10)
    lines = [*steps("algo-1", 10, 40), Record(NOON + 400, "algo-1", "Training finished", "algo-1"), *idle]
    assert diagnose(lines).verdict is Verdict.HEALTHY


STARTED = "2026-09-21 12:00:00,001 sagemaker-training-toolkit INFO     Invoking user script"


def test_a_log_of_the_toolkit_without_its_last_word_stops_in_the_middle() -> None:
    found = diagnose([Record(NOON, "algo-1", STARTED, "algo-1"), *steps("algo-1", 10, 40)])
    assert found.verdict is Verdict.UNKNOWN
    assert "the log stops in the middle" in (found.summary or "")


def test_one_with_it_is_healthy() -> None:
    end = "2026-09-21 12:09:00,001 sagemaker-training-toolkit INFO     Reporting training SUCCESS"
    lines = [Record(NOON, "algo-1", STARTED), *steps("algo-1", 10, 40), Record(NOON + 999, "algo-1", end)]
    assert diagnose(lines).verdict is Verdict.HEALTHY


def test_the_place_decides_where_it_knows() -> None:
    lines = [Record(NOON, "algo-1", STARTED, "algo-1"), *steps("algo-1", 10, 40)]
    for end in (End.COMPLETED, End.RUNNING):
        assert diagnose(lines, ending=Ending(end)).verdict is Verdict.HEALTHY


def running(at: float) -> Ending:
    return Ending(End.RUNNING, "llama-1", trains_at=at)


def test_a_job_that_still_runs_and_is_long_silent_is_unknown() -> None:
    found = diagnose(steps("algo-1", 10, 40), ending=running(NOON + 3 * HOUR))
    assert (found.verdict, found.root_cause) == (Verdict.UNKNOWN, None)
    assert "it still runs, but nothing was printed for 2 hours" in (found.summary or "")
    assert found.unusual


def test_it_is_told_since_when_and_who_was_silent_first() -> None:
    lines = [
        *steps("algo-1", 10, 120, "[rank0]: step {} loss 2.0"),
        *steps("algo-2", 10, 20, "[rank1]: step {} loss 2.0"),
    ]
    found = diagnose(lines, ending=running(NOON + 3 * HOUR))
    assert "the last output came at 2026-09-21 14:33:20" in (found.summary or "")
    assert "rank 1 fell silent first, 16 minutes before the last output of all" in (found.summary or "")
    assert [(row.rank, row.last_output) for row in found.ranks] == [(0, NOON + 1200), (1, NOON + 200)]


def test_where_all_fell_silent_together_it_is_told_who_had_made_fewer_steps() -> None:
    lines = [
        line
        for rank, count in ((0, 60), (1, 59), (2, 60))
        for line in steps("algo-1", 10, count, f"[rank{rank}]: step {{}} loss 2.0")
    ]
    found = diagnose(sorted(lines, key=lambda line: line.time or 0.0), ending=running(NOON + HOUR))
    assert "rank 1 stopped first, at step 59, where others came to 60" in (found.summary or "")


def test_so_is_one_that_prints_on_and_makes_no_step() -> None:
    idle = steps("algo-1", 60, 80, "gpu_monitor: 71 C, sample {}", first=10)
    found = diagnose([*steps("algo-1", 10, 40), *idle], ending=running(NOON + 4860))
    assert found.verdict is Verdict.UNKNOWN
    assert "it still runs and prints, but nobody made a step for 74 minutes" in (found.summary or "")


@pytest.mark.parametrize(
    ("every", "count", "at"),
    [
        (10, 40, NOON + 900),
        (HOUR, 6, NOON + 8 * HOUR),
        (10, 3, NOON + 9 * HOUR),
    ],
    ids=["a short silence", "an epoch takes an hour", "too few lines for a rhythm"],
)
def test_one_that_is_no_more_silent_than_before_is_well(every: float, count: int, at: float) -> None:
    assert diagnose(steps("algo-1", every, count), ending=running(at)).verdict is Verdict.HEALTHY


def test_while_anybody_makes_steps_a_host_may_be_silent() -> None:
    lines = [*steps("algo-1", 10, 400), *steps("algo-2", 10, 40)]
    assert diagnose(lines, ending=running(NOON + 4010)).verdict is Verdict.HEALTHY


def test_one_whose_training_has_finished_may_upload_as_long_as_it_likes() -> None:
    lines = [*steps("algo-1", 10, 40), Record(NOON + 400, "algo-1", "Training finished", "algo-1")]
    assert diagnose(lines, ending=running(NOON + 3 * HOUR)).verdict is Verdict.HEALTHY


def test_times_that_lines_print_are_not_held_against_another_clock() -> None:
    lines = [Record(None, "algo-1", f"2026-09-21 12:{n:02}:00 step {n} loss 2", "algo-1") for n in range(30)]
    assert diagnose(lines, ending=running(NOON + 99 * HOUR)).verdict is Verdict.HEALTHY


def mixed(ranks: int, silent: int, after: int, count: int = 60) -> list[Record]:
    """Steps of all ranks of a host in one stream, of which one prints nothing after a step."""
    lines = [Record(NOON, "algo-1", f"world_size: {ranks}", "algo-1")]
    for step in range(1, count + 1):
        lines += [
            Record(NOON + 10 * step, "algo-1", f"[rank{rank}]: step {step} loss 2.0", "algo-1")
            for rank in range(ranks)
            if rank != silent or step <= after
        ]
    return lines


def test_a_rank_that_is_not_in_the_last_lines_was_silent_before_those_that_are() -> None:
    lines = [*mixed(8, silent=5, after=20), Record(NOON + 4000, "algo-1", "[rank3]: step 61", "algo-1")]
    found = diagnose(lines, ending=running(NOON + 3 * HOUR))
    assert found.verdict is Verdict.UNKNOWN
    assert "rank 5 printed nothing in the last 128 lines, where others did" in (found.summary or "")
    assert "silent first" not in (found.summary or "")
    assert [row.rank for row in found.ranks if row.state == "not in the last 128 lines"] == [5]


def test_of_a_long_stream_it_is_said_that_only_the_last_lines_were_compared() -> None:
    lines = mixed(4, silent=2, after=45)[1:]
    found = diagnose(lines, ending=running(NOON + 3 * HOUR))
    assert "of the ranks in the last 128 lines rank 2 fell silent first, 2 minutes" in (found.summary or "")


def test_where_one_rank_alone_prints_nobody_is_said_to_be_silent() -> None:
    lines = [Record(NOON, "algo-1", "world_size: 8"), *steps("algo-1", 10, 200, "[rank0]: step {} loss 2.0")]
    found = diagnose(lines, ending=running(NOON + 3 * HOUR))
    assert found.verdict is Verdict.UNKNOWN
    assert "rank" not in (found.summary or "")
