"""How NCCL comes up: its network interfaces, the ranks that check in, the topology of a host.

Texts: NCCL's bootstrap.cc, init.cc, graph/xml.cc, graph/paths.cc, transport.cc and net_socket.cc, 2.3 to
2.28; ProcessGroupNCCL.cpp and NCCLUtils.cpp of PyTorch 1.13 to 2.8.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import nccl

NO_WAY_THERE = r"No route to host|Network is unreachable|Connection timed out"
"""What the kernel says where the way to a host is closed, rather than its port."""

SIGNATURES = (
    Signature(
        mode=nccl.INITIALISATION_STALLED,
        role=LineRole.INITIATOR,
        literal="no socket interface found",
        pattern=re.compile(r"(?:Bootstrap|NET/Socket) : no socket interface found"),
        example="algo-1:88:141 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found",
        near_miss="INFO no socket interface found for the dashboard",
        says="NCCL found no network interface: NCCL_SOCKET_IFNAME leaves none",
    ),
    Signature(
        mode=nccl.INITIALISATION_STALLED,
        role=LineRole.INITIATOR,
        literal="has already checked in",
        pattern=re.compile(
            r"Bootstrap Root : rank (?P<rank>\d+) of (?P<ranks>\d+) ranks has already checked in"
        ),
        example="algo-1:18569:18835 [0] bootstrap.cc:131 NCCL WARN Bootstrap Root : rank 1 of 8 ranks has "
        "already checked in",
        near_miss="INFO rank 1 of 8 ranks has already checked in",
        says="two processes of {ranks} have this rank",
    ),
    Signature(
        mode=nccl.INITIALISATION_STALLED,
        role=LineRole.SYMPTOM,
        literal="is setting up nccl communicator",
        pattern=re.compile(
            r"\[(?P<rank>\d+)\] is setting up NCCL communicator and retriev\w+ ncclUniqueId from "
            r"\[0\].*got error: "
            r"(?!Connection reset|Broken pipe|[Ff]ailed to (?:recv|send))(?P<why>.{0,80})"
        ),
        example="RuntimeError: [3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via "
        "c10d key-value store by key '0', but store->get('0') got error: Socket Timeout",
        near_miss="INFO rank 3 is setting up NCCL communicator",
        says="got no id from rank 0 while setting up NCCL: {why}",
    ),
    Signature(
        mode=nccl.INITIALISATION_STALLED,
        role=LineRole.SYMPTOM,
        literal="nccl warn proxy call to rank ",
        pattern=re.compile(
            r"NCCL WARN Proxy Call to rank (?P<peer>\d{1,6}) failed \((?P<step>Connect|Setup|Init)\)"
        ),
        example="algo-1:184626:187757 [0] proxy.cc:808 NCCL WARN Proxy Call to rank 1 failed (Connect)",
        near_miss="algo-1:184626:187757 [0] NCCL INFO no NCCL WARN Proxy Call to rank 1",
        says="NCCL could not set up its way to rank {peer} ({step})",
        vague=True,
    ),
    Signature(
        mode=nccl.INITIALISATION_STALLED,
        role=LineRole.SYMPTOM,
        literal="socketstartconnect: exceeded retries",
        pattern=re.compile(r"\bsocketStartConnect: exceeded retries \((?P<times>\d{1,9})\)"),
        example="socketStartConnect: exceeded retries (20000)",
        near_miss="INFO what socketStartConnect: exceeded retries means",
        says="tried {times} times in vain to connect to another rank",
    ),
    Signature(
        mode=nccl.INITIALISATION_STALLED,
        role=LineRole.SYMPTOM,
        literal="nccl warn call to ibv_modify_qp failed",
        pattern=re.compile(
            rf"NCCL WARN Call to ibv_modify_qp failed with (?:error )?(?:\d{{1,6}} )?(?P<why>{NO_WAY_THERE})"
        ),
        example="gpu-1:20:31 [5] ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection "
        "timed out, on dev mlx5_1:1, curr state INIT, next state RTR",
        near_miss="gpu-1:20:31 [5] NCCL INFO no NCCL WARN Call to ibv_modify_qp failed",
        says="could not connect two InfiniBand or RoCE devices: {why}",
    ),
    Signature(
        mode=nccl.VERSIONS_DIFFER,
        role=LineRole.INITIATOR,
        literal="mismatched nccl version",
        pattern=re.compile(
            r"Mismatched NCCL version detected : rank (?P<one>\d+) version (?P<first>\d+) rank "
            r"(?P<two>\d+) version (?P<second>\d+)"
        ),
        example="NCCL WARN Mismatched NCCL version detected : rank 0 version 21805 rank 8 version 21903 "
        "myrank 0 cudaDev 0",
        near_miss="INFO no mismatched NCCL version",
        says="rank {one} runs NCCL {first}, rank {two} runs {second}",
    ),
    Signature(
        mode=nccl.INITIALISATION_STALLED,
        role=LineRole.SYMPTOM,
        literal="nccl timeout ",
        pattern=re.compile(
            r"NCCL timeout (?P<what>in communicator initialization|when waiting for nonblocking call)"
        ),
        example="torch.distributed.DistBackendError: NCCL timeout in communicator initialization.",
        near_miss="INFO the NCCL timeout is 600 s",
        says="NCCL did not come up in time (timeout {what})",
    ),
    Signature(
        mode=nccl.INITIALISATION_STALLED,
        role=LineRole.SYMPTOM,
        literal="nccl warn net/socket : no",
        pattern=re.compile(r"NCCL WARN NET/Socket : (?:no|No usable listening) interface found"),
        example="algo-1:88:141 [0] transport/net_socket.cc:60 NCCL WARN NET/Socket : no interface found",
        near_miss="INFO NCCL WARN NET/Socket : not met",
        says="NCCL found no network interface: NCCL_SOCKET_IFNAME leaves none",
    ),
    Signature(
        mode=nccl.INITIALISATION_STALLED,
        role=LineRole.INITIATOR,
        literal="mismatch in info from procs",
        pattern=re.compile(
            r"Bootstrap Root : mismatch in info from procs, nranks (?P<ranks>\d{1,7}) vs "
            r"(?P<others>\d{1,7})"
        ),
        example="algo-1:88:141 [0] bootstrap.cc:131 NCCL WARN Bootstrap Root : mismatch in info from "
        "procs, nranks 8 vs 16, nroots 1 vs 1, iroot 0 vs 0, offset 0 vs 0",
        near_miss="INFO no mismatch in info from procs",
        says="the ranks do not agree how many they are: {ranks} and {others}",
    ),
    Signature(
        mode=nccl.INITIALISATION_STALLED,
        role=LineRole.SYMPTOM,
        literal="nccl warn",
        pattern=re.compile(
            r"NCCL WARN (?P<what>Attribute \w{1,40} of node \w{1,40} not found|XML Parse : .{1,80}"
            r"|XML Graph has wrong version.{0,80}|No path computed to go from .{1,80}|No transport "
            r"found for rank .{1,80}|Error : (?:too many (?:XML|Topo)|could not find CPU close "
            r"to).{0,80})"
        ),
        example="gpu-1:75:95 [2] graph/xml.h:101 NCCL WARN Attribute arch of node cpu not found",
        near_miss="gpu-1:75:95 [2] graph/xml.cc:344 NCCL WARN Could not find real path of /sys/class/pci_bus",
        says="NCCL could not make out how the GPUs and networks of this host are connected: {what}",
    ),
    Signature(
        mode=nccl.INITIALISATION_STALLED,
        role=LineRole.SYMPTOM,
        literal="nccl warn",
        pattern=re.compile(
            rf"NCCL WARN .*[Cc]onnect to (?P<peer>\S+?) ?(?:failed|returned)[ :(]++"
            rf"(?:\d{{1,4}}\()?(?P<why>{NO_WAY_THERE})"
            rf"|NCCL WARN Call to connect (?:failed|returned)[ :]++(?P<call>{NO_WAY_THERE})"
        ),
        example="algo-1:795:822 [0] include/socket.h:409 NCCL WARN Net : Connect to 10.0.0.9<54263> failed "
        ": No route to host",
        near_miss="algo-1:795:822 [0] include/socket.h:409 NCCL WARN Net : Connect to 10.0.0.9<54263> "
        "failed : Connection refused",
        says="{peer} cannot be reached: {why}",
    ),
)
