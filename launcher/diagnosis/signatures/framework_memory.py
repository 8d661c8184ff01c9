"""Memory of a device that is full, in the words of other libraries and of Neuron's runtime.

Texts: CuPy's cuda/memory.pyx; the Neuron runtime's troubleshooting guide.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import hardware

SIGNATURES = (
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
    Signature(
        mode=hardware.CUDA_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="outofmemoryerror: ",
        # Of whichever library, and device; Ray's is of the host's memory.
        pattern=re.compile(
            r"^(?!ray\.|.{0,80}more than 1EB)(?:\w+\.)+OutOfMemoryError: (?P<what>\S.{0,200})"
        ),
        example="cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,589,934,592 bytes",
        near_miss="INFO on an OutOfMemoryError: halving the batch",
        says="the device's memory is full: {what}",
        vague=True,
    ),
    Signature(
        mode=hardware.CUDA_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="cuda_error_out_of_memory",
        pattern=re.compile(r"Error\b.{0,200}\bCUDA_ERROR_OUT_OF_MEMORY\b"),
        example="numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in "
        "CUDA_ERROR_OUT_OF_MEMORY",
        near_miss="INFO CUDA_ERROR_OUT_OF_MEMORY is caught",
        says="the GPU's memory is full",
    ),
)
