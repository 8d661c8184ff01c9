"""Judges which network NCCL chose, by what it and its plugins print with NCCL_DEBUG=INFO.

Texts: NCCL 2.7.8 to 2.28.9 and later ("Using network", src/init.cc; "NET/Plugin", whose words changed in
2.18, 2.20, 2.21 and 2.23), aws-ofi-nccl 1.1 to 1.21 ("Selected Provider is" up to 1.13, then "provider";
"Unable to register memory", nccl_ofi_sendrecv; "Could not register memory on", nccl_ofi_rdma), libfabric
("FI_EFA_USE_DEVICE_RDMA=1 was set", prov/efa/src/rdm/efa_rdm_util.c).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from slipway.gate.findings import HostFinding, Report

_NETWORK = re.compile(r"NCCL INFO Using network (?P<network>[^\n]{1,60})")
_PROVIDER = re.compile(r"NET/OFI Selected [Pp]rovider is (?P<provider>[\w;]{1,40})")
_REFUSED = re.compile(
    r"(?:FI_EFA_USE_DEVICE_RDMA=1 was set|Unable to register memory|Could not register memory on"
    r"|FI_OPT_EFA_EMULATED_WRITE is true)[^\n]{0,160}"
)
_PLUGIN = re.compile(
    r"NET/Plugin ?: (?:Could not find|No plugin found|Plugin load|dlerror=|dlopen failed)[^\n]{0,120}"
    r"|NET/OFI (?:No eligible providers|Could(?: not|n't) find any optimal provider)[^\n]{0,120}"
    r"|NET/OFI (?:aws-ofi-nccl|OFI NCCL) initialization failed"
    r"|libfabric\.so\.?\d{0,3}: cannot open shared object file"
)


def judge_network(host: str, log: str, efa: Sequence[str], hosts: int) -> Report:
    """Judge the log of one rank on a host with these EFA devices.

    A host without EFA, or alone, uses what it has. Without a word about the network it is not known.
    """
    refused = _REFUSED.search(log)
    if refused:
        text = f"EFA's device RDMA or its memory registration fails: {_short(refused[0])}"
        remedy = (
            "Leave FI_EFA_USE_DEVICE_RDMA and OFI_NCCL_PROTOCOL unset, and raise no memory limits (ulimit -l)"
        )
        return Report((HostFinding("EFA007", host, f"{text}. {remedy}"),))
    if not efa or hosts < 2:
        return Report()
    chosen = _NETWORK.search(log)
    provider = _PROVIDER.search(log)
    if provider and not provider["provider"].startswith("efa"):
        what = f"aws-ofi-nccl chose the provider {provider['provider']}"
    elif chosen and chosen["network"].strip() == "Socket":
        plugin = _PLUGIN.search(log)
        what = "NCCL chose TCP sockets" + (f" ({_short(plugin[0])})" if plugin else "")
    elif chosen:
        return Report()
    else:
        return Report((), (f"which network NCCL takes on {host} (its log does not say)",))
    text = (
        f"{what} although the host has {len(efa)} EFA devices ({', '.join(efa[:4])}): a fraction of the "
        "bandwidth that is paid for. Use an image with aws-ofi-nccl and libfabric, and leave FI_PROVIDER, "
        "NCCL_NET and NCCL_NET_PLUGIN unset"
    )
    return Report((HostFinding("EFA005", host, text),))


def _short(text: str) -> str:
    """What a line says, in one piece."""
    return " ".join(text.split())[:200]
