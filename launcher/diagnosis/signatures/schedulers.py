"""What SLURM and AWS Batch say of a job beside its log: refusals, states, programs that do not start.

Texts: SLURM 20 to 25 (srun/allocate.c, sbatch.c, slurmstepd/task.c and req.c, common/slurm_errno.c, sacct's
and scontrol's words for states), AWS Batch's and Amazon ECS' user guides (statusReason, stopped tasks).
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import hardware, job_runtime
from launcher.failure_modes.model import FailureMode


def _state(mode: FailureMode, role: LineRole, word: str, example: str, says: str) -> Signature:
    """A job's or a step's state, in a row of sacct or in what scontrol shows of it."""
    return Signature(
        mode=mode,
        role=role,
        literal=word.lower(),
        pattern=re.compile(
            rf"^\s{{0,8}}(?:JobState={word}|\d{{1,10}}(?:[_.+]\w{{1,20}}){{0,2}}"
            rf"(?:[ \t]{{1,40}}[\w.+/-]{{1,60}}){{0,8}}?[ \t]{{1,40}}{word}\w{{0,8}}\+?(?=[ "
            rf"\t]{{1,40}}\d|\s{{0,40}}$))"
        ),
        example=f"48213.0        python3 {example} 00:12:01",
        near_miss=f"INFO a job whose state is {example}",
        says=says,
        vague=True,
    )


SIGNATURES = (
    _state(
        hardware.HOST_OUT_OF_MEMORY,
        LineRole.INITIATOR,
        "OUT_OF_ME",
        "OUT_OF_ME+",
        "SLURM ended it for the memory that it took",
    ),
    *(
        _state(job_runtime.STOPPED, LineRole.CASCADE, word, word, f"SLURM ended it: {word}")
        for word in ("TIMEOUT", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL")
    ),
    Signature(
        mode=job_runtime.ENTRY_POINT_MISSING,
        role=LineRole.INITIATOR,
        literal="error: execve(): ",
        pattern=re.compile(
            r"error: execve\(\): (?P<program>(?:bad interpreter\()?\S{1,300}): (?P<why>No such file or "
            r"directory|Permission "
            r"denied|Exec format error)"
        ),
        example="slurmstepd: error: execve(): torchrunn: No such file or directory",
        near_miss="slurmstepd: error: execve(): train: Cannot allocate memory",
        says="SLURM cannot start {program}: {why}",
        remedy="Name the program by its whole path, or activate the environment that holds it before srun; "
        "make a script executable (chmod +x), and let its first line name its shell.",
    ),
    Signature(
        mode=job_runtime.QUOTA_TOO_SMALL,
        role=LineRole.INITIATOR,
        literal="job violates accounting/qos policy",
        pattern=re.compile(r"error: .{0,60}Job violates accounting/QOS policy"),
        example="sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit "
        "limit, user's size and/or time limits)",
        near_miss="INFO a job violates accounting/QOS policy if it is larger",
        says="SLURM refuses the job: it is beyond what the account or its QOS allows",
        remedy="Ask for fewer hosts or less time, wait for the account's other jobs, or use another QOS: "
        "`sacctmgr show qos` shows the limits.",
    ),
    Signature(
        mode=job_runtime.NO_CAPACITY,
        role=LineRole.SYMPTOM,
        literal="requested node configuration is not available",
        pattern=re.compile(
            r"^s(?:run|batch|alloc): error: .{0,80}Requested node configuration is not available"
        ),
        example="srun: error: Unable to allocate resources: Requested node configuration is not available",
        near_miss="INFO if the requested node configuration is not available, fewer are asked for",
        says="SLURM has no hosts such as the job asks for",
        remedy="Ask for no more GPUs, CPUs and memory for a host than one of the partition has (`sinfo -o "
        '"%P %G %c %m"` shows them), or for another partition.',
        vague=True,
    ),
    Signature(
        mode=job_runtime.STOPPED,
        role=LineRole.CASCADE,
        literal="host ec2 (instance ",
        pattern=re.compile(r"\bHost EC2 \(instance (?P<instance>i-\w{1,20})\) terminated"),
        example='"statusReason": "Host EC2 (instance i-0abc) terminated."',
        near_miss="INFO Host EC2 (instance i-0abc) is ready",
        says="the host of the job was taken ({instance}), as spot hosts are",
    ),
    Signature(
        mode=job_runtime.IMAGE_UNAVAILABLE,
        role=LineRole.INITIATOR,
        literal="unable to pull secrets or registry auth",
        pattern=re.compile(r"\bResourceInitializationError: unable to pull secrets or registry auth"),
        example="ResourceInitializationError: unable to pull secrets or registry auth: execution resource "
        "retrieval failed: unable to retrieve ecr registry auth",
        near_miss="INFO unable to pull secrets or registry auth yet",
        says="neither the image nor the secrets could be had: the role may not, or the subnet has no "
        "way to ECR",
    ),
    Signature(
        mode=job_runtime.STOPPED,
        role=LineRole.CASCADE,
        literal="job attempt duration exceeded timeout",
        pattern=re.compile(r"\bJob attempt duration exceeded timeout"),
        example='"statusReason": "Job attempt duration exceeded timeout"',
        near_miss="INFO if the job attempt duration exceeded timeout",
        says="AWS Batch ended it: it ran for longer than its timeout allows",
    ),
    Signature(
        mode=job_runtime.IMAGE_UNAVAILABLE,
        role=LineRole.SYMPTOM,
        literal="pyxis: failed to import docker image",
        pattern=re.compile(r"error: pyxis: failed to import docker image"),
        example="slurmstepd: error: pyxis: failed to import docker image",
        near_miss="INFO what pyxis: failed to import docker image means",
        says="SLURM's container plugin (pyxis) could not pull the image",
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="failed (non-zero exit code",
        pattern=re.compile(r"\*\*\* (?:JOB|STEP) \S{1,40} (?:ON \S{1,80} )?FAILED \(non-zero exit code"),
        example="slurmstepd: error: *** STEP 4711.0 ON gpu-1 FAILED (non-zero exit code or other failure "
        "mode) ***",
        near_miss="INFO what SLURM calls FAILED (non-zero exit code)",
        says="a task failed; its own error is not in the log",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="due to task failure",
        pattern=re.compile(
            r"\*\*\* (?:JOB|STEP) \S{1,40} (?:ON \S{1,80} )?CANCELLED AT \S{1,40} DUE TO "
            r"(?P<failed_task>TASK FAILURE)"
        ),
        example="slurmstepd: error: *** STEP 4711.0 ON gpu-1 CANCELLED AT 2026-08-20T11:30:44 DUE TO TASK "
        "FAILURE ***",
        near_miss="INFO a step that is cancelled due to task failure",
        says="SLURM ended the step because a task failed; its own error is not in the log",
        vague=True,
    ),
)
