"""NCCL and gloo: memory, sockets, peers that are gone, versions. What devices lack is in `devices`.

Texts: NCCL's misc/socket.cc, shm.h, transport/shm.cc and net_ib.cc, init.cc and bootstrap.cc, 2.3 to 2.28;
gloo's transport/tcp; ProcessGroupNCCL.cpp of PyTorch 1.13 to 2.8; c10d's Utils.hpp of 2.13.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.nccl_start import NO_WAY_THERE
from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import nccl

SIGNATURES = (
    Signature(
        mode=nccl.SYSTEM_ERROR,
        role=LineRole.INITIATOR,
        literal="nccl warn",
        pattern=re.compile(
            r"NCCL WARN (?:Error: failed to extend|Error while (?:creating|attaching to)(?: a)? shared "
            r"memory segment)"
            r" /dev/shm/nccl-\w+|include/shm\.h:\d+ NCCL WARN Call to (?:posix_fallocate|open|mmap|"
            r"shm_open) failed"
        ),
        example="gpubox-2:1179:1497 [1] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No "
        "space left on device",
        near_miss="gpubox-2:7:9 [1] include/shm.h:28 NCCL WARN Call to munmap was slow",
        says="NCCL got no shared memory (/dev/shm is too small); this is not the disk",
    ),
    Signature(
        mode=nccl.SYSTEM_ERROR,
        role=LineRole.SYMPTOM,
        literal="nccl warn",
        pattern=re.compile(
            r"NCCL WARN .*(?:Connect to |connect to )(?P<peer>\S+?) ?(?:failed|returned)[ :(]++"
            rf"(?P<why>(?!(?:\d{{1,4}}\()?(?:{NO_WAY_THERE})).*\S)"
            r"|NCCL WARN Call to (?:connect|bind|listen|accept|socket) (?:failed|returned)[ :]++"
            rf"(?P<call>(?!(?:{NO_WAY_THERE})).*\S)"
        ),
        example="h800-2:9251:9400 [5] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to "
        "10.0.0.1<15511> failed : Software caused connection abort",
        near_miss="trn-07:51220:51340 [0] NCCL INFO Call to connect returned Connection refused, retrying "
        "(NCCL WARN off)",
        says="could not connect to {peer}: {why}",
    ),
    Signature(
        mode=nccl.SYSTEM_ERROR,
        role=LineRole.SYMPTOM,
        literal="system error",
        pattern=re.compile(
            r"unhandled system error(?: \(run with|,| NCCL|$)|\bNCCL Error unhandled system error\b",
            re.MULTILINE,
        ),
        example="RuntimeError: NCCL error in: ../torch/lib/c10d/ProcessGroupNCCL.cpp:825, unhandled system "
        "error, NCCL version 2.7.8",
        near_miss="INFO a system error page was read",
        vague=True,
    ),
    Signature(
        mode=nccl.SYSTEM_ERROR,
        role=LineRole.SYMPTOM,
        literal="ncclsystemerror",
        pattern=re.compile(r"ncclSystemError: System call"),
        example="ncclSystemError: System call (e.g. socket, malloc) or external library call failed or "
        "device error.",
        near_miss="INFO ncclSystemError is 2",
        vague=True,
    ),
    Signature(
        mode=nccl.SYSTEM_ERROR,
        role=LineRole.INITIATOR,
        literal="ibv_create_",
        pattern=re.compile(r"NCCL WARN Call to ibv_create_\w+ failed"),
        example="gpu-1:20:31 [0] misc/ibvwrap.cc:252 NCCL WARN Call to ibv_create_qp failed",
        near_miss="gpu-1:20:31 [0] NCCL INFO calling ibv_create_qp",
        says="NCCL could not lock memory for its network device: see `ulimit -l`",
        vague=True,
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="remote p",
        pattern=re.compile(
            r"[Cc]onnection closed by remote peer(?: (?P<peer>[^\s<]+))?|Connection from remote peer .* "
            r"was closed"
            r"|ncclRemoteError: .*remote process exited"
        ),
        example="gpu11:7:9 [3] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer "
        "gpu11.rack4<51020>",
        near_miss="INFO waiting for a remote peer",
        says="the connection was closed by its peer {peer}, which had ended",
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="remote process exited",
        pattern=re.compile(r"remote process exited or there was a network error"),
        example="torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1691, remote "
        "process exited or there was a network error, NCCL version 2.19.3",
        near_miss="INFO remote process exited normally",
        vague=True,
    ),
    Signature(
        mode=nccl.SYSTEM_ERROR,
        role=LineRole.CASCADE,
        literal="nccl error in",
        pattern=re.compile(r"NCCL error in: \S+:\d+, (?P<what>(?!unhandled system|remote process)[\w ]+)"),
        example="torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1275, internal "
        "error, NCCL version 2.14.3",
        near_miss="RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:825, unhandled system error, NCCL "
        "version 2.7.8",
        says="NCCL gave up: {what}",
        vague=True,
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="ncclremoteerror",
        pattern=re.compile(r"ncclRemoteError: "),
        example="ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
        "prematurely.",
        near_miss="INFO ncclRemoteError is 6",
        vague=True,
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="connection closed by peer",
        pattern=re.compile(
            r"gloo/transport/tcp/pair\.cc:\d+\] Connection closed by peer \[?(?P<peer>[\d.a-f:]+)"
        ),
        example="RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by "
        "peer [10.0.0.7]:24861",
        near_miss="wget: connection closed by peer, retrying",
        says="the connection was closed by its peer {peer}, which had ended",
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="connection reset by peer",
        pattern=re.compile(
            r"(?:gloo/|TCPStore|\bstore\b|c10d|NCCL|socket\.cpp|recvValue|sendBytes|recvBytes|"
            r"DistNetworkError)"
            r".*Connection reset by peer",
        ),
        example="RuntimeError: [3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via "
        "c10d key-value store by key '0', but store->get('0') got error: Connection reset by peer",
        near_miss="urllib3 ConnectionResetError(104, 'Connection reset by peer'), retrying",
        vague=True,
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="connection was likely closed",
        pattern=re.compile(r"Failed to (?:recv, got|send, sent) 0 bytes\. Connection was likely closed"),
        example="torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely "
        "closed. Did the remote server shutdown or crash?",
        near_miss="database: the connection was likely closed, connecting again",
        says="the store's connection was closed by another rank, which had ended",
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="got completion ",
        pattern=re.compile(
            r"NET/IB ?: Got completion (?:from peer (?P<peer>[^\s<]{1,100})\S* )?with (?:error |status=)"
            r"(?P<status>\w{1,40}(?:\(\d{1,4}\))?)"
        ),
        example="gpu-1:617:2799 [3] transport/net_ib.cc:2360 NCCL WARN NET/IB: Got completion from peer "
        "10.0.0.4<53393> with status=12 opcode=1 len=5222 vendor err 129 (Send)",
        near_miss="gpu-1:617:2799 [3] NCCL INFO NET/IB: got completion of 3 requests",
        says="InfiniBand got no answer from its peer {peer} (status {status})",
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="failed : connection timed out",
        pattern=re.compile(
            r"NCCL WARN (?:Net ?: )?Call to (?:recv|send|read|write)\w{0,8} "
            r"(?:(?:from|to) (?P<peer>[^\s<]{1,100})\S{0,20} )?failed : Connection timed out"
        ),
        example="worker-23:83:2526 [0] misc/socket.cc:503 NCCL WARN Net : Call to recv from "
        "10.0.41.17<38820> failed : Connection timed out",
        near_miss="worker-23:83:2526 [0] NCCL WARN Call to connect failed : Connection timed out",
        says="its peer {peer} answered no more, and the kernel gave the connection up",
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal=": call to ",
        # The last error of NCCL that torch tells: of the one that made it give up, not of each that it met.
        pattern=re.compile(
            r"^socket\w{1,40}: Call to (?:recv|send|read|write)\w{0,8} "
            r"(?:from|to) (?P<peer>[^\s<]{1,100})\S{0,20} failed : (?P<why>Broken pipe|Connection reset)"
        ),
        example="socketProgressOpt: Call to recv from 10.0.41.17<38820> failed : Broken pipe",
        near_miss="INFO socketProgressOpt: Call to recv failed : Connection timed out",
        says="the connection to its peer {peer} is broken: {why}",
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="application timeout caused pair closure",
        pattern=re.compile(r"Application timeout caused pair closure"),
        example="RuntimeError: Application timeout caused pair closure",
        near_miss="INFO no application timeout caused pair closures",
        says="another operation timed out, and gloo closed the connection",
        vague=True,
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="failed to recv, got 0 bytes",
        pattern=re.compile(r"\bfailed to recv, got 0 bytes"),
        example="torch.distributed.DistBackendError: [3] is setting up NCCL communicator and retrieving "
        "ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got "
        "error: failed to recv, got 0 bytes",
        near_miss="database: Failed to recv, got 0 bytes, connecting again",
        says="the store's connection was closed by another rank, which had ended",
        vague=True,
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="reset by peer",
        # Of a socket of Python's it would be a ConnectionResetError: only torch's C++ says it so.
        pattern=re.compile(r"^RuntimeError: Connection reset by peer(?:$|\. This may indicate)"),
        example="RuntimeError: Connection reset by peer",
        near_miss="RuntimeError: the download ended: Connection reset by peer",
        says="the store's connection was closed by another rank, which had ended",
        vague=True,
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="stop_waiting response is expected",
        pattern=re.compile(r"^RuntimeError: Stop_waiting response is expected"),
        example="RuntimeError: Stop_waiting response is expected",
        near_miss="INFO a Stop_waiting response is expected next",
        says="the store's connection was closed by another rank, which had ended",
        vague=True,
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="nccl communicator was aborted on rank",
        pattern=re.compile(r"NCCL communicator was aborted on rank (?P<aborted>\d{1,6})\."),
        example="torch.distributed.DistBackendError: NCCL communicator was aborted on rank 3.",
        near_miss="INFO no NCCL communicator was aborted on rank 3",
        says="its communicator had been aborted, after another operation had failed or timed out",
        vague=True,
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="message truncated : receiv",
        pattern=re.compile(
            r"[Mm]essage truncated : receiv(?:ed|ing) (?P<got_bytes>\d{1,18})(?:,\d{1,18})? bytes "
            r"instead of (?P<expected_bytes>\d{1,18})"
        ),
        example="algo-1:88:141 [3] misc/socket.cc:700 NCCL WARN Message truncated : received 1024 bytes "
        "instead of 256",
        near_miss="INFO message truncated : received a long one",
        says="ranks called different collectives, or with different sizes: {got_bytes} bytes came "
        "where {expected_bytes} were expected",
    ),
    Signature(
        mode=nccl.SYSTEM_ERROR,
        role=LineRole.CASCADE,
        literal="nccl failure ",
        # Its tests say `Test NCCL failure` since 2.0.
        pattern=re.compile(r"(?:Test |^)NCCL failure \S{1,100}:\d{1,6} '(?P<what>[^'/]{1,200})"),
        example="gpu-1: Test NCCL failure common.cu:961 'internal error - please report this issue to "
        "the NCCL developers / '",
        near_miss="INFO a test NCCL failure is not expected",
        says="NCCL gave up: {what}",
        vague=True,
    ),
    Signature(
        mode=nccl.SYSTEM_ERROR,
        role=LineRole.CASCADE,
        literal="nccl warn cuda failure ",
        pattern=re.compile(r"NCCL WARN Cuda failure (?:\d{1,6} )?'(?P<what>[^']{1,200})'"),
        example="algo-1:88:141 [0] include/alloc.h:102 NCCL WARN Cuda failure 1 'invalid argument'",
        near_miss="algo-1:88:141 [0] NCCL INFO what an NCCL WARN Cuda failure means",
        says="a call of CUDA failed in NCCL: {what}",
        vague=True,
    ),
    Signature(
        mode=nccl.SYSTEM_ERROR,
        role=LineRole.CASCADE,
        literal="nccl error ",
        pattern=re.compile(
            r"\bNCCL Error [1345]: (?P<what>unhandled cuda error|internal error|invalid argument"
            r"|invalid usage)"
        ),
        example="RuntimeError: NCCL Error 1: unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        near_miss="RuntimeError: NCCL Error 2: unhandled system error (run with NCCL_DEBUG=INFO for details)",
        says="NCCL gave up: {what}",
        vague=True,
    ),
)
