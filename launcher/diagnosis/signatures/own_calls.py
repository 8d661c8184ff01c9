"""What a script's calls to slipway.even_batches, sorted_inputs and guard raise (slipway/batches, health).

Each names its code itself; where a rank ends only because another one could not go on, that is NCCL006.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import data, hardware, job_runtime

_RAISED = (
    (
        data.UNEVEN_BATCHES,
        "rank 2 got no batch at all while others did, and the others would have waited in the first step",
    ),
    (
        data.FILES_UNSORTED,
        "the files of train on algo-2 (rank 1) are not those of the other hosts: it lacks part-007/shard.tar",
    ),
    (
        job_runtime.LOSS_NOT_FINITE,
        "the loss of rank 1 on algo-2 is nan in step 3: from there on the weights are lost, so training ends",
    ),
    (
        hardware.CUDA_OUT_OF_MEMORY,
        "rank 1 on algo-2 ran out of GPU memory (asked for 2.00 GiB with 1.00 GiB free) in step 1",
    ),
    (
        hardware.HOST_OUT_OF_MEMORY,
        "rank 1 on algo-2 ran out of host memory (asked for 94371840000 bytes) in step 1",
    ),
)
"""The modes, and an example of each."""

SIGNATURES = tuple(
    Signature(
        mode=mode,
        role=LineRole.INITIATOR,
        literal=f"slipwayerror: {mode.code.lower()} ",
        pattern=re.compile(
            rf"^slipway\.SlipwayError: {mode.code} (?P<what>\S(?:.{{0,600}}[^\s.])?)", re.MULTILINE
        ),
        example=f"slipway.SlipwayError: {mode.code} {what}",
        near_miss=f"INFO slipway.SlipwayError: {mode.code} is what it raises",
        says="{what}",
    )
    for mode, what in _RAISED
)
