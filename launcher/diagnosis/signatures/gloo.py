"""What gloo says where ranks do not reach one another, or lost a peer.

Texts: gloo/transport/tcp (device.cc, pair.cc, helpers.h) and gloo/rendezvous/context.cc as PyTorch 1.0 to
2.13 have them; torch/csrc/distributed/c10d/ProcessGroupGloo.cpp.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import nccl
from launcher.failure_modes.model import Retry

SIGNATURES = (
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="connectfullmesh failed with",
        pattern=re.compile(r"Gloo connectFullMesh failed with (?P<why>.{1,200})"),
        example="RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/"
        "pair.cc:144] no error",
        near_miss="INFO connectFullMesh failed with no rank",
        says="could not connect to all other ranks (gloo): {why}",
        remedy="Some host's name leads to an address that the others do not reach, such as 127.0.1.1, or a "
        "rank had ended. Set GLOO_SOCKET_IFNAME to the interface that is in the container's "
        "resourceconfig.json, and look for a rank that failed before.",
    ),
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="] connect [",
        pattern=re.compile(
            r"gloo/transport/tcp/\w{1,40}\.cc:\d{1,6}\] connect \[(?P<peer>(?!127\.0\.1\.1\])[^\]\s]{1,60})\]"
            r":\d{1,6}: "
            r"(?P<why>Connection refused|Connection timed out|No route to host|Network is unreachable)"
        ),
        example="RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect "
        "[10.0.0.7]:20000: Connection refused",
        near_miss="INFO [gloo] connect [10.0.0.7]:20000: Connection refused, trying the next address",
        says="no rank answered at {peer} (gloo): {why}",
    ),
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="connect [127.0.1.1]",
        # Debian's address for the host's own name in /etc/hosts: no other host reaches anybody there.
        pattern=re.compile(
            r"gloo/transport/tcp/\w{1,40}\.cc:\d{1,6}\] connect \[127\.0\.1\.1\]:\d{1,6}: "
            r"Connection refused"
        ),
        example="RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect "
        "[127.0.1.1]:20000: Connection refused",
        near_miss="INFO connect [127.0.1.1]:20000: Connection refused, trying the next address",
        says="a host's name leads to 127.0.1.1, where no other host reaches it (gloo)",
        remedy="Set GLOO_SOCKET_IFNAME to the interface that is in the container's resourceconfig.json, in "
        "`environment`: gloo then takes that address, and not the one of the host's name.",
        retry=Retry.NEVER,
    ),
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="connect timeout [",
        pattern=re.compile(
            r"gloo/transport/tcp/\w{1,40}\.cc:\d{1,6}\] Connect timeout \[(?P<peer>[^\]\s]{1,60})\]"
        ),
        example="RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:150] Connect timeout "
        "[10.0.0.7]:24861",
        near_miss="INFO connect timeout [s]: 60",
        says="no rank answered at {peer} in time (gloo)",
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="gloo/transport/tcp/",
        pattern=re.compile(
            r"gloo/transport/tcp/\w{1,40}\.cc:\d{1,6}\] (?P<what>Read error|Write error|writev|Read "
            r"timeout|Socket unexpectedly closed) \[?(?P<peer>[\da-f.:]{1,60})"
        ),
        example="RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:276] writev "
        "[10.0.0.7]:24861: Broken pipe",
        near_miss="RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect "
        "[10.0.0.7]:20000: Connection refused",
        says="lost its connection to {peer} (gloo: {what})",
    ),
    Signature(
        mode=nccl.INITIALISATION_STALLED,
        role=LineRole.INITIATOR,
        literal="unable to find ",
        pattern=re.compile(
            r"/device\.cc:\d{1,6}\] .{0,80}Unable to find (?:address|interface) for: (?P<interface>\S{1,60})"
        ),
        example="RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:83] ifa "
        "!= nullptr. Unable to find address for: eth9",
        near_miss="INFO unable to find address for: the printer",
        says="this host has no network interface {interface}, which GLOO_SOCKET_IFNAME names",
    ),
    Signature(
        mode=nccl.INITIALISATION_STALLED,
        role=LineRole.INITIATOR,
        literal="makedevicefor",
        pattern=re.compile(r"^RuntimeError: makeDeviceFor(?:Interface|Hostname)\(\): (?P<what>.{1,100})"),
        example="RuntimeError: makeDeviceForInterface(): unsupported gloo device",
        near_miss="INFO makeDeviceForInterface(): eth0",
        says="gloo got no network device: {what}",
    ),
)
