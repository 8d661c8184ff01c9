"""What a script's calls into slipway raise: CheckpointManager, even_batches, sorted_inputs and guard.

Texts: slipway/saving, slipway/training. Each names its code itself, and most of them the
rank that it is about, which need not be the one that raises it; where a rank ends only because another one
could not go on, that is NCCL006.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import checkpoints, data, hardware, job_runtime, nccl
from launcher.failure_modes.model import FailureMode

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
    (
        checkpoints.STATE_DICT_NOT_ON_EVERY_RANK,
        "rank 3 did not come to save(step=40) in 480 s, ranks 0, 1, 2 did, and would have waited for ever. "
        "Call it on every rank, not under `if rank == 0`",
    ),
    (
        checkpoints.LARGE_UPLOAD_FAILS,
        "rank 1 on algo-2: the checkpoint of step 40 could not be written: Input/output error. What was "
        "trained since the one before would be lost with the job",
    ),
    (
        checkpoints.UNEXPECTED_KEY_PREFIX,
        "the checkpoint's keys are not the model's: 2 keys of the model are missing (head.bias, head.weight)",
    ),
    (
        checkpoints.NOT_WHAT_WAS_SAVED,
        "none of the 2 checkpoints in /opt/ml/checkpoints can be used (step-000000000012-1f6c22ab: model.pt "
        "has another SHA-256 than the manifest says: its content has changed)",
    ),
    (
        job_runtime.DISK_FULL,
        "rank 0 on algo-1: the checkpoint of step 40 could not be written: No space left on device",
    ),
)
"""The modes, and an example of each."""


def _raised(mode: FailureMode, what: str, role: LineRole) -> Signature:
    return Signature(
        mode=mode,
        role=role,
        literal=f"error: {mode.code.lower()} ",
        pattern=re.compile(
            rf"^slipway\.(?:Slipway|Checkpoint)Error: {mode.code} "
            r"(?=(?:the loss of )?rank (?P<rank>\d{1,6})\b(?: on (?P<host>[\w.-]{1,63}))?|)"
            r"(?P<what>\S(?:.{0,600}[^\s.])?)",
            re.MULTILINE,
        ),
        example=f"slipway.SlipwayError: {mode.code} {what}",
        near_miss=f"INFO slipway.SlipwayError: {mode.code} is what it raises",
        says="{what}",
    )


SIGNATURES = (
    *(_raised(mode, what, LineRole.INITIATOR) for mode, what in _RAISED),
    _raised(
        nccl.CLOSED_BY_PEER,
        "rank 1 could not list train, so this rank ends as well. Rank 1 ended by: OSError",
        LineRole.CASCADE,
    ),
)
