"""A job's diagnosis through its backend, and log files as records."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from launcher.backends.interface import Cursor, JobState, JobStatus, LogBatch, LogLine
from launcher.failure_modes.refusal import AwsRefusal, Refusal
from launcher.session.diagnosis import diagnose_job
from launcher.session.log_files import records_of

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


def test_hosts_are_known_by_the_names_of_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "hosts" / "algo-2").mkdir(parents=True)
    (tmp_path / "hosts" / "algo-2" / "log").write_text("a\n")
    (tmp_path / "job-algo-1-1724.log").write_text("b\n")
    (tmp_path / "model.pt").write_bytes(b"\0")
    assert [(line.host, line.text) for line in records_of([tmp_path])] == [("algo-2", "a"), ("algo-1", "b")]


def test_several_files_without_hosts_are_told_apart_by_name(tmp_path: Path) -> None:
    for name in ("left.log", "right.log"):
        (tmp_path / name).write_text("x")
    assert {line.host for line in records_of([tmp_path])} == {"left.log", "right.log"}
    assert [line.host for line in records_of([tmp_path / "left.log"])] == [""]


def test_bytes_that_are_no_utf8_do_not_hide_their_line() -> None:
    (line,) = records_of([Path("-")], io.BytesIO(b"\xff\xfe loss\r\n"))
    assert line.text.endswith(" loss")


def test_what_is_not_a_regular_file_is_refused_or_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.log")
    with pytest.raises(Refusal, match=r"pipe\.log cannot be read: it is a pipe"):
        list(records_of([tmp_path / "pipe.log"]))
    (tmp_path / "a.log").write_text("step 1")
    (tmp_path / "zero.log").symlink_to("/dev/zero")
    assert [record.text for record in records_of([tmp_path])] == ["step 1"]


def test_logs_are_found_however_deep_their_folder_is(tmp_path: Path, deepest_folder: Path) -> None:
    (deepest_folder / "deep.log").write_text("step 1")
    assert [record.text for record in records_of([tmp_path])] == ["step 1"]


def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(Refusal, match="too long"):
        list(records_of([Path("x" * 10_000)]))


def test_an_empty_folder_and_an_absent_file_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent.log"):
        with pytest.raises(Refusal):
            list(records_of([path]))
