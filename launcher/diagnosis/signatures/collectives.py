"""Collectives that timed out or did not fit together.

Texts: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, ProcessGroupWrapper.cpp, ProcessGroupGloo.cpp of
PyTorch 1.13 to 2.8.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import data, nccl

SIGNATURES = (
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="collective operation timeout",
        pattern=re.compile(
            r"(?:Rank (?P<group_rank>\d+)\] )?(?:Watchdog c|C)aught collective operation timeout"
            r"(?:: WorkNCCL\(SeqNum=(?P<sequence>\d+), OpType=(?P<operation>\w+)"
            r"(?:.*?ran for (?P<milliseconds>\d+) milliseconds)?)?"
        ),
        example="[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=180, "
        "OpType=ALLREDUCE, "
        "NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600031 milliseconds before timing out.",
        near_miss="INFO the collective operation timeout is 600 s",
        says="waited in vain for the others in {operation} number {sequence}",
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="timed out in blocking wait",
        pattern=re.compile(
            r"WorkNCCL\((?:SeqNum=(?P<sequence>\d+), )?OpType=(?P<operation>\w++).*timed out in blocking wait"
        ),
        example="[Rank 1] Work WorkNCCL(SeqNum=2109, OpType=_ALLGATHER_BASE, NumelIn=4, NumelOut=8, "
        "Timeout(ms)=1800000) timed out in blocking wait (TORCH_NCCL_BLOCKING_WAIT=1).",
        near_miss="INFO nothing timed out in blocking wait",
        says="waited in vain for the others in {operation} number {sequence}",
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="milliseconds before timing out",
        # The beginning of the line may be gone: many processes write into one stream.
        pattern=re.compile(
            r"WorkNCCL\((?:SeqNum=(?P<sequence>\d+), )?OpType=(?P<operation>\w++).*"
            r"ran for (?P<milliseconds>\d+) milliseconds before timing out"
        ),
        example="n timeout: WorkNCCL(SeqNum=2109, OpType=_ALLGATHER_BASE, NumelIn=4, NumelOut=8, "
        "Timeout(ms)=1800000) ran for 1800007 milliseconds before timing out.",
        near_miss="INFO the request waits 100 milliseconds before timing out",
        says="waited in vain for the others in {operation} number {sequence}",
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="timeout at nccl work",
        pattern=re.compile(
            r"Rank (?P<group_rank>\d+)\] Timeout at NCCL work: (?P<sequence>\d+), last enqueued NCCL work: "
            r"(?P<enqueued>\d+)"
        ),
        example="[PG 0 Rank 7] Timeout at NCCL work: 1, last enqueued NCCL work: 1, last completed NCCL "
        "work: 0.",
        near_miss="INFO no Timeout at NCCL work",
        says="waited in vain for the others in collective number {sequence}",
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="detected by watchdog at work",
        pattern=re.compile(
            r"Rank (?P<group_rank>\d+)\] +(?:Exception \(either an error or timeout\)|failure) detected by "
            r"watchdog at work(?: sequence id)?: (?P<sequence>\d+)"
        ),
        example="[PG ID 0 PG GUID 0(default_pg) Rank 1]  failure detected by watchdog at work sequence id: "
        "2635 PG status: last enqueued work: 2635, last completed work: 2634",
        near_miss="INFO nothing detected by watchdog at work 3",
        says="waited in vain for the others in collective number {sequence}",
        vague=True,
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="checktimeout",
        # Where the message of the watchdog is cut off, the frames of its exception tell the same.
        pattern=re.compile(
            r"^(?:frame #\d{1,6}: c10d::ProcessGroupNCCL::WorkNCCL::|Exception raised from )checkTimeout\b"
        ),
        example="Exception raised from checkTimeout at ../c10d/ProcessGroupNCCL.cpp:525",
        near_miss="INFO checkTimeout is called every 100 ms",
        says="waited in vain for the others in a collective",
        vague=True,
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="op.preamble.length <= op.nbytes",
        # gloo, gloo/transport/tcp/pair.cc: who says it received what another one sent, and need not be who
        # is in the wrong collective.
        pattern=re.compile(
            r"op\.preamble\.length <= op\.nbytes\. (?P<got_bytes>\d{1,18}) vs (?P<expected_bytes>\d{1,18})"
        ),
        example="  what():  [enforce fail at gloo/transport/tcp/pair.cc:9] op.preamble.length <= op.nbytes. "
        "12 vs 4. Received data size doesn't match expected size. Is there a distributed collective mismatch "
        "in your code?",
        near_miss="INFO op.preamble.length <= op.nbytes holds",
        says="ranks called different collectives, or with different sizes: {got_bytes} bytes came where "
        "{expected_bytes} were expected",
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.INITIATOR,
        literal="collective mismatch error",
        # NCCL, transport/net_ib.cc: whose call is the wrong one no line tells.
        pattern=re.compile(
            r"NCCL WARN NET/IB : .{0,100} collective mismatch error, local size (?P<sent>\d{1,18}) remote "
            r"size (?P<asked>\d{1,18})"
        ),
        example="algo-1:88:141 [0] transport/net_ib.cc:1038 NCCL WARN NET/IB : req 0/1 tag 0 peer "
        "10.0.23.6<58683> collective mismatch error, local size 496640 remote size 65536",
        near_miss="algo-1:88:141 [0] NCCL INFO no collective mismatch error",
        says="ranks called different collectives, or with different sizes: {sent} and {asked} bytes",
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.INITIATOR,
        literal="mismatched collective detected",
        # NCCL, init.cc of 2.4 to 2.6.
        pattern=re.compile(r"NCCL WARN Mismatched collective detected"),
        example="init.cc:1247 NCCL WARN Mismatched collective detected, please check your collective calls "
        "at and around rank 39.",
        near_miss="INFO no mismatched collective detected",
        says="ranks called different collectives, or with different sizes",
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.INITIATOR,
        literal="mismatch between collectives on ranks",
        pattern=re.compile(
            r"Detected mismatch between collectives on ranks\. Rank (?P<rank>\d+) is running "
            r"(?:inconsistent )?collective: "
            r"CollectiveFingerPrint\((?:SequenceNumber=(?P<sequence>\d+), )?OpType=(?P<operation>\w+)"
            r"(?:.*but Rank (?P<other>\d+) is running collective: \w+\(SequenceNumber=\d+, "
            r"OpType=(?P<other_operation>\w+))?"
        ),
        example="RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=2210, OpType=ALLREDUCE, TensorShape=[4]), but Rank 0 is "
        "running "
        "collective: CollectiveFingerPrint(SequenceNumber=2210, OpType=BROADCAST, TensorShape=[4])",
        near_miss="INFO looking for a mismatch between collectives on ranks",
        says="ranks disagree at collective {sequence}: {operation} here, on rank {other} {other_operation}",
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="failed to pass monitoredbarrier",
        pattern=re.compile(
            r"Ranks? (?P<rank>\d++)[, \d]*+(?<= )failed to pass monitoredBarrier in (?P<ms>\d+) ms"
        ),
        example="[Rank 0]: Rank 2 failed to pass monitoredBarrier in 30000 ms",
        near_miss="INFO no rank failed to pass monitoredBarrier",
        says="did not come to the barrier within {ms} ms",
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="timed out waiting",
        pattern=re.compile(r"Timed out waiting (?P<ms>\d+)ms for (?:recv|send) operation to complete"),
        example="[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting "
        "1800000ms for recv operation to complete",
        near_miss="INFO Timed out waiting for the profiler",
        says="waited {ms} ms in vain for another rank (gloo)",
        vague=True,
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        # It is printed of a lost connection as well, whose own line is definite.
        role=LineRole.CASCADE,
        literal="operations have failed or timed out",
        pattern=re.compile(r"Some NCCL operations have failed or timed out"),
        example="[E ProcessGroupNCCL.cpp:455] Some NCCL operations have failed or timed out. Due to the "
        "asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted data.",
        near_miss="INFO no operations have failed or timed out",
        vague=True,
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="watchdog got stuck",
        pattern=re.compile(
            r"ProcessGroupNCCL's watchdog got stuck for (?P<seconds>\d+) ?seconds without making progress"
        ),
        example="[PG ID 0 PG GUID 0 Rank 0] ProcessGroupNCCL's watchdog got stuck for 480 seconds without "
        "making progress in monitoring enqueued collectives.",
        near_miss="INFO abort if the watchdog got stuck",
        says="NCCL's watchdog stood still for {seconds} s",
        vague=True,
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="received a dump signal",
        pattern=re.compile(r"Received a dump signal due to a collective timeout from +this local rank"),
        example="[PG ID 0 Rank 0] Received a dump signal due to a collective timeout from this local rank "
        "and we will try our best to dump the debug info.",
        near_miss="[PG ID 0 Rank 0] Received a dump signal due to a collective timeout from another rank",
        vague=True,
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="received a dump signal",
        pattern=re.compile(
            r"Received a dump signal due to a collective timeout from +rank (?P<reporter>\d{1,6})"
        ),
        example="[PG ID 0 PG GUID 0(default_pg) Rank 5] Received a dump signal due to a collective timeout "
        "from  rank 2 and we will try our best to dump the debug info.",
        near_miss="[PG ID 0 Rank 0] Received a dump signal due to a collective timeout from another rank",
        says="rank {reporter} waited in vain for the others in a collective, and told all ranks",
        vague=True,
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="timeout at collective",
        pattern=re.compile(
            r"Rank (?P<group_rank>\d+)\] Timeout at collective: (?P<operation>\w+), #(?P<sequence>\d+)"
        ),
        example="[Rank 0] Timeout at collective: ALLREDUCE, #3",
        near_miss="INFO a timeout at collective calls ends the job",
        says="waited in vain for the others in {operation} number {sequence}",
    ),
    Signature(
        mode=data.UNEVEN_BATCHES,
        role=LineRole.INITIATOR,
        literal="uneven workload distribution",
        pattern=re.compile(r"Detected uneven workload distribution"),
        example="INFO Detected uneven workload distribution: Rank 3 successfully reached monitoredBarrier, "
        "but received errors while waiting for send/recv from rank 0.",
        near_miss="INFO no uneven workload distribution",
        says="the ranks have different numbers of batches",
    ),
    Signature(
        mode=data.UNEVEN_BATCHES,
        role=LineRole.INITIATOR,
        literal="that exhausted inputs",
        pattern=re.compile(r"Detected at least one rank that exhausted inputs"),
        example="RuntimeError: Detected at least one rank that exhausted inputs. Throwing across all ranks.",
        near_miss="INFO Join shadows the collectives of ranks that exhausted inputs",
        says="a rank ran out of batches before the others",
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.TEARDOWN,
        literal="observed flight recorder dump signal",
        pattern=re.compile(r"Observed flight recorder dump signal from another rank via TCPStore"),
        example="[PG ID 0 Rank 0] Observed flight recorder dump signal from another rank via TCPStore.",
        near_miss="INFO nobody observed flight recorder dump signals",
    ),
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.TEARDOWN,
        literal="should dump",
        pattern=re.compile(r'Failed to check the "should dump" flag on TCPStore'),
        example='Failed to check the "should dump" flag on TCPStore, (maybe TCPStore server has shut down '
        "too early)",
        near_miss="INFO the profiler should dump its trace",
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.CASCADE,
        literal="tried to allocate more than 1eb memory",
        pattern=re.compile(r"out of memory\. Tried to allocate more than 1EB memory"),
        example="torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.",
        near_miss="INFO nobody tried to allocate more than 1EB memory",
        says="the size of an object that another rank should have sent is garbage: the ranks are not in step",
        vague=True,
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="terminating the process after attempting to dump",
        pattern=re.compile(
            r"Terminating the process after attempting to dump debug info, due to (?P<why>[^.]{1,100})"
        ),
        example="[PG ID 0 PG GUID 0(default_pg) Rank 3] Terminating the process after attempting to dump "
        "debug info, due to ProcessGroupNCCL watchdog hang.",
        near_miss="INFO not terminating the process after attempting to dump",
        says="NCCL's watchdog ended the process: {why}",
        vague=True,
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="heartbeat monitor timed out",
        pattern=re.compile(r"\bHeartbeat monitor timed out! Process will be terminated"),
        example="[PG 0 Rank 3] Heartbeat monitor timed out! Process will be terminated after dumping "
        "debug info. workMetaList_.size()=2",
        near_miss="INFO the heartbeat monitor timed out once",
        says="NCCL's watchdog stood still",
        vague=True,
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="timed out in monitoredbarrier",
        pattern=re.compile(r"Rank (?P<late>\d{1,6}) timed out in monitoredBarrier after (?P<ms>\d{1,10}) ms"),
        example="RuntimeError: Rank 0 timed out in monitoredBarrier after 30000 ms.",
        near_miss="INFO nobody timed out in monitoredBarrier",
        says="waited {ms} ms in vain for the other ranks in a barrier",
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="successfully reached monitoredbarrier",
        pattern=re.compile(
            r"successfully reached monitoredBarrier, but received errors while waiting(?: for "
            r"send/recv from rank (?P<peer>\d{1,6}))?"
        ),
        example="RuntimeError: Rank 3 successfully reached monitoredBarrier, but received errors while "
        "waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.",
        near_miss="INFO all ranks successfully reached monitoredBarrier",
        says="came to the barrier and lost its connection to rank {peer}",
        vague=True,
    ),
)
