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
            r"(?:CUDA error|CUDA driver error|HIP error|cuda runtime error \(\d+\) ?"
            r"|^THCudaCheck FAIL .{1,300} error=\d{1,6} ?): invalid device ordinal"
            r"|(?:Cuda|CUDA) failure .{0,60}?'invalid device ordinal'"
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
        "supported between these two devices'",
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
        "invalid argument",
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
    Signature(
        mode=nccl.PEER_ACCESS_REFUSED,
        role=LineRole.INITIATOR,
        literal="unexpected error from cudagetdevicecount()",
        pattern=re.compile(
            r"^RuntimeError: Unexpected error from cudaGetDeviceCount\(\).{0,200}\bError (?P<number>2"
            r"|3|46|101|304|999): (?P<what>.{1,80})"
        ),
        example="RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda "
        "functions before calling NumCudaDevices() that might have already set an error? Error "
        "304: OS call failed or operation not supported on this OS",
        near_miss="UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Did you "
        "run some cuda functions before calling NumCudaDevices() that might have already set an "
        "error? Error 304: OS call failed",
        says="CUDA cannot be initialised on this host: {what} (error {number})",
    ),
    Signature(
        mode=nccl.PEER_ACCESS_REFUSED,
        role=LineRole.INITIATOR,
        literal="cuda unknown error - this may be due to",
        pattern=re.compile(r"^RuntimeError: CUDA unknown error - this may be due to"),
        example="RuntimeError: CUDA unknown error - this may be due to an incorrectly set up "
        "environment, e.g. changing env variable CUDA_VISIBLE_DEVICES after program start. "
        "Setting the available devices to be zero.",
        near_miss="UserWarning: CUDA initialization: CUDA unknown error - this may be due to an "
        "incorrectly set up environment",
        says="CUDA cannot be initialised on this host (unknown error)",
    ),
    Signature(
        mode=nccl.PEER_ACCESS_REFUSED,
        role=LineRole.INITIATOR,
        literal="cuda driver initialization failed",
        pattern=re.compile(r"^RuntimeError: CUDA driver initialization failed"),
        example="RuntimeError: CUDA driver initialization failed, you might not have a CUDA gpu.",
        near_miss="UserWarning: CUDA initialization: CUDA driver initialization failed, you might not have "
        "a CUDA gpu.",
        says="CUDA cannot be initialised on this host: its driver does not start",
    ),
    Signature(
        mode=nccl.PEER_ACCESS_REFUSED,
        role=LineRole.INITIATOR,
        literal="cuda runtime error (",
        pattern=re.compile(r"cuda runtime error \((?P<number>46|999)\) ?: (?P<what>.{1,80}?) at /"),
        example="RuntimeError: cuda runtime error (999) : unknown error at "
        "/pytorch/aten/src/THC/THCGeneral.cpp:50",
        near_miss="INFO cuda runtime error (999) : unknown error is what it says",
        says="CUDA cannot be initialised on this host: {what}",
    ),
    Signature(
        mode=nccl.PEER_ACCESS_REFUSED,
        role=LineRole.INITIATOR,
        literal="busy or unavailable",
        pattern=re.compile(
            r"(?:CUDA error: |Cuda failure (?:\d+ )?')(?:all )?(?P<what>CUDA-capable device(?:s|\(s\) "
            r"is/)? ?are busy or unavailable)"
        ),
        example="torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        near_miss="INFO waiting while all CUDA-capable devices are busy or unavailable",
        says="another process holds the GPU for itself, or the GPU is not usable: {what}",
    ),
    Signature(
        mode=nccl.PEER_ACCESS_REFUSED,
        role=LineRole.SYMPTOM,
        literal="p2p is disabled between nvlink connected",
        pattern=re.compile(
            r"P2P is disabled between NVLINK connected GPUs (?P<one>\d{1,4}) and (?P<other>\d{1,4})"
        ),
        example="gpu-1:20:31 [0] graph/paths.cc:700 NCCL WARN P2P is disabled between NVLINK connected "
        "GPUs 1 and 0. This should not be the case given their connectivity, and is probably due "
        "to a hardware issue.",
        near_miss="gpu-1:20:31 [0] NCCL INFO P2P is disabled between NVLINK connected racks",
        says="GPUs {one} and {other} are joined by NVLink and cannot reach each other: probably the hardware",
    ),
    Signature(
        mode=nccl.PEER_ACCESS_REFUSED,
        role=LineRole.SYMPTOM,
        literal="is available but not working on this system",
        pattern=re.compile(
            r"NCCL WARN MNNVL \(cliqueSize \d{1,6}\) is available but not working on this system"
        ),
        example="gpu-1:20:31 [0] init.cc:800 NCCL WARN MNNVL (cliqueSize 72) is available but not "
        "working on this system. Check the IMEX channel configuration "
        "(/dev/nvidia-caps-imex-channels). Set NCCL_MNNVL_ENABLE=0 to ignore this issue.",
        near_miss="INFO MNNVL is available but not working on this system, using the network",
        says="the hosts are joined by NVLink, and its channels (IMEX) do not work",
    ),
    Signature(
        mode=distribution.MORE_PROCESSES_THAN_DEVICES,
        role=LineRole.INITIATOR,
        literal="is out of range. please use a device index",
        pattern=re.compile(
            r"^ValueError: device_id (?P<gpu>\S{1,20}) is out of range\. Please use a device index "
            r"less than the number of accelerators available: (?P<gpus>\d{1,4})"
        ),
        example="ValueError: device_id cuda:8 is out of range. Please use a device index less than the "
        "number of accelerators available: 8.",
        near_miss="INFO device_id 8 is out of range. Please use a device index, taking 0",
        says="asked for {gpu} where there are {gpus} GPUs",
    ),
    Signature(
        mode=distribution.MORE_PROCESSES_THAN_DEVICES,
        role=LineRole.INITIATOR,
        literal="exceeds available gpus in cuda_visible_devices",
        pattern=re.compile(
            r"^ValueError: local_rank (?P<local_rank>\d{1,4}) exceeds available GPUs in "
            r"CUDA_VISIBLE_DEVICES=(?P<gpus>\S{0,100})"
        ),
        example="ValueError: local_rank 8 exceeds available GPUs in CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7",
        near_miss="INFO what exceeds available GPUs in CUDA_VISIBLE_DEVICES=0 waits",
        says="local rank {local_rank} has no GPU among those that are visible, {gpus}",
    ),
    Signature(
        mode=distribution.MORE_PROCESSES_THAN_DEVICES,
        role=LineRole.INITIATOR,
        literal="you requested gpu: [",
        pattern=re.compile(
            r"MisconfigurationException: You requested gpu: \[(?P<asked>[\d, ]{1,200})\](?:\s+But "
            r"your machine only has: \[(?P<gpus>[\d, ]{0,200})\])?"
        ),
        example="lightning.fabric.utilities.exceptions.MisconfigurationException: You requested gpu: [0, "
        "1, 2, 3]\n But your machine only has: [0]",
        near_miss="INFO You requested gpu: [0]",
        says="Lightning was asked for the GPUs {asked}, and the process has [{gpus}]",
    ),
)
