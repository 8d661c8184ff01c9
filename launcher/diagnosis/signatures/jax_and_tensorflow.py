"""What JAX and TensorFlow say of the memory of a GPU, of CUDA and of those that do not come.

Texts: PJRT's clients and jaxlib's cuda/versions_helpers.cc, jax' _src/xla_bridge.py, XLA's coordination
service, TensorFlow's core/kernels (OP_REQUIRES of allocate_temp) and stream_executor/cuda 1.4 to 2.19.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import hardware, job_runtime, nccl

SIGNATURES = (
    Signature(
        mode=hardware.CUDA_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="resource_exhausted: attempting to ",
        pattern=re.compile(
            r"RESOURCE_EXHAUSTED: Attempting to (?:reserve|allocate) (?P<asked>[\d.]{1,12}[KMGT]?)"
        ),
        example="jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Attempting to reserve 15.32G at the bottom "
        "of memory. That was not possible. There are 14.71G free.",
        near_miss="INFO RESOURCE_EXHAUSTED: Attempting to ask again",
        says="the device's memory is full: {asked} were asked for",
    ),
    Signature(
        mode=hardware.CUDA_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="oom when allocating tensor",
        pattern=re.compile(r"OOM when allocating tensor .{0,300}?device:GPU:(?P<gpu>\d{1,4})"),
        example="OOM when allocating tensor with shape[64,512] and type float on "
        "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc",
        near_miss="INFO OOM when allocating tensor is caught",
        says="GPU {gpu} is full: TensorFlow could not allocate a tensor",
    ),
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="deadline exceeded; registertask",
        pattern=re.compile(r"Deadline Exceeded; RegisterTask(?:: (?P<why>.{1,200}))?"),
        example="DEADLINE_EXCEEDED: Deadline Exceeded; RegisterTask: failed to connect to all addresses",
        near_miss="INFO Deadline exceeded; RegisterTask is asked again",
        says="this process did not reach JAX's coordinator: {why}",
    ),
    Signature(
        mode=nccl.PEER_ACCESS_REFUSED,
        role=LineRole.INITIATOR,
        literal="unable to initialize backend '",
        pattern=re.compile(
            r"^RuntimeError: Unable to initialize backend '(?P<backend>cuda|gpu)': (?P<why>.{1,160})"
        ),
        example="RuntimeError: Unable to initialize backend 'cuda': INTERNAL: no supported devices found for "
        "platform CUDA",
        near_miss="INFO:jax._src.xla_bridge:Unable to initialize backend 'cuda': not built with CUDA",
        says="JAX cannot start CUDA on this host: {why}",
    ),
    Signature(
        mode=job_runtime.DRIVER_MISMATCH,
        role=LineRole.INITIATOR,
        literal="cuda backend failed to initialize: ",
        # JAX prints it as well, and goes on with the CPU.
        pattern=re.compile(r"^RuntimeError: CUDA backend failed to initialize: (?P<why>.{1,200})"),
        example="RuntimeError: CUDA backend failed to initialize: Found CUDA version 12010, but JAX was "
        "built against version 12030, which is newer.",
        near_miss="CUDA backend failed to initialize: using the CPU",
        says="JAX and the image's CUDA do not fit: {why}",
    ),
    Signature(
        mode=job_runtime.DRIVER_MISMATCH,
        role=LineRole.INITIATOR,
        literal="dnn library is not found",
        # TensorFlow, after it said which cuDNN it loaded and which one it was compiled with.
        pattern=re.compile(r"\w: .{0,200}\bDNN library is not found"),
        example="tensorflow.python.framework.errors_impl.UnimplementedError: Graph execution error: DNN "
        "library is not found.",
        near_miss="DNN library is not found, using the CPU",
        says="TensorFlow cannot use the image's cuDNN: it was compiled with another one",
    ),
)
