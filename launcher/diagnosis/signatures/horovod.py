"""What Horovod says where ranks wait for one another, and where one of them is gone.

Texts: horovod/common/operations.cc of 0.12 to 0.16, stall_inspector.cc of 0.17 to 0.28, controller.cc of
0.19 to 0.28, common.h (each breaks its lines where the terminal does). Which ranks are missing stands beside
each tensor until 0.16.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import nccl

SIGNATURES = (
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="[missing ranks: ",
        pattern=re.compile(r"\b(?P<tensor>\w\S{0,200}) \[missing ranks: (?P<rank>\d{1,6})\]"),
        example="Stalled ops:HorovodBroadcast_dense_1_bias_0 [missing ranks: 1]",
        near_miss="HorovodAllreduce_loss_Mean_0 [missing ranks: none]",
        says="the others wait in Horovod for its {tensor} in vain",
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="[missing ranks: ",
        pattern=re.compile(
            r"\b(?P<tensor>\w\S{0,200}) \[missing ranks: (?P<missing>\d{1,6}(?:, ?\d{1,6}){1,99})\]"
        ),
        example="Stalled ops:HorovodBroadcast_dense_1_bias_0 [missing ranks: 1, 3]",
        near_miss="HorovodAllreduce_loss_Mean_0 [missing ranks: none]",
        says="ranks wait in Horovod for {tensor} of ranks {missing} in vain",
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="is stalled for longer than",
        pattern=re.compile(
            r"One or more rank \(marked by \"!\"\) is stalled for longer than (?P<seconds>\d{1,9}) seconds"
        ),
        example='One or more rank (marked by "!") is stalled for longer than 600 seconds. Will shutdown.',
        near_miss="INFO nothing is stalled for longer than 600 seconds",
        says="Horovod gave up after {seconds} s: the ranks in the lines above did not submit what the others "
        "wait for",
        vague=True,
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="gathered or broadcasted by subset of ranks",
        pattern=re.compile(
            r"One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks"
        ),
        example="WARNING: One or more tensors were submitted to be reduced, gathered or broadcasted by "
        "subset of ranks and are waiting for remainder of ranks for more than 60 seconds.",
        near_miss="INFO tensors may be gathered or broadcasted by subset of ranks",
        says="some ranks wait in Horovod for tensors that the others did not submit",
        vague=True,
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="horovod has been shut down",
        pattern=re.compile(r"\bHorovod has been shut down\."),
        example="Aborted: Horovod has been shut down. This was caused by an exception on one of the ranks or "
        "an attempt to allreduce, allgather or broadcast a tensor after one of the ranks finished execution.",
        near_miss="INFO Horovod has been shut down",
        says="Horovod was shut down: another rank had raised, or had ended before this one",
        vague=True,
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.INITIATOR,
        literal=": one rank ",
        pattern=re.compile(r"\bMismatched (?P<what>[\w /-]{1,60}: One rank .{1,200})"),
        example="horovod.common.exceptions.HorovodInternalError: Mismatched allreduce tensor shapes: One "
        "rank sent a tensor of shape [2], but another rank sent a tensor of shape [3].",
        near_miss="INFO matched: one rank each",
        says="ranks called Horovod with what does not fit together: {what}",
    ),
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="timed out waiting for ",
        pattern=re.compile(
            r"Timed out waiting for (?:tasks to start|hosts to perform|all "
            r"(?:tasks|workers))\b"
        ),
        example="horovod.runner.common.util.timeout.TimeoutException: Timed out waiting for tasks to start. "
        "Please check connectivity between servers.",
        near_miss="INFO Timed out waiting for nobody",
        says="Horovod's launcher waited for the other hosts in vain",
    ),
)
