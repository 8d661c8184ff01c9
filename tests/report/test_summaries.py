"""What is kept of a run's lines: bounded, and still true at the ends."""

from __future__ import annotations

import math
from collections.abc import Sequence

from launcher.diagnosis.logs.lines import Record
from launcher.report.page import charts_of, rows_of
from launcher.report.run_report import RunJob
from launcher.report.summaries import (
    FIRST_OF_TRACEBACK,
    LAST_OF_TRACEBACK,
    MOST_BUCKETS,
    MOST_SERIES_PIECES,
    Activity,
    ContextLine,
    LongSeries,
    LossPoint,
    NearbyLines,
    StepPace,
    slowest_of,
)
from launcher.report.summaries import MOST_PACE_PIECES as MOST_PACES
from tests.report.runs import START, failing_run, report_of

WRITER = ("algo-1", 0)


def test_a_silence_parts_what_was_printed_before_from_what_came_after() -> None:
    activity = Activity(0.25, 5.0)
    for second in (*range(0, 10), *range(30, 40)):
        activity.add(WRITER, START + second)
    spans = [(start - START, end - START) for start, end in activity.spans(WRITER)]
    assert [round(start) for start, _ in spans] == [0, 30]
    assert [round(end) for _, end in spans] == [9, 39]


def test_a_month_takes_no_more_buckets_than_an_hour() -> None:
    activity = Activity(0.25, 5.0)
    for second in range(0, 28 * 24 * 3600, 600):
        activity.add(WRITER, START + second)
    printed = activity.printed[WRITER]
    assert len(printed.buckets) <= MOST_BUCKETS
    assert (printed.first, printed.last) == (START, START + 28 * 24 * 3600 - 600)
    assert list(activity.spans(WRITER)) == [(printed.first, printed.last)]


def test_times_may_come_in_any_order() -> None:
    there, back = Activity(0.25, 5.0), Activity(0.25, 5.0)
    seconds = [0, 3, 900, 1000, 5000, 5001]
    for forward, backward in zip(seconds, reversed(seconds), strict=True):
        there.add(WRITER, START + forward)
        back.add(WRITER, START + backward)
    assert list(there.spans(WRITER)) == list(back.spans(WRITER))
    assert len(list(there.spans(WRITER))) == 4


def test_a_long_series_keeps_its_extremes_and_its_ends_nearly() -> None:
    series = LongSeries()
    for order in range(100_000):
        value = 50.0 if order == 77_777 else -50.0 if order == 3 else math.sin(order)
        series.add(LossPoint(value, order))
    points = list(series.points())
    assert len(points) <= 2 * MOST_SERIES_PIECES
    assert {50.0, -50.0} <= {point.value for point in points}
    assert [point.order for point in points] == sorted(point.order for point in points)
    assert not series.is_whole and series.seen == 100_000
    short = LongSeries()
    for order in range(10):
        short.add(LossPoint(1.0, order))
    assert [point.order for point in short.points()] == list(range(10))
    assert short.is_whole


def test_the_slowest_rank_is_the_one_whose_steps_take_longest() -> None:
    pace = StepPace()
    for step in range(10):
        for rank, each in ((0, 1.0), (1, 1.5), (2, 1.0)):
            pace.add(rank, step, START + step * each)
    slowest = slowest_of(pace.ranks())
    assert slowest is not None
    assert (slowest.rank, slowest.seconds, slowest.steps) == (1, 1.5, 9)
    assert max(point.slowest for point in pace.points()) == 1.5


def test_ranks_that_are_alike_have_no_slowest_and_a_counter_that_begins_anew_is_no_step_back() -> None:
    alike, anew = StepPace(), StepPace()
    for step in range(10):
        for rank in range(4):
            alike.add(rank, step, START + step * (1 + rank / 1000))
    assert slowest_of(alike.ranks()) is None
    for epoch in range(3):
        for step in range(5):
            anew.add(0, step, START + epoch * 100 + step)
    (only,) = anew.ranks()
    assert (only.seconds, only.steps) == (1.0, 12)


def test_step_times_of_a_long_run_are_brought_together() -> None:
    pace = StepPace()
    for step in range(50_000):
        pace.add(0, step, START + step * 10 + (500 if step > 40_000 else 0))
    points = list(pace.points())
    assert len(points) <= MOST_PACES
    assert max(point.slowest for point in points) == 510


def test_the_context_of_a_line_far_from_the_end_is_kept() -> None:
    context = NearbyLines()
    for order in range(10_000):
        text = "RuntimeError: it broke" if order == 5_000 else f"line {order}"
        context.add(ContextLine(text, "algo-1", 0, order, None))
    around = context.around("RuntimeError: it broke", "algo-1", 0)
    assert [line.order for line in around] == list(range(4_992, 5_006))
    assert [line.order for line in around if line.is_cause] == [5_000]
    # A storm of errors keeps the first and the last.
    context = NearbyLines()
    for order in range(50_000):
        context.add(ContextLine(f"error number {order}", "algo-1", 0, order, None))
    assert context.around("error number 0", None, None)
    assert context.around("error number 49999", None, None)
    assert not context.around("error number 25000", None, None)


def _traceback(depth: int, raised: str) -> list[str]:
    frames = [f'  File "/opt/ml/code/train.py", line {at}, in f{at}' for at in range(depth)]
    return ["Traceback (most recent call last):", *frames, raised]


def _kept(lines: Sequence[str], told: str) -> list[str]:
    context = NearbyLines()
    for order, text in enumerate(lines):
        context.add(ContextLine(text, "algo-1", 0, order, None))
    return [line.text for line in context.traceback_of([told], "algo-1", 0)]


def test_a_traceback_is_kept_with_what_it_came_of_and_the_rest_of_its_message() -> None:
    first = _traceback(2, "KeyError: 'a'")
    between = ["", "The above exception was the direct cause of the following exception:", ""]
    second = [*_traceback(1, "RuntimeError: Error(s) in loading state_dict:"), "\tMissing key(s): w"]
    kept = _kept([*first, *between, *second, "epoch=1"], "RuntimeError: Error(s) in loading state_dict:")
    assert [line.strip() for line in kept] == [line.strip() for line in [*first, *between, *second]]
    # Of one that was caught and has nothing to do with the next nothing is shown.
    assert _kept([*first, "went on", *second[:-1]], second[-2]) == second[:-1]


def test_of_a_very_long_traceback_the_outermost_frames_and_the_end_are_kept() -> None:
    lines = _traceback(300, "ValueError: too deep")
    kept = _kept(lines, "ValueError: too deep")
    assert kept == [*lines[:FIRST_OF_TRACEBACK], *lines[-LAST_OF_TRACEBACK:]]
    context = NearbyLines()
    for order in range(5_000):
        for text in _traceback(1, f"ValueError: number {order}"):
            context.add(ContextLine(text, "algo-1", order % 3, order, None))
    assert context.traceback_of(["ValueError: number 4999"], None, None)
    assert not context.traceback_of(["ValueError: number 2500"], None, None)


def test_the_line_of_the_rank_that_failed_goes_before_the_same_of_others() -> None:
    context = NearbyLines()
    for order, rank in enumerate((3, 1, 2)):
        context.add(ContextLine("RuntimeError: it broke", f"algo-{rank}", rank, order, None))
    (cause,) = [line for line in context.around("RuntimeError: it broke", "algo-2", 2) if line.is_cause]
    assert cause.rank == 2


def test_the_incident_stands_where_its_line_was_printed() -> None:
    run = report_of(failing_run())
    assert run.incident is not None
    assert (run.incident.rank, run.incident.at, run.incident.is_exact) == (2, START + 20, True)
    timeline = charts_of(run)["timeline"]
    assert timeline["rows"][timeline["incident"]["row"]] == "rank 2 on algo-2"
    assert timeline["incident"]["at"] == 20.0


def test_without_times_the_order_of_the_lines_is_the_axis() -> None:
    run = report_of(Record(None, each.host, each.text) for each in failing_run())
    charts = charts_of(run)
    assert charts["timeline"]["axis"] == "lines"
    assert charts["pace"] is None
    assert charts["loss"]["axis"] == "step"
    assert run.incident is not None and run.incident.at == 81


def test_printed_times_count_where_the_stream_has_none() -> None:
    run = report_of(
        Record(None, "algo-1", f"2026-11-22 10:00:{second:02} [rank0]: step={second} loss=1")
        for second in range(30)
    )
    assert run.lines.clock == "iso"
    assert run.lines.activity.end - run.lines.activity.start == 29
    # One that a line only speaks of does not stretch the run.
    lines = [Record(None, "", f"2026-11-22 10:00:{second:02} working") for second in range(30)]
    lines.insert(5, Record(None, "", "1999-01-01 00:00:00 is the date of the data set"))
    run = report_of(lines)
    assert run.lines.activity.end - run.lines.activity.start == 29


def test_a_rank_that_printed_nothing_has_an_empty_row_where_the_job_has_it() -> None:
    job = RunJob("Failed", True, hosts=2, processes_per_host=4)
    run = report_of(failing_run(), job=job)
    assert len(rows_of(run)) == 8
    assert charts_of(run)["timeline"]["rows"][6] == "rank 6 on algo-2"


def test_losses_are_those_of_rank_0_as_soon_as_it_prints() -> None:
    lines = [
        Record(START, "algo-2", "[rank5]: step=1 loss=9"),
        *(Record(START + step, "algo-1", f"[rank0]: step={step} loss={step}") for step in range(1, 4)),
        Record(START + 9, "algo-2", "[rank5]: step=4 loss=8"),
    ]
    run = report_of(lines)
    assert [point.value for point in run.lines.loss.points()] == [1, 2, 3]
    assert run.lines.loss_rank == 0
