"""When a training ends by the steps that it prints, and what is said where its limit ends it before."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.backends.interface import JobState, JobStatus, LogLine, Transition
from launcher.planning.request_view import RequestView
from launcher.session.runs.estimate_end import LimitWatch, goals_of, limit_of
from launcher.session.runs.read_job_lines import ProgressReader

HOUR = 3600.0


def request(*arguments: str, hours: int = 24, **hyperparameters: str) -> RequestView:
    return RequestView(
        {
            "TrainingJobName": "job",
            "AlgorithmSpecification": {"ContainerArguments": list(arguments)},
            "HyperParameters": hyperparameters,
            "StoppingCondition": {"MaxRuntimeInSeconds": hours * 3600},
        }
    )


def remaining_after(*printed: tuple[float, str], **goals: float) -> float | None:
    reader, progress = ProgressReader(goals=goals), None
    for time, text in printed:
        progress = reader.read([LogLine(time, "algo-1", text)]) or progress
    return progress.remaining if progress else None


def running(seconds: float, of: RequestView, **changes: Any) -> JobStatus:
    return JobStatus(
        "job",
        JobState.IN_PROGRESS,
        "Training",
        seconds=seconds,
        request=of,
        checkpoints="s3://b/c",
        **changes,
    )


@pytest.mark.parametrize(
    ("printed", "remaining"),
    [
        ([(0.0, "step 0/1000 loss 2.0"), (100.0, "step 100/1000 loss 1.9")], 899.0),
        ([(0.0, "step 100 of 1000 loss 2.0"), (100.0, "step 200 of 1000 loss 1.9")], 800.0),
        ([(0.0, "Epoch 1/10 loss 2.0"), (60.0, "Epoch 2/10 loss 1.9")], 480.0),
        ([(0.0, " 10%|#  | 10/100 [00:10<, loss=2.0]"), (90.0, " 20%|#  | 20/100 [00:10<, loss=1]")], 720.0),
        ([(0.0, "Epoch: [1][10/90] loss 1.0"), (50.0, "Epoch: [1][20/90] loss 1.0")], 350.0),
    ],
)
def test_the_end_follows_from_the_pace_of_the_steps(
    printed: list[tuple[float, str]], remaining: float
) -> None:
    assert remaining_after(*printed) == pytest.approx(remaining)


def test_what_the_job_was_told_counts_where_the_lines_do_not_say_how_many_there_are() -> None:
    printed = [(0.0, "step=500 loss=2.0"), (500.0, "step=1000 loss=1.0")]
    assert remaining_after(*printed, step=4000.0) == pytest.approx(3000.0)
    assert remaining_after(*printed) is None


def test_epochs_that_are_printed_all_along_have_not_ended_when_they_are_printed() -> None:
    printed = [(float(time), f"epoch {1 + time // 100} loss 1.0") for time in range(0, 250, 10)]
    # Ten epochs of 100 seconds, of which two are over at 200 seconds; the last line is of 240.
    assert remaining_after(*printed, epoch=10.0) == pytest.approx(760.0)


def test_parts_of_epochs_count_as_they_stand() -> None:
    printed = [(0.0, "{'loss': 2.0, 'epoch': 0.5}"), (100.0, "{'loss': 1.0, 'epoch': 1.0}")]
    assert remaining_after(*printed, epoch=3.0) == pytest.approx(400.0)


def test_steps_that_begin_anew_in_each_epoch_say_nothing_of_the_end() -> None:
    printed = [(0.0, "step 1/50 loss 1"), (100.0, "step 50/50 loss 1"), (110.0, "step 1/50 loss 1")]
    assert remaining_after(*printed) is None


def test_there_is_no_pace_after_a_single_step_or_a_few_seconds() -> None:
    assert remaining_after((0.0, "step 1/1000 loss 2.0")) is None
    assert remaining_after((0.0, "step 1/1000 loss 2.0"), (5.0, "step 2/1000 loss 2.0")) is None


def test_a_job_that_is_done_needs_no_more_time() -> None:
    assert remaining_after((0.0, "step 10/100 loss 2"), (900.0, "step 100/100 loss 1")) == 0.0


@pytest.mark.parametrize(
    ("of", "goals"),
    [
        (request("--", "--max-steps", "500"), {"step": 500.0}),
        (request("--", "--epochs=3"), {"epoch": 3.0}),
        (request(num_train_epochs="4", max_steps="-1"), {"epoch": 4.0}),
        (request(epochs='"12"'), {"epoch": 12.0}),
        (request("--", "max_iters=600000"), {"step": 600000.0}),
        (request("--", "--epochs", "many", lr="3"), {}),
        (None, {}),
    ],
)
def test_how_far_a_job_trains_is_in_its_hyperparameters_or_arguments(
    of: RequestView | None, goals: dict[str, float]
) -> None:
    assert goals_of(of) == goals


def test_a_job_that_will_not_end_in_time_is_told_of_early_and_again_near_its_limit() -> None:
    watch, of = LimitWatch(), request(hours=10)
    assert watch.look(running(0.2 * HOUR, of), 30 * HOUR) is None  # Too early to be believed.
    first = watch.look(running(1.0 * HOUR, of), 29 * HOUR)
    assert first is not None and first.is_too_late
    assert first.message == (
        "job needs about 29 hours more, and its limit of 10h (limits.max_runtime) stops it in 9 hours."
    )
    assert "--set checkpoint.resume_from=job" in first.remedy
    assert watch.look(running(2.0 * HOUR, of), 28 * HOUR) is None
    assert watch.look(running(8.1 * HOUR, of), 20 * HOUR) is not None
    assert watch.look(running(8.2 * HOUR, of), 20 * HOUR) is None


def test_near_its_limit_a_job_of_unknown_end_is_told_of_and_one_that_ends_in_time_is_not() -> None:
    of = request(hours=10)
    unknown = LimitWatch().look(running(8.0 * HOUR, of), None)
    assert unknown is not None
    assert unknown.message == (
        "job is stopped in 2 hours by its limit of 10h (limits.max_runtime), and nothing shows when it would "
        "be done."
    )
    assert LimitWatch().look(running(8.0 * HOUR, of), HOUR) is None
    assert LimitWatch().look(running(7.0 * HOUR, of), None) is None


def test_the_limit_does_not_count_the_time_before_there_are_hosts() -> None:
    waits = (Transition("Starting", 0.0, 3 * HOUR), Transition("Training", 3 * HOUR))
    seen = limit_of(running(5 * HOUR, request(hours=10), transitions=waits), None)
    assert seen is not None
    assert seen.left == 8 * HOUR


def test_a_job_without_checkpoints_loses_what_it_has_learned() -> None:
    status = JobStatus("job", JobState.IN_PROGRESS, "Training", seconds=9 * HOUR, request=request(hours=10))
    seen = LimitWatch().look(status, 5 * HOUR)
    assert seen is not None
    assert seen.remedy.startswith("it keeps no checkpoints")


@pytest.mark.parametrize(
    "status",
    [
        JobStatus("job", JobState.COMPLETED, "Completed", seconds=9 * HOUR, request=request(hours=10)),
        JobStatus("job", JobState.IN_PROGRESS, "Starting", seconds=9 * HOUR, request=request(hours=10)),
        JobStatus("job", JobState.IN_PROGRESS, "Training", seconds=9 * HOUR),
    ],
)
def test_a_job_that_does_not_train_has_no_limit_to_come_near(status: JobStatus) -> None:
    assert LimitWatch().look(status, None) is None
