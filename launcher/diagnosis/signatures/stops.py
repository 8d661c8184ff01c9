"""The end from outside: what torchrun, the container's boot and SLURM print when somebody ends a job.

Texts: torch/distributed/elastic/agent/server/api.py and multiprocessing/api.py of PyTorch 1.10 to 2.13 (a
signal is `15` from Python 3.11 on and `Signals.SIGTERM` before); slipway/boot.py; slurmstepd/req.c of SLURM
2.3 to 25, which says without a reason that somebody or srun ended a step, and names the signal from 23 on;
srun, which says what host it lost; submitit's core/job_environment.py. A host that the scheduler gave up is
one that was taken from the job. `stops` lets them explain what comes after them.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import job_runtime

SIGNATURES = (
    Signature(
        mode=job_runtime.STOPPED,
        role=LineRole.CASCADE,
        literal="death signal",
        pattern=re.compile(r"Received (?:Signals\.)?(?P<signal>SIG[A-Z]+|\d{1,2}) death signal"),
        example="W0820 11:30:44 99 torch/distributed/elastic/agent/server/api.py:753] Received 15 death "
        "signal, shutting down workers",
        near_miss="INFO no death signal yet",
        says="torchrun got the signal {signal}",
    ),
    Signature(
        mode=job_runtime.STOPPED,
        role=LineRole.CASCADE,
        literal="signalexception",
        pattern=re.compile(
            r"SignalException: Process \d+ got signal: (?:Signals\.)?(?P<signal>SIG[A-Z]+|\d{1,2})"
        ),
        example="torch.distributed.elastic.multiprocessing.api.SignalException: Process 14 got signal: 15",
        near_miss="INFO import SignalException",
        says="torchrun got the signal {signal}",
    ),
    Signature(
        mode=job_runtime.STOPPED,
        role=LineRole.CASCADE,
        literal="failed (exitcode: -",
        pattern=re.compile(r"failed \(exitcode: -(?P<signal>1|2|15)\) local_rank: (?P<local>\d+)"),
        example="ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -15) local_rank: 0 "
        "(pid: 7) of binary: /opt/conda/bin/python",
        near_miss="ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -11) local_rank: "
        "0 (pid: 7)",
        says="its processes got the signal {signal}",
    ),
    Signature(
        mode=job_runtime.STOPPED,
        role=LineRole.CASCADE,
        literal="failed (exitcode: 1",
        # A shell around the script, or a script that ends itself when it is asked to.
        pattern=re.compile(r"failed \(exitcode: (?P<exit>129|130|143)\) local_rank: (?P<local>\d+)"),
        example="E0820 11:30:44 99 torch/distributed/elastic/multiprocessing/api.py:984] failed (exitcode: "
        "143) local_rank: 0 (pid: 7) of binary: /bin/bash",
        near_miss="ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 "
        "(pid: 7)",
        says="its processes ended with exit code {exit}, as by a signal to end",
    ),
    *(
        Signature(
            mode=job_runtime.STOPPED,
            role=LineRole.CASCADE,
            literal=literal,
            # SIGHUP and SIGINT; SIGTERM is in `exit_codes`.
            pattern=re.compile(rf"(?i:\b{literal}):? '?(?P<exit>129|130)(?!\d|\.\d)"),
            example=f"{literal}: 130",
            near_miss=f"INFO {literal} 1300",
            says="it ended with exit code {exit}, as by a signal to end",
        )
        for literal in ("exitcode", "exit code")
    ),
    Signature(
        mode=job_runtime.STOPPED,
        role=LineRole.CASCADE,
        literal="keyboardinterrupt",
        # Of a traceback whose beginning is not in the log.
        pattern=re.compile(r"^KeyboardInterrupt\s*$"),
        example="KeyboardInterrupt",
        near_miss="INFO except KeyboardInterrupt",
        says="interrupted with Ctrl-C (SIGINT)",
    ),
    Signature(
        mode=job_runtime.STOPPED,
        role=LineRole.CASCADE,
        literal="slipway: stop001 ",
        pattern=re.compile(r"^slipway: STOP001 (?P<host>[\w.-]+): asked to end by (?P<signal>SIG[A-Z]+)"),
        example="slipway: STOP001 algo-1: asked to end by SIGTERM, and ended 3 s later",
        near_miss="slipway: STOP001 explains it",
        says="the container got the signal {signal}",
    ),
    Signature(
        mode=job_runtime.STOPPED,
        role=LineRole.CASCADE,
        literal="cancelled at ",
        pattern=re.compile(
            r"\*\*\* (?:JOB|STEP) \S{1,40} (?:ON \S{1,80} )?CANCELLED AT \S{1,40} DUE TO "
            r"(?P<why>TIME LIMIT|PREEMPTION|JOB REQUEUE|NODE FAILURE)"
        ),
        example="slurmstepd: error: *** STEP 4711.0 ON gpu-1 CANCELLED AT 2026-08-20T11:30:44 DUE TO TIME "
        "LIMIT ***",
        near_miss="slurmstepd: error: *** STEP 4711.0 ON gpu-1 CANCELLED AT 2026-08-20T11:30:44 ***",
        says="SLURM cancelled it: {why}",
    ),
    Signature(
        mode=job_runtime.STOPPED,
        role=LineRole.CASCADE,
        literal="cancelled at ",
        pattern=re.compile(
            r"\*\*\* (?:JOB|STEP) \S{1,40} (?:ON \S{1,80} )?CANCELLED AT \S{1,40} "
            r"(?:DUE to SIGNAL (?P<signal>\w{1,20}) )?\*\*\*"
        ),
        example="slurmstepd: error: *** STEP 4711.0 ON gpu-1 CANCELLED AT 2026-08-20T11:30:44 DUE to SIGNAL "
        "Terminated ***",
        near_miss="slurmstepd: error: *** JOB 4711 ON gpu-1 CANCELLED AT 2026-08-20T11:30:44 DUE TO NODE "
        "FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
        says="SLURM cancelled it",
    ),
    Signature(
        mode=job_runtime.STOPPED,
        role=LineRole.CASCADE,
        literal=": this job is ",
        pattern=re.compile(
            r"\bCaught signal (?P<signal>SIG[A-Z0-9]{2,6}) on (?P<host>[\w.-]{1,100}): this job is "
            r"(?P<why>preempted|timed-out)\."
        ),
        example="submitit WARNING (2022-07-12 04:18:45,881) - Caught signal SIGUSR2 on gpu-1: this job is "
        "preempted.",
        near_miss="INFO Caught signal SIGUSR2 on gpu-1: this job is well",
        says="SLURM is about to end it ({why}): it got the signal {signal}",
    ),
    Signature(
        mode=job_runtime.STOPPED,
        role=LineRole.CASCADE,
        literal="node failure on ",
        pattern=re.compile(r"^srun: error: Node failure on (?P<host>[\w.,\[\]-]{1,100})"),
        example="srun: error: Node failure on gpu-17",
        near_miss="INFO srun: error: Node failure on which host?",
        says="SLURM lost its host {host} (node failure)",
    ),
)
