"""A job's diagnosis through its backend."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from launcher.backends.interface import Cursor, JobState, JobStatus, LogBatch, LogLine
from launcher.diagnosis.model import Verdict
from launcher.failure_modes.refusal import AwsRefusal
from launcher.planning.request_view import RequestView
from launcher.session.diagnosis import diagnose_job

KILLED = "RuntimeError: CUDA error: uncorrectable ECC error encountered"


@dataclass
class RecordedJob:
    """A backend that answers for one job, batch by batch."""

    status: JobStatus
    batches: list[list[LogLine]] = field(default_factory=list)
    refuses_logs: bool = False
    name: str = "recorded"
    runs_here: bool = False

    def describe(self, job_name: str) -> JobStatus:
        return self.status

    def read_logs(self, job_name: str, cursor: Cursor) -> LogBatch:
        if self.refuses_logs:
            raise AwsRefusal("no logs.", "Ask.")
        position = int(cursor.get("all", "0"))
        lines = self.batches[position] if position < len(self.batches) else []
        return LogBatch(lines, {"all": str(position + bool(lines))})


def failed(reason: str | None = None, state: JobState = JobState.FAILED) -> JobStatus:
    return JobStatus("job", state, "Failed", reason)


def test_all_batches_are_read() -> None:
    job = RecordedJob(failed(), [[LogLine(1.0, "algo-1", "step")], [LogLine(2.0, "algo-2", KILLED)]])
    root = diagnose_job(job, "job").root_cause
    assert (root.finding.code, root.host) == ("HW001", "algo-2")


def test_a_job_that_never_started_is_judged_by_its_reason() -> None:
    job = RecordedJob(failed("CapacityError: Unable to provision requested ML compute capacity."))
    assert diagnose_job(job, "job").root_cause.finding.code == "CAP001"


def test_a_completed_job_has_no_root_cause() -> None:
    job = RecordedJob(failed(state=JobState.COMPLETED), [[LogLine(1.0, "algo-1", KILLED)]])
    assert diagnose_job(job, "job").root_cause is None


def test_without_access_to_the_logs_the_reason_still_counts() -> None:
    job = RecordedJob(failed("CapacityError: Unable to provision requested"), refuses_logs=True)
    assert diagnose_job(job, "job").root_cause.finding.code == "CAP001"


def test_without_access_to_the_logs_and_without_a_reason_the_refusal_is_told() -> None:
    with pytest.raises(AwsRefusal):
        diagnose_job(RecordedJob(failed(), refuses_logs=True), "job")


FULL = (
    "[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 5 has a total "
    "capacity of 39.40 GiB of which 1.20 GiB is free."
)


def test_the_remedy_has_the_numbers_that_the_job_was_given() -> None:
    asked = RequestView({"HyperParameters": {"batch_size": "32"}})
    job = RecordedJob(replace(failed(), request=asked), [[LogLine(1.0, "algo-1", FULL)]])
    assert diagnose_job(job, "job").root_cause.finding.remedy.startswith("Set batch_size to 24 instead of 32")


def test_so_it_has_where_only_the_reason_is_known() -> None:
    asked = RequestView({"HyperParameters": {"batch_size": "32"}})
    status = replace(failed(f"AlgorithmError: {FULL}"), request=asked)
    job = RecordedJob(status, refuses_logs=True)
    assert diagnose_job(job, "job").root_cause.finding.remedy.startswith("Set batch_size to 24 instead of 32")


def silent(state: JobState = JobState.IN_PROGRESS, phase: str = "Training") -> RecordedJob:
    lines = [LogLine(1e9 + 10 * step, "algo-1", f"step {step} loss 2.0") for step in range(40)]
    return RecordedJob(JobStatus("job", state, phase), [lines])


def test_a_job_that_still_trains_and_has_long_been_silent_is_not_called_healthy() -> None:
    assert diagnose_job(silent(), "job", now=1e9 + 9000).verdict is Verdict.UNKNOWN
    assert diagnose_job(silent(), "job", now=1e9 + 400).verdict is Verdict.HEALTHY


@pytest.mark.parametrize("phase", ["Starting", "Downloading", "Uploading"])
def test_in_other_phases_than_training_it_may_be_silent(phase: str) -> None:
    assert diagnose_job(silent(phase=phase), "job", now=1e9 + 9000).verdict is Verdict.HEALTHY
