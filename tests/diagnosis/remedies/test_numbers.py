"""Remedies with the numbers of the job: hosts, disks, workers, time-outs and quotas."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.record import Record
from launcher.diagnosis.remedies.asked_job import NOTHING_ASKED, AskedJob
from launcher.failure_modes.catalogue import CATALOGUE

P3 = AskedJob("ml.p3.8xlarge", processes_per_host=8, volume_size_gb=30, hyperparameters={"num_workers": "8"})
P4D = replace(P3, instance_type="ml.p4d.24xlarge")
DISK = "OSError: [Errno 28] No space left on device: '/opt/ml/checkpoints/step-100.pt'"
BUS = "RuntimeError: DataLoader worker (pid 411) is killed by signal: Bus error."
ORDINAL = "RuntimeError: CUDA error: invalid device ordinal"
WATCHDOG = (
    "[rank1]:[E101 10:00:00.1 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=180, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for "
    "600031 milliseconds before timing out."
)
QUOTA = (
    "ResourceLimitExceeded: The account-level service limit 'ml.p4d.24xlarge for training job usage' is 2 "
    "Instances, with current utilization of 1 Instances and a request delta of 4 Instances. Please contact"
)


def remedy(line: str, job: AskedJob = NOTHING_ASKED) -> tuple[str, str]:
    """The code of the root cause, and what to do."""
    cause = diagnose([Record(None, "algo-1", line)], job=job).root_cause
    assert cause is not None
    return cause.finding.code, cause.finding.remedy


@pytest.mark.parametrize(
    ("line", "job", "code", "said"),
    [
        (DISK, P3, "DISK001", "Raise resources.volume_size_gb, which is 30, such as to 60."),
        (DISK, P4D, "DISK001", "ml.p4d.24xlarge has 8000 GB of disks of its own"),
        (
            BUS,
            P3,
            "DATA005",
            "Set num_workers to 4 instead of 8: 8 processes start 64 of them on each host, which has 32 "
            "vCPUs.",
        ),
        (BUS, replace(P3, processes_per_host=None), "DATA005", "Set num_workers to 4 instead of 8. "),
        (
            "RuntimeError: DataLoader worker (pid 10231) is killed by signal: Killed.",
            P3,
            "MEM002",
            "Set num_workers to 4 instead of 8: 8 processes start 64",
        ),
        ("OSError: [Errno 24] Too many open files: '/data/x'", P3, "DATA010", "Set num_workers to 4"),
        (
            ORDINAL,
            P3,
            "DIST003",
            "Set distribution.processes_per_host to 4 instead of 8, or leave it out: ml.p3.8xlarge has so",
        ),
        (WATCHDOG, NOTHING_ASKED, "NCCL004", "It waited 10m; the process group's limit is 10m. "),
        (
            "slipway: NCCL004 rank 2 on algo-2 has not entered all_reduce #21 [4160] (train.py:27), in which "
            "ranks 0, 1, 3 wait; no rank has made a step for 62 s (limit 60 s)",
            NOTHING_ASKED,
            "NCCL004",
            "The watchdog waited 1m2s for a step; its limit (watchdog.stall) was 1m. ",
        ),
        (
            QUOTA,
            NOTHING_ASKED,
            "CAP002",
            "Request an increase of 'ml.p4d.24xlarge for training job usage' in Service Quotas from 2 to at "
            "least 5 (1 in use, 4 for this job)",
        ),
    ],
)
def test_the_remedy_has_the_numbers(line: str, job: AskedJob, code: str, said: str) -> None:
    found, told = remedy(line, job)
    assert found == code
    assert told.startswith(said)


@pytest.mark.parametrize(
    ("line", "job"),
    [
        (DISK, NOTHING_ASKED),
        (DISK, replace(P3, instance_type="ml.unknown.large")),
        (DISK, replace(P3, volume_size_gb=None)),
        (DISK.replace("/opt/ml/checkpoints", "/home/me"), P3),
        ("OSError: [Errno 122] Disk quota exceeded", P3),
        (BUS, NOTHING_ASKED),
        (BUS, replace(P3, hyperparameters={"num_workers": "0"})),
        (BUS, replace(P3, hyperparameters={"workers_per_day": "8"})),
        (ORDINAL, NOTHING_ASKED),
        (ORDINAL, replace(P3, processes_per_host=4)),
        (WATCHDOG.replace("Timeout(ms)=600000", ""), NOTHING_ASKED),
        ("ResourceLimitExceeded: The account-level service limit", NOTHING_ASKED),
    ],
)
def test_where_a_number_is_not_known_the_old_sentence_stands(line: str, job: AskedJob) -> None:
    code, told = remedy(line, job)
    assert told == CATALOGUE[code].remedy


def test_a_time_out_is_read_from_whichever_line_has_it() -> None:
    first = "[rank1]:[E101 10:00:00.1 x.cpp:1] [PG 0 Rank 1] Timeout at NCCL work: 180, last enqueued NCCL "
    first += "work: 180"
    lines = [Record(None, "algo-1", line) for line in (first, WATCHDOG)]
    cause = diagnose(lines).root_cause
    assert cause is not None
    assert cause.finding.remedy.startswith("It waited 10m; the process group's limit is 10m.")


def test_the_argument_that_sets_the_time_out_is_named() -> None:
    _, told = remedy(WATCHDOG, AskedJob(hyperparameters={"ddp_timeout": "600"}))
    assert told.endswith("That limit is ddp_timeout, which is 600.")


def test_a_line_that_calls_for_another_remedy_keeps_it() -> None:
    _, told = remedy("RuntimeError: DataLoader timed out after 30 seconds", P3)
    assert told.startswith("A worker hangs or is slow")


def test_what_the_script_was_given_is_in_no_text_of_the_job() -> None:
    assert "hidden-value" not in repr(AskedJob(hyperparameters={"key": "hidden-value"}, arguments=("a",)))
