"""What the health gate of the boot says of hosts that are not sound, before the ranks start.

Texts: slipway/gate/judge_host.py, with the findings of the other files of that folder. Every host says what
refused the job; the host that it is about is the one that the line names, not the one that prints it.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import (
    checkpoints,
    data,
    distribution,
    hardware,
    job_runtime,
    nccl,
    network,
    storage,
)

_FOUND = (
    (
        hardware.ECC_ERROR,
        "GPU 3 (NVIDIA A100) counts 2 uncorrectable memory errors since its driver was loaded",
    ),
    (hardware.GPU_FAULT, "the kernel's log has Xid 79 on GPU 0000:10:1c (GPU has fallen off the bus)"),
    (
        job_runtime.DRIVER_MISMATCH,
        "torch is built for CUDA 13.0, and driver 535.183.01 runs CUDA 12.2 at most, and the image carries "
        "no library that bridges it: no rank could use its GPU",
    ),
    (
        storage.LUSTRE_MOUNT_FAILED,
        "the channel train at /opt/ml/input/data/train (the lustre mount /opt/ml/input/data/train) did not "
        "answer within 10 s: every rank that reads it would block",
    ),
    (
        storage.S3_ACCESS_DENIED,
        "the channel train at /opt/ml/input/data/train cannot be read: Input/output error (5)",
    ),
    (
        storage.BUCKET_UNUSABLE,
        "the channel train at /opt/ml/input/data/train is empty: the ranks would find no data there",
    ),
    (
        job_runtime.DISK_FULL,
        "40 MB of 30 GB are free on the disk of /opt/ml/output/data, too little for logs and checkpoints",
    ),
    (
        checkpoints.PATH_NOT_KEPT,
        "the checkpoints' folder /opt/ml/checkpoints cannot be written: Permission denied (13), so the job "
        "would have nothing to resume from",
    ),
    (
        distribution.MORE_PROCESSES_THAN_DEVICES,
        "8 processes for 7 GPUs: NCCL refuses two ranks on one device",
    ),
    (
        nccl.RENDEZVOUS_TIMED_OUT,
        "did not answer the roll-call of 3 hosts within 60 s, so the ranks of the others would wait for its "
        "ranks in vain: look at its log, and whether it reaches port 7778 of algo-1",
    ),
    (
        nccl.INITIALISATION_STALLED,
        "algo-1 cannot connect to algo-2 at 10.77.0.2:35507 (no answer in time), nor the other way round",
    ),
    (
        network.DEVICE_RDMA_FAILS,
        "EFA's device RDMA or its memory registration fails: Unable to register memory",
    ),
    (
        network.EFA_NOT_USED,
        "NCCL chose TCP sockets although the host has 4 EFA devices (efa_0, efa_1, efa_2, efa_3)",
    ),
    (
        data.LOADER_WORKER_KILLED,
        "/dev/shm has 64 MB, 40 MB of them free: DataLoader workers pass batches through it",
    ),
    (
        distribution.PROCESSES_DIFFER_FROM_ACCELERATORS,
        "4 processes for 8 GPUs: 4 of them would be idle",
    ),
    (
        hardware.CLOSE_TO_MEMORY_LIMIT,
        "9000 of 81920 MiB of GPU 0 (NVIDIA H100) are in use before the job's own processes start",
    ),
)
"""The modes that the gate finds, and an example of each."""

_HOST = r"(?P<host>\w[\w.-]{0,62}): (?P<what>.{1,1200})$"

_REFUSALS = tuple(
    Signature(
        mode=mode,
        role=LineRole.INITIATOR,
        literal=f"slipway: {mode.code.lower()} ",
        pattern=re.compile(rf"^slipway: {mode.code} (?:refused because of )?{_HOST}", re.MULTILINE),
        example=f"slipway: {mode.code} refused because of algo-2: {what}",
        near_miss=f"slipway: {mode.code} rank 0 on algo-1: said by the boot after the ranks have run",
        says="{what}",
    )
    for mode, what in _FOUND
)

_WARNINGS = tuple(
    Signature(
        mode=mode,
        role=LineRole.ADVISORY,
        literal=f": {mode.code.lower()} ",
        pattern=re.compile(rf"^slipway: warning: gate: {mode.code} {_HOST}", re.MULTILINE),
        example=f"slipway: warning: gate: {mode.code} algo-2: {what}",
        near_miss=f"slipway: {mode.code} algo-2: {what}",
        says="{what}",
    )
    for mode, what in _FOUND
)

SIGNATURES = (*_REFUSALS, *_WARNINGS)
