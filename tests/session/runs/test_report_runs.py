"""What a page is made of, gathered from a job."""

from __future__ import annotations

from typing import cast

from launcher.backends.interface import (
    Backend,
    FoundJob,
    JobState,
    JobStatus,
    LogLine,
    Transition,
)
from launcher.diagnosis.model import Verdict
from launcher.planning.request_view import RequestView
from launcher.report.page import page_of
from launcher.session.runs.report_runs import report_of_job
from tests.session.runs.test_diagnose_job import KILLED, RecordedJob

START = 1_790_000_000.0


def found(state: JobState, *lines: str, **more: object) -> FoundJob:
    batches = [[LogLine(START + at, "algo-1", line)] for at, line in enumerate(lines)]
    status = JobStatus(
        "job", state, str(state), seconds=65.0, hosts=1, processes_per_host=2,
        transitions=(Transition("Training", START, START + 65),), **more,
    )  # fmt: skip
    return FoundJob(cast(Backend, RecordedJob(status, batches)), status)


def test_one_reading_of_the_lines_gives_diagnosis_ranks_and_losses() -> None:
    job = found(JobState.FAILED, "[rank0]: step=1 loss=2", "[rank0]: step=2 loss=1", f"[rank1]: {KILLED}")
    report = report_of_job(job)
    assert report.diagnosis.verdict is Verdict.FAILED
    assert [(state.rank, state.step) for state in report.ranks] == [(0, 2), (1, None)]
    assert [point.value for point in report.lines.loss.points()] == [2, 1]
    assert report.incident is not None and (report.incident.rank, report.incident.at) == (1, START + 2)
    assert "job failed after 1m05s" in page_of(report)


def test_when_a_rank_was_last_heard_is_told_by_its_own_lines() -> None:
    job = found(
        JobState.FAILED,
        "[rank1]: step=1 loss=2",
        "[rank0]: step=1 loss=2",
        "slipway: CODE001 rank 1 on algo-1: KeyError: 'labels' (train.py:5)",
    )
    assert [state.last_output for state in report_of_job(job).ranks] == [START + 1, START]


def test_the_jobs_own_metrics_are_read() -> None:
    job = found(JobState.COMPLETED, "[rank0]: mistake is 7", metrics={"train:loss": "mistake is ([0-9]+)"})
    assert [point.value for point in report_of_job(job).lines.loss.points()] == [7]


def test_phases_come_from_the_status() -> None:
    (phase,) = report_of_job(found(JobState.COMPLETED, "hello")).job.phases  # type: ignore[union-attr]
    assert (phase.name, phase.ended) == ("Training", START + 65)


def test_the_page_of_an_ended_job_says_what_its_billed_time_went_to() -> None:
    request = RequestView(
        {
            "TrainingJobArn": "arn:aws:sagemaker:us-west-2:123456789012:training-job/job",
            "ResourceConfig": {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 1},
        }
    )
    job = found(
        JobState.COMPLETED,
        *("loading",) * 5,
        *(f"[rank0]: step={step} loss=1" for step in range(1, 51)),
        billable_seconds=65.0,
        request=request,
    )
    page = page_of(report_of_job(job))
    assert "0.46 USD for 1m05s that each host is billed for." in page
    assert "It went to: 1m00s of training and 5s to the first step." in page
