"""Memory that runs out, on the GPU and on the host, and GPUs that break."""

from __future__ import annotations

from launcher.failure_modes import sources
from launcher.failure_modes.model import FailureMode, Retry, Severity

CUDA_OUT_OF_MEMORY = FailureMode(
    code="MEM001",
    title="CUDA out of memory",
    cause=(
        "Parameters, gradients, optimizer states (together 16 bytes for each parameter with Adam in mixed "
        "precision) and activations do not fit on the GPU of one rank. That rank dies, and all others "
        "report time-outs or closed connections."
    ),
    remedy=(
        "Halve the batch per process and double the accumulation, then activation checkpointing, bf16, and "
        "sharding (FSDP or SMP). Do not catch the error and retry with a smaller batch on that rank alone: "
        "it then calls other collectives than the rest, and the job hangs. `slipway.guard` with "
        '`out_of_memory="split"` halves it on all ranks at once.'
    ),
    sources=(
        sources.MODEL_PARALLEL_GUIDE,
        sources.DDP_GUIDE,
        sources.DDP_ERROR_ARTICLE,
        sources.TORCH_CUDA_NOTES,
    ),
)

HOST_OUT_OF_MEMORY = FailureMode(
    code="MEM002",
    title="host out of memory (SIGKILL, exit -9 or 137)",
    cause=(
        "The kernel killed a process because the host's memory was full; it leaves no traceback, only exit "
        "code -9 or 137. All processes of a host share its memory: each loads the dataset and the "
        "checkpoint, and each DataLoader worker copies what it touches."
    ),
    remedy=(
        "Load weights on one rank or with mmap=True, keep datasets as memory-mapped arrays instead of "
        "Python lists, and lower num_workers and prefetch_factor; else take a type with more memory."
    ),
    sources=(sources.DDP_GUIDE, sources.TORCH_DATA),
)

CLOSE_TO_MEMORY_LIMIT = FailureMode(
    code="MEM003",
    title="close to the memory limit: may fail on other hosts",
    cause=(
        "GPUs of one type differ a little in free memory, for instance after pages were retired for ECC "
        "errors. A configuration that fills them to the brim works on one cluster and runs out of memory "
        "on the next."
    ),
    remedy=(
        "Leave a few percent of the GPU's memory free: a smaller batch, or activation checkpointing in one "
        "layer more. PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True helps against fragmentation."
    ),
    sources=(sources.MODEL_PARALLEL_GUIDE, sources.TORCH_CUDA_NOTES),
    severity=Severity.WARNING,
    retry=Retry.OTHER_HOSTS,
)

ECC_ERROR = FailureMode(
    code="HW001",
    title="uncorrectable ECC error",
    cause=(
        "A GPU's memory returned data that could not be corrected: the GPU has gone bad. The process on it "
        "ends, and every restart on the same host will meet it again."
    ),
    remedy=(
        "Restart from the checkpoint on other hosts: a new job, not the same warm pool. Give the job's ARN "
        "and the host to AWS Support."
    ),
    sources=(sources.MODEL_PARALLEL_GUIDE, sources.GPU_HEALTH_CHECK, sources.XID_ERRORS),
    retry=Retry.OTHER_HOSTS,
)

GPU_FAULT = FailureMode(
    code="HW002",
    title="other GPU fault (Xid, fallen off the bus)",
    cause=(
        "The driver reports faults as 'NVRM: Xid' with a number. 79 is a GPU fallen off the bus, 74 NVLink, "
        "48 a double-bit memory error, 119 a GPU that answers no more; 13 and 31 are mostly the program's "
        "own illegal memory access."
    ),
    remedy=(
        "For 13 and 31 look for the fault in the code, with CUDA_LAUNCH_BLOCKING=1 in one short run. For "
        "the others restart from the checkpoint on other hosts and report the host to AWS Support."
    ),
    sources=(sources.GPU_HEALTH_CHECK, sources.XID_ERRORS, sources.MODEL_PARALLEL_GUIDE),
    retry=Retry.OTHER_HOSTS,
)

NEURON_RUNTIME_FAILS = FailureMode(
    code="NEU001",
    title="the Neuron runtime cannot initialise, load or execute on a device",
    cause=(
        "The Neuron runtime did not get its devices (another process holds them, or one does not answer: "
        "'Could not open the nd3'), could not load a compiled model on its cores (nrt_load), or met a fault "
        "of the hardware while it ran one."
    ),
    remedy=(
        "Run the job again on other hosts: a new job, not the same warm pool. Where it comes back on each of "
        "them, start one process per core and no other program on the devices, and compile the model with "
        "the release of Neuron that is in the image."
    ),
    sources=(sources.NEURON_DEVICE_ISSUE, sources.NEURON_LOAD_ISSUE),
    retry=Retry.OTHER_HOSTS,
)
