"""What SLURM and Kubernetes say of a job that they ended: which failure mode that is, in all their words."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import Verdict
from tests.diagnosis.cases import records

STEPS = "\n".join(f"[rank0]: step {step} loss 2.0" for step in range(40))
AT = "2026-08-20T11:30:44"


@pytest.mark.parametrize(
    "before", ["slurmstepd: error: ", "slurmstepd-gpu-1: error: ", f"[{AT}.123] error: "]
)
@pytest.mark.parametrize("what", ["STEP 4711.0", "JOB 4711", "STEP 4711.batch", "STEP 4711+0.0"])
@pytest.mark.parametrize(
    "why",
    [
        " DUE TO TIME LIMIT",
        " DUE TO PREEMPTION",
        " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS",
        " DUE TO JOB REQUEUE",
        " DUE to SIGNAL Terminated",
        "",
    ],
)
def test_what_slurm_cancels_was_ended_from_outside(before: str, what: str, why: str) -> None:
    found = diagnose(records(f"{STEPS}\n{before}*** {what} ON gpu-1 CANCELLED AT {AT}{why} ***"))
    assert found.verdict is Verdict.STOPPED
    assert "SLURM cancelled it" in (found.root_cause.finding.message if found.root_cause else "")


def test_what_slurm_ends_for_the_failure_of_a_task_was_not_ended_from_outside() -> None:
    lines = (
        f"slurmstepd: error: *** STEP 4711.0 ON gpu-1 CANCELLED AT {AT} DUE TO TASK FAILURE ***\n"
        "srun: error: gpu-1: tasks 0-57,59-63: Terminated"
    )
    found = diagnose(records(lines))
    assert found.root_cause is not None
    assert (found.verdict, found.root_cause.finding.code) == (Verdict.FAILED, "CODE001")


def test_a_host_that_slurm_lost_is_named() -> None:
    lines = (
        "srun: error: Node failure on gpu-17\n"
        "srun: Job step aborted: Waiting up to 62 seconds for job step to finish.\n"
        f"slurmstepd: error: *** STEP 1.0 ON gpu-3 CANCELLED AT {AT} DUE TO NODE FAILURE, SEE SLURMCTLD "
        "LOG FOR DETAILS ***"
    )
    found = diagnose(records(f"{STEPS}\n{lines}"))
    assert found.verdict is Verdict.STOPPED
    assert found.root_cause is not None
    assert (found.root_cause.host, found.root_cause.finding.code) == ("gpu-17", "STOP001")


def test_memory_that_slurm_calls_uncorrectable_is_a_broken_host() -> None:
    line = f"slurmstepd: error: *** STEP 4711.0 ON gpu-1 UNCORRECTABLE MEMORY ERROR AT {AT} ***"
    cause = diagnose(records(f"{STEPS}\n{line}")).root_cause
    assert cause is not None
    assert (cause.finding.code, cause.host) == ("HW001", "gpu-1")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (
            "Message: The node was low on resource: memory. Threshold quantity: 100Mi, available: 6Ki.",
            "MEM002",
        ),
        ("The node had condition: [MemoryPressure]. ", "MEM002"),
        ("State: Terminated  Reason: OOMKilled  Exit Code: 137", "MEM002"),
        (
            "The node was low on resource: ephemeral-storage. Container a was using 9Gi, request is 0.",
            "DISK001",
        ),
        ("The node was low on resource: imagefs.", "DISK001"),
        ("The node had condition: [DiskPressure]. ", "DISK001"),
        ('Container trainer exceeded its local ephemeral storage limit "10Gi". ', "DISK001"),
        ("Pod ephemeral local storage usage exceeds the total limit of containers 10Gi. ", "DISK001"),
        ('Usage of EmptyDir volume "cache" exceeds the limit "8Gi". ', "DISK001"),
    ],
)
def test_what_kubernetes_evicts_took_too_much(line: str, code: str) -> None:
    cause = diagnose(records(f"{STEPS}\n{line}")).root_cause
    assert cause is not None
    assert cause.finding.code == code


@pytest.mark.parametrize(
    "line",
    [
        "Reason: DeadlineExceeded  Message: Pod was active on the node longer than the specified deadline",
        "2m30s  Warning  DeadlineExceeded  job/train  Job was active longer than specified deadline",
        "Message: Preempted in order to admit critical pod",
        "Normal  Preempted  default-scheduler  Preempted by default/urgent-0 on node gpu-17",
        "Normal  Preempted  Preempted by pod 3fe1b5a0-77aa-4f0e-9d5e-aa7d8f4e0001 on node gpu-17",
        "Message: Pod was terminated in response to imminent node shutdown.",
        "Reason: NodeLost  Message: Node gpu-17 which was running pod trainer-3 is unresponsive",
    ],
)
def test_what_kubernetes_ends_for_its_own_reasons_was_ended_from_outside(line: str) -> None:
    found = diagnose(records(f"{STEPS}\n{line}"))
    assert found.verdict is Verdict.STOPPED
    assert found.root_cause is not None
    assert "Kubernetes" in found.root_cause.finding.message


def test_what_failed_before_slurm_ended_the_rest_remains_the_failure() -> None:
    raised = (
        '[rank3]: Traceback (most recent call last):\n[rank3]:   File "train.py", line 9, in <module>\n'
        "[rank3]:     step()\n[rank3]: KeyError: 'label'"
    )
    cancelled = f"slurmstepd: error: *** STEP 4711.0 ON gpu-1 CANCELLED AT {AT} ***"
    cause = diagnose(records(f"{STEPS}\n{raised}\n{cancelled}")).root_cause
    assert cause is not None
    assert (cause.finding.code, cause.rank) == ("CODE001", 3)
