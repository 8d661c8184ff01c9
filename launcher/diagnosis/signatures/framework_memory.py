"""Memory of a device that is full, in the words of JAX, TensorFlow and Neuron's runtime.

Texts: XLA's service/hlo_rematerialization and PJRT's TPU client, TensorFlow's core/kernels (OP_REQUIRES of
allocate_temp) 1.4 to 2.19, the Neuron runtime's troubleshooting guide.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import hardware

SIGNATURES = (
    Signature(
        mode=hardware.CUDA_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="resource_exhausted: attempting to ",
        pattern=re.compile(
            r"RESOURCE_EXHAUSTED: Attempting to (?:reserve|allocate) (?P<asked>[\d.]{1,12}[KMGT]?)"
        ),
        example="jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Attempting to reserve 15.32G at the "
        "bottom of "
        "memory. That was not possible. There are 14.71G free.",
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
        mode=hardware.CUDA_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="failed to alloc device memory",
        pattern=re.compile(r"TDRV:\w{1,60} +Failed to alloc DEVICE memory: (?P<asked>\d{1,20})"),
        example="2026-Nov-23 09:11:12.1 4711:4811 ERROR  TDRV:dmem_alloc_internal    Failed to alloc DEVICE "
        "memory: 8589934592",
        near_miss="INFO failed to alloc device memory of the mouse",
        says="the Neuron device's memory is full: {asked} bytes were asked for",
    ),
)
