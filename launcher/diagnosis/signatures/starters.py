"""What those that start processes say of one that failed: torchrun, DeepSpeed, mpirun, Horovod. Which signal
ended it is in `exit_codes`, that it was ended from outside in `stops`.

Texts: torch/distributed/elastic/multiprocessing/api.py and errors/__init__.py; DeepSpeed's launcher/
launch.py; Composer's cli/launcher.py; the help texts of Open MPI and PRRTE; Horovod's runner/gloo_run.py;
runc.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import job_runtime

_OF_OPEN_MPI = r"\[(?:\[\d{1,9},\d{1,9}\]|[\w.-]{1,200}@\d{1,9}),(?P<rank>\d{1,6})\]"
"""How Open MPI names a process: [[family of jobs,job],rank], from version 5 on [daemon's name@job,rank]."""

SIGNATURES = (
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="failed (exitcode: ",
        pattern=re.compile(
            r"failed \(exitcode: (?P<exit>-?(?!9\)|15\))\d+)\) local_rank: (?P<local_rank>\d+)"
        ),
        example="ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 "
        "(pid: 50120) of binary: /opt/conda/bin/python",
        near_miss="ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -15) local_rank: "
        "0 (pid: 7)",
        says="local rank {local_rank} ended with exit code {exit}; its own error is not in the log",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="failed (exitcode ",
        # Before 1.10, of a rank that left no file with its error.
        pattern=re.compile(
            r"\(local_rank (?P<local_rank>\d{1,6})\) FAILED \(exitcode (?P<exit>-?(?!9\)|15\))\d{1,6})\)"
        ),
        example="Child process 2791 (local_rank 0) FAILED (exitcode 1)",
        near_miss="Child process 2791 (local_rank 0) FAILED (exitcode -9)",
        says="local rank {local_rank} ended with exit code {exit}; its own error is not in the log",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="torchelastic.worker.status.failed",
        # The ranks that torchrun ended itself are TERMINATED in its events.
        pattern=re.compile(
            r'"name": "torchelastic\.worker\.status\.FAILED".{1,200}?"global_rank": (?P<rank>\d{1,6})\b'
        ),
        example='{"name": "torchelastic.worker.status.FAILED", "source": "WORKER", "timestamp": 0, '
        '"metadata": {"run_id": "none", "global_rank": 3, "group_rank": 0, "worker_id": "2791"}}',
        near_miss='{"name": "torchelastic.worker.status.FAILED", "metadata": {"global_rank": null}}',
        says="rank {rank} failed; its own error is not in the log",
        vague=True,
    ),
    Signature(
        mode=job_runtime.ENTRY_POINT_MISSING,
        role=LineRole.INITIATOR,
        literal='exec: "',
        pattern=re.compile(
            r"(?:OCI runtime|runc|CannotStartContainer) ?.{0,160}exec: \"(?P<program>[^\"]{1,80})\": "
            r"(?:executable file not found in \$PATH|permission denied|stat \S{1,80}: no such file)"
        ),
        example="OCI runtime create failed: container_linux.go:380: starting container process caused: exec: "
        '"train": executable file not found in $PATH: unknown',
        near_miss='INFO exec: "nvcc": executable file not found in $PATH, building without',
        says="the image has no program {program} that can be run, which the container is to start",
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="mpi_abort was invoked on rank",
        pattern=re.compile(r"MPI_ABORT was invoked on rank (?P<rank>\d+) in communicator"),
        example="MPI_ABORT was invoked on rank 2 in communicator MPI COMMUNICATOR 5 DUP FROM 0",
        near_miss="INFO no MPI_ABORT was invoked on rank zero",
        says="called MPI_ABORT, which ends all ranks; its own error is not in the log",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="childfailederror",
        pattern=re.compile(r"torch\.distributed\.elastic\.multiprocessing\.errors\.ChildFailedError:"),
        example="torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        near_miss="INFO catching ChildFailedError",
        says="a rank failed; its own error is not in the log",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="exception during training:",
        # detectron2/engine/train_loop.py, which raises it again.
        pattern=re.compile(r"\bException during training:\s*$"),
        example="ERROR [12/20 18:16:20 d2.engine.train_loop]: Exception during training:",
        near_miss="INFO ignoring an exception during training: none",
        says="training ended with an exception, which is not in the log",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="return code = ",
        pattern=re.compile(r"exits with return code = (?P<exit>(?!0\b|-9\b|-15\b)-?\d+)"),
        example="[2024-01-15 09:20:17,001] [ERROR] [launch.py:321:sigkill_handler] ['python'] exits with "
        "return code = 1",
        near_miss="[2024-01-15 09:20:17,001] [INFO] [launch.py:350:main] Process 7 exits with return code "
        "= 0",
        says="a process ended with exit code {exit}; its own error is not in the log",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="killing subprocess",
        pattern=re.compile(r"sigkill_handler\] Killing subprocess (?P<pid>\d+)"),
        example="[2024-01-15 09:20:16,880] [INFO] [launch.py:315:sigkill_handler] Killing subprocess 90441",
        near_miss="INFO killing subprocess pool",
        says="the launcher ended its processes because one failed; its own error is not in the log",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="crashed with exit code",
        pattern=re.compile(r"\bRank (?P<rank>\d{1,6}) crashed with exit code (?P<exit>-?[1-9]\d{0,2})"),
        example="ERROR:composer.cli.launcher:Rank 2 crashed with exit code 1.",
        near_miss="INFO Rank 2 never crashed with exit code 1",
        says="ended with exit code {exit}; its own error is not in the log",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="terminated with code",
        # Lightning's strategies/launchers/subprocess_script.py.
        pattern=re.compile(
            r"\[rank: (?P<rank>\d{1,6})\] Child process with PID \d{1,10} terminated with code "
            r"(?P<exit>-?[1-9]\d*)"
        ),
        example="[rank: 1] Child process with PID 21418 terminated with code 1. Forcefully terminating all "
        "other processes to avoid zombies",
        near_miss="INFO [rank: 1] Child process with PID 21418 terminated with code 0",
        says="ended with exit code {exit}; its own error is not in the log",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="exited with code",
        pattern=re.compile(
            r"\bGlobal rank (?P<rank>\d{1,6}) \(PID \d{1,10}\) exited with code (?P<exit>-?[1-9]\d{0,2})"
        ),
        example="ERROR:composer.cli.launcher:Global rank 3 (PID 1501) exited with code 1",
        near_miss="INFO Global rank 3 (PID 1501) exited with code 0",
        says="ended with exit code {exit}; its own error is not in the log",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="exit code",
        pattern=re.compile(r"[Ee]xited with exit code (?P<exit>[1-9]\d*)\b"),
        example="srun: error: gpu-1: task 0: Exited with exit code 1",
        near_miss="INFO exited with exit code 0",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="a non-zero exit code. per user-direction",
        pattern=re.compile(r"^a non-zero exit code\. Per user-direction, the job has been aborted"),
        example="a non-zero exit code. Per user-direction, the job has been aborted.",
        near_miss="INFO a non-zero exit code. Per user-direction it is ignored",
        says="mpirun ended the job because a process failed; its own error is not in the log",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="process name: [",
        pattern=re.compile(
            rf"^\s*Process name: {_OF_OPEN_MPI}\n\s*"
            r"Exit code: {1,10}(?P<exit>(?!129|1[3-9]\d)\d{1,3})(?!\d)"
        ),
        example="  Process name: [[29973,1],0]\n  Exit code:    1",
        near_miss="INFO process name: [[29973,1],0]",
        says="ended with exit code {exit}; its own error is not in the log",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.TEARDOWN,
        literal="closing signal",
        pattern=re.compile(r"Sending process (?P<pid>\d+) closing signal (?P<signal>SIG\w+)"),
        example="W0820 11:30:44 99 torch/distributed/elastic/multiprocessing/api.py:900] Sending process "
        "105 closing signal SIGTERM",
        near_miss="INFO the closing signal of the market",
    ),
    Signature(
        mode=job_runtime.ENTRY_POINT_MISSING,
        role=LineRole.INITIATOR,
        literal=" torch_distributed",
        pattern=re.compile(
            r"ClientError: (?P<what>Python packages are not supported for torch_distributed"
            r"|Unsupported entry point type for torch_distributed)"
        ),
        example="ClientError: Python packages are not supported for torch_distributed. Please use a "
        "python script as the entry-point",
        near_miss="INFO using torch_distributed",
        says="the images' toolkit starts Python scripts alone with torchrun: {what}",
    ),
    Signature(
        mode=job_runtime.ENTRY_POINT_MISSING,
        role=LineRole.SYMPTOM,
        literal=": command not found",
        # Of what begins a training alone: start scripts ask for much that is not there.
        pattern=re.compile(
            r"^(?:\S{1,200}: )?(?:line \d{1,6}: "
            r")?(?P<program>torchrun|deepspeed|accelerate|mpirun|srun|python3|python): "
            r"command not found"
        ),
        example="bash: torchrun: command not found",
        near_miss="bash: nvidia-smi: command not found",
        says="the shell finds no {program}",
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal=" exit with status code ",
        pattern=re.compile(
            r"\bProcess (?P<rank>\d{1,6}) exit with status code (?P<exit>(?!0\b|1(?:3[2-9]|43)\b)\d{1,6})\b"
        ),
        example="Process 3 exit with status code 1.",
        near_miss="Process 3 exit with status code 0.",
        says="rank {rank} ended with exit code {exit}; its own error is not in the log",
        vague=True,
    ),
)
