"""GPUs that a process cannot have: more processes than devices, and devices that cannot reach each other.

Texts: NCCL's init.cc, transport/p2p.cc and nvls.cc, 2.3 to 2.28; CUDA's "invalid device ordinal"; the checks
of what starts processes.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import distribution, nccl

SIGNATURES = (
    Signature(
        mode=distribution.MORE_PROCESSES_THAN_DEVICES,
        role=LineRole.INITIATOR,
        literal="duplicate gpu detected",
        pattern=re.compile(
            r"Duplicate GPU detected : rank (?P<rank>\d+) and rank (?P<other>\d+) both on CUDA device "
            r"(?P<gpu>\w+)"
        ),
        example="init.cc:521 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 160",
        near_miss="INFO no duplicate GPU detected",
        says="shares CUDA device {gpu} with rank {other}",
    ),
    Signature(
        mode=distribution.MORE_PROCESSES_THAN_DEVICES,
        role=LineRole.INITIATOR,
        literal="invalid device ordinal",
        pattern=re.compile(
            r"(?:CUDA error|CUDA driver error|HIP error|cuda runtime error \(\d+\) ?): invalid device ordinal"
            r"|Cuda failure (?:\d+ )?'invalid device ordinal'"
        ),
        example="RuntimeError: CUDA error: invalid device ordinal",
        near_miss="INFO 'invalid device ordinal' means too few GPUs",
        says="asked for a GPU that the host does not have: more processes than GPUs",
    ),
    Signature(
        mode=distribution.MORE_PROCESSES_THAN_DEVICES,
        role=LineRole.INITIATOR,
        literal="cannot be larger than the device count",
        pattern=re.compile(
            r"number of node-local MPI processes (?P<processes>\d+) *cannot be larger than the device count"
        ),
        example="ValueError: number of node-local MPI processes 8 cannot be larger than the device count 4",
        near_miss="INFO the batch cannot be larger than the device count",
        says="{processes} processes on a host with fewer GPUs",
    ),
    Signature(
        mode=nccl.PEER_ACCESS_REFUSED,
        role=LineRole.INITIATOR,
        literal="peer access is not supported",
        pattern=re.compile(
            r"(?:NCCL WARN .{0,80}|CUDA error: |Cuda failure (?:\d+ )?')peer access is not supported "
            r"between these"
        ),
        example="gpu-1:774:854 [0] transport/shm.cc:590 NCCL WARN Cuda failure 217 'peer access is not "
        "supported "
        "between these two devices'",
        near_miss="INFO peer access is not supported between these GPUs, copying over the host",
        says="the driver refuses that two GPUs of this host reach each other's memory",
    ),
    Signature(
        mode=nccl.PEER_ACCESS_REFUSED,
        role=LineRole.INITIATOR,
        literal="failed to open cuda ipc handle",
        pattern=re.compile(
            r"NCCL WARN failed to open CUDA IPC handle : \d{1,6} (?P<why>(?!peer access).{1,80})"
        ),
        example="gpu-1:4974:4981 [0] transport/p2p.cu:548 NCCL WARN failed to open CUDA IPC handle : 11 "
        "invalid "
        "argument",
        near_miss="INFO failed to open CUDA IPC handle : 11 invalid argument",
        says="a GPU's memory could not be mapped into another process of this host: {why}",
    ),
    Signature(
        mode=nccl.PEER_ACCESS_REFUSED,
        role=LineRole.INITIATOR,
        literal="'initialization error'",
        pattern=re.compile(r"Cuda failure (?:\d+ )?'initialization error'"),
        example="node155:3054646:3054695 [1] transport/nvls.cc:246 NCCL WARN Cuda failure 3 'initialization "
        "error'",
        near_miss="INFO 'initialization error' is error 3 of CUDA",
        says="CUDA cannot be initialised for NCCL on this host",
    ),
    Signature(
        mode=nccl.PEER_ACCESS_REFUSED,
        role=LineRole.INITIATOR,
        literal="nvlink sharp (nvls) multicast memory",
        pattern=re.compile(r"Failed to (?:bind|allocate) NVLink SHARP \(NVLS\) Multicast memory"),
        example="gpu-1:20:31 [0] transport/nvls.cc:169 NCCL WARN Failed to bind NVLink SHARP (NVLS) "
        "Multicast memory of size 2097152 : CUDA error 401 'the operation cannot be performed in the present "
        "state'.",
        near_miss="gpu-1:20:31 [0] NCCL INFO NVLink SHARP (NVLS) Multicast memory of size 2097152",
        says="this host's NVSwitches give NCCL no multicast memory: mostly for its fabric manager",
    ),
)
