"""Two requests side by side."""

from __future__ import annotations

from launcher.planning.request_diff import request_diff

ONE = {
    "TrainingJobName": "a-1",
    "CheckpointConfig": {"S3Uri": "s3://b/a-1"},
    "HyperParameters": {"lr": "0.1"},
}


def test_two_plans_of_one_job_do_not_differ() -> None:
    other = {**ONE, "TrainingJobName": "a-2", "CheckpointConfig": {"S3Uri": "s3://b/a-2"}}
    assert request_diff(ONE, other) == []


def test_a_changed_value_is_shown_before_and_after() -> None:
    lines = request_diff(ONE, {**ONE, "HyperParameters": {"lr": "0.2"}})
    assert '-    "lr": "0.1"' in lines
    assert '+    "lr": "0.2"' in lines
