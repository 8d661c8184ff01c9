"""What the watchdog of the boot says of a job that stands still.

Texts: slipway/watchdog/judgement.py.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import checkpoints, data, nccl

_WHO = r"(?P<what>ranks? (?P<rank>\d{1,6})[\d, -]{0,200} on (?P<host>[\w.-]{1,63})[ ,].{1,1500})$"
"""The host is that of the rank, not the one that says it. With a colon behind it, the boot tells what that
rank has printed, which may be that it waited."""

SIGNATURES = (
    Signature(
        mode=data.UNEVEN_BATCHES,
        role=LineRole.INITIATOR,
        literal="slipway: data001 rank",
        pattern=re.compile(rf"^slipway: DATA001 {_WHO}"),
        example="slipway: DATA001 rank 2 on algo-2 called barrier #21 (train.py:37), where ranks 0, 1, 3 "
        "called all_reduce #21 [4160] (train.py:27): it has left the loop at train.py:20, in which the "
        "others still are; no rank has made a step for 62 s (limit 60 s)",
        near_miss="slipway: data001 ranks are explained by `launch explain DATA001`",
        says="{what}",
    ),
    Signature(
        mode=checkpoints.STATE_DICT_NOT_ON_EVERY_RANK,
        role=LineRole.INITIATOR,
        literal="slipway: ckpt003 rank",
        pattern=re.compile(rf"^slipway: CKPT003 {_WHO}"),
        example="slipway: CKPT003 rank 0 on algo-1 called all_gather #21 [8] (train.py:16), where ranks 1, "
        "2, 3 called all_reduce #21 [4160] (train.py:27): saving needs ranks 1, 2, 3 as well; no rank has "
        "made a step for 61 s (limit 60 s)",
        near_miss="slipway: ckpt003 ranks are explained by `launch explain CKPT003`",
        says="{what}",
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="slipway: nccl004 rank",
        pattern=re.compile(rf"^slipway: NCCL004 {_WHO}"),
        example="slipway: NCCL004 rank 2 on algo-2 has not entered all_reduce #21 [4160] (train.py:27), in "
        "which ranks 0, 1, 3 wait; it gives no answer, process state T; no rank has made a step for 62 s",
        near_miss="slipway: nccl004 ranks are explained by `launch explain NCCL004`",
        says="{what}",
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.ADVISORY,
        literal="slipway: warning: nccl004 ",
        pattern=re.compile(r"^slipway: warning: NCCL004 (?P<what>.{1,1500})$"),
        example="slipway: warning: NCCL004 rank 2 on algo-2 has not entered all_reduce #21 [4160] "
        "(train.py:27), in which ranks 0, 1, 3 wait; it is at train.py:33, process state S",
        near_miss="INFO slipway: warning: NCCL004 is explained by `launch explain`",
        says="{what}",
    ),
)
