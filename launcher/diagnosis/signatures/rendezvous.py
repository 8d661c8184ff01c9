"""How the hosts meet: the store and torchrun's rendezvous.

Texts: torch/csrc/distributed/c10d/socket.cpp and TCPStore.cpp, torch/distributed/elastic/rendezvous of
PyTorch 1.10 to 2.8; torch/lib/c10d/Utils.cpp of 1.0 to 1.8.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import nccl

SIGNATURES = (
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="client socket has timed out",
        pattern=re.compile(
            r"client socket has timed out after (?P<after>\w+) while trying to connect to \((?P<peer>[^)]+)\)"
        ),
        example="[E socket.cpp:793] [c10d] The client socket has timed out after 60s while trying to "
        "connect to (algo-1, 7777).",
        near_miss="INFO no client socket has timed out",
        says="waited {after} in vain for the rendezvous at {peer}",
    ),
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="waitforinput: socket ",
        pattern=re.compile(
            r"\[c10d\] waitForInput: socket SocketImpl\([^)]{1,300}\) timed out after (?P<after>\d+)ms"
        ),
        example="[W516 14:34:56.854 socket.cpp:489] [c10d] waitForInput: socket SocketImpl(fd=79, "
        "addr=[algo-2]:41170, remote=[algo-1]:29500) timed out after 1800000ms",
        near_miss="INFO [c10d] waitForInput: socket SocketImpl(fd=79) is closed",
        says="waited {after} ms in vain for another rank at the store",
        vague=True,
    ),
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="rendezvous",
        pattern=re.compile(
            r"(?<!of type )\bRendezvous(?:Timeout|Connection)Error\b|Rendezvous ?Closed ?Error|rendezvous "
            r"(?:has )?timed out",
        ),
        example="torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
        near_miss="INFO [c10d] rendezvous of 2 hosts is complete",
        says="the hosts did not meet in time",
        vague=True,
    ),
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="s joined",
        pattern=re.compile(
            r"Timed out after (?P<after>\d+) seconds waiting for (?:clients|workers)\. (?P<came>\d+/\d+) "
            r"(?:clients|workers) joined"
        ),
        example="torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 7/8 "
        "clients joined.",
        near_miss="INFO all 8/8 clients joined",
        says="only {came} ranks came to the store within {after} s",
    ),
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="timed out initializing process group",
        pattern=re.compile(
            r"[Tt]imed out initializing process group in store based barrier on rank(?::? (?P<rank>\d+)|$)"
        ),
        example="RuntimeError: Timed out initializing process group in store based barrier on rank: 3, for "
        "key: store_based_barrier_key:1 (world_size=8, worker_count=7, timeout=0:30:00)",
        near_miss="INFO nothing timed out initializing process groups",
        says="waited in vain for the other ranks at the store",
    ),
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="timeout",
        pattern=re.compile(
            r"^(?:RuntimeError|torch\.distributed\.(?:DistStoreError|DistNetworkError)|DistStoreError): "
            r"(?:Socket Timeout|(?:.*)wait timeout after (?P<after>\d+)ms)"
        ),
        example="torch.distributed.DistStoreError: wait timeout after 300000ms, keys: "
        "/default_pg/0//cpu//0/0",
        near_miss="INFO the wait timeout after 300000ms is the default",
        says="waited {after} ms in vain for another rank at the store",
    ),
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="has failed to connect to",
        pattern=re.compile(
            r"^(?!.*(?:IPv6 network addresses|retry)).*"
            r"(?:The client socket has failed to connect to any network address of \((?P<peer>[^)]+)\))"
        ),
        example="[E socket.cpp:860] [c10d] The client socket has failed to connect to any network address of "
        "(algo-1, 7777).",
        near_miss="[W socket.cpp:601] [c10d] The client socket has failed to connect to "
        "[::ffff:10.0.0.1]:7777 (errno: 111 - Connection refused).",
        says="could not reach the rendezvous at {peer}",
    ),
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.CASCADE,
        literal="broken pipe",
        pattern=re.compile(
            r"(?:sendBytes failed|TCPStore|recvValue|socket\.cpp|\bstore\b|DistNetworkError).*Broken pipe"
            r"|^RuntimeError: Broken pipe(?:$|\. This may indicate)"
        ),
        example="[W TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=68, addr=[algo-2]:40000): "
        "Broken pipe",
        near_miss="BrokenPipeError: [Errno 32] Broken pipe in the pager",
        vague=True,
    ),
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.CASCADE,
        literal="the rendezvous '",
        pattern=re.compile(r"has failed to (?:shutdown|send a keep-alive heartbeat to) the rendezvous '"),
        example="The node 'algo-2_57_0' has failed to shutdown the rendezvous 'job' due to an error of type "
        "RendezvousConnectionError.",
        near_miss="INFO nobody failed to shutdown the rendezvous 'job'",
        vague=True,
    ),
    Signature(
        mode=nccl.PORT_IN_USE,
        role=LineRole.INITIATOR,
        literal="address already in use",
        # c10d warns of IPv6 alone where it then listens on IPv4. The mark of a
        # warning is a prefix that a pattern from `^` on is also tried without.
        pattern=re.compile(
            r"(?:^(?!\[W[ \d].{0,120}bind to \[)).*?"
            r"(?:errno: ?-?\d+|EADDRINUSE|Errno \d+\]|RuntimeError:|code: -?\d+|\bbind:)"
            r".{0,60}?[Aa]ddress already in use"
        ),
        example="RuntimeError: The server socket has failed to listen on any local network address. The "
        "server socket has failed to bind to 0.0.0.0:41796 (errno: 98 - Address already in use).",
        near_miss="TensorBoard: address already in use, trying the next one",
        says="the rendezvous port is in use already",
    ),
    Signature(
        mode=nccl.PORT_IN_USE,
        role=LineRole.INITIATOR,
        literal=": failed bind on ",
        # DGL's servers, src/rpc/network/tcp_socket.cc, which tells an error that it has forgotten.
        pattern=re.compile(r"tcp_socket\.cc:\d{1,6}: Failed bind on (?P<address>\S{1,200}) , error: "),
        example="[10:21:48] /opt/dgl/src/rpc/network/tcp_socket.cc:76: Failed bind on 10.20.30.11:34567 , "
        "error: Success",
        near_miss="INFO: failed bind on no address",
        says="DGL's server cannot have {address}: a server of an earlier run may still hold it",
    ),
    Signature(
        mode=nccl.PORT_IN_USE,
        role=LineRole.SYMPTOM,
        literal="server socket has failed to bind to ",
        # As an error of its own: as a warning it stands behind glog's header.
        pattern=re.compile(r"^(?:[\w.]{1,80}Error: )?The server socket has failed to bind to \S{1,80}\.?$"),
        example="The server socket has failed to bind to [::]:29500",
        near_miss="INFO the server socket has failed to bind to IPv6",
        says="the rendezvous port cannot be had",
        vague=True,
    ),
    Signature(
        mode=nccl.PORT_IN_USE,
        role=LineRole.INITIATOR,
        literal="eaddrinuse",
        pattern=re.compile(r"\bEADDRINUSE\b"),
        example="torch.distributed.DistNetworkError: The server socket has failed to listen. port: 29500, "
        "useIpv6: 0, code: -98, name: EADDRINUSE",
        near_miss="INFO _EADDRINUSE_ is 98",
        says="the rendezvous port is in use already",
    ),
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="host not found: ",
        # What getaddrinfo says of MASTER_ADDR, or of the address in `init_method`.
        pattern=re.compile(
            r"^(?:ValueError|RuntimeError): host not found: "
            r"(?P<why>Name or service not known|Temporary failure in name resolution|No address .{1,60})"
        ),
        example="ValueError: host not found: No address associated with hostname",
        near_miss="INFO host not found: No address associated with hostname, asking again",
        says="the master's name cannot be resolved: {why}",
    ),
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="runtimeerror: ",
        # Of a socket of Python's it would be an OSError: only torch's C++ says it so.
        pattern=re.compile(
            r"^RuntimeError: (?P<why>Connection timed out|Connection refused|No route to host|Network "
            r"is unreachable|Name or service not known|Temporary failure in name resolution"
            r"|connect\(\) timed out\.(?: Original timeout was \d{1,10} ms\.)?)$"
        ),
        example="RuntimeError: connect() timed out. Original timeout was 1800000 ms.",
        near_miss="RuntimeError: the server says: Connection refused",
        says="could not reach the rendezvous: {why}",
    ),
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="server socket has failed to listen on",
        pattern=re.compile(
            r"The server socket has failed to listen on any local network "
            r"address\..{0,300}?(?P<why>[Pp]ermission denied|[Cc]annot assign requested address)"
        ),
        example="torch.distributed.DistNetworkError: The server socket has failed to listen on any local "
        "network address. The server socket has failed to bind to 10.0.0.9:29500 (errno: 99 - "
        "Cannot assign requested address).",
        near_miss="INFO the server socket has failed to listen on IPv6, using IPv4",
        says="rank 0 cannot listen at the rendezvous' address: {why}",
    ),
)
