"""Judges what is between the hosts: who reaches whom, clocks, the all-reduce, and the network of NCCL.

Texts: NCCL 2.7.8 to 2.28.9 and later ("Using network", src/init.cc; "NET/Plugin", whose words changed in
2.18, 2.20, 2.21 and 2.23), aws-ofi-nccl 1.1 to 1.21 ("Selected Provider is" up to 1.13, then "provider";
"Unable to register memory", nccl_ofi_sendrecv; "Could not register memory on", nccl_ofi_rdma), libfabric
("FI_EFA_USE_DEVICE_RDMA=1 was set", prov/efa/src/rdm/efa_rdm_util.c).
"""

from __future__ import annotations

import re
import typing
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from slipway.gate.judge_host import HostFinding, Report

# Whether the hosts reach one another: the roll-call, the pairs, the clocks.


MOST_SECONDS_APART = 5.0
"""Beyond it the order of events in several hosts' logs is not that in which they happened."""

_RULES = "let the security group admit all traffic from and to itself (EFA001, EFA002)"
_MATRIX = typing.Mapping[str, typing.Mapping[str, typing.Mapping[str, Any]]]


def missing_hosts(
    missing: Sequence[str], hosts: Sequence[str], seconds: float, port: int
) -> list[HostFinding]:
    """NCCL008 for each host that did not answer the roll-call, which the first host holds on this port."""
    return [
        HostFinding(
            "NCCL008",
            host,
            f"did not answer the roll-call of {len(hosts)} hosts within {seconds:.0f} s, so the ranks of the "
            f"others would wait for its ranks in vain: look at its log, and whether it reaches port "
            f"{port} of {hosts[0]}",
        )
        for host in missing
    ]


def first_host_silent(first: str, reason: str) -> HostFinding:
    """NCCL008 where the first host, at which all meet, does not answer this one."""
    return HostFinding(
        "NCCL008",
        first,
        f"the first host, at which all ranks meet, did not answer: {reason}. Look at its log; where it runs, "
        f"{_RULES}",
    )


def judge_pairs(matrix: _MATRIX, hosts: Sequence[str]) -> Report:
    """Judge who reached whom: `matrix[a][b]` is how the way from a to b ended (`slipway/gate/probe_host.py`).

    A host that did not tell in time is not known to reach the others.
    """
    told = [host for host in hosts if host in matrix]
    unknown = [f"the ways from {host} (it did not tell them in time)" for host in hosts if host not in matrix]
    broken = [(a, b) for a in told for b in hosts if b != a and _way_ended(matrix, a, b) not in ("ok", None)]
    found = [_broken_ways_finding(matrix, broken)] if broken else []
    return Report((*found, *_judge_clocks(matrix, told)), tuple(unknown))


def _way_ended(matrix: _MATRIX, source: str, target: str) -> str | None:
    way = matrix.get(source, {}).get(target)
    return None if way is None else str(way["ended"])


def _broken_ways_finding(matrix: _MATRIX, broken: Sequence[tuple[str, str]]) -> HostFinding:
    """One finding for all pairs, about the host that most of them share."""
    counted = Counter(host for pair in broken for host in pair)
    most = counted.most_common(1)[0][1]
    shared = [host for host, count in counted.items() if count == most]
    source, target = next(pair for pair in broken if set(pair) & set(shared))
    # With several pairs the shared host is at fault; with one it is the host that does not get through.
    at_fault = shared[0] if len(broken) > 1 and len(shared) == 1 else source
    way = matrix[source][target]
    what, remedy = {
        "name": (
            f"{source} cannot resolve the name {target} ({way['reason']})",
            "look at the DNS settings of the subnets and at /etc/hosts of an own image",
        ),
        "connection": (
            f"{source} cannot connect to {target} at {way.get('address')} ({way['reason']})",
            _RULES,
        ),
        "stranger": (
            f"{source} reached {way['reason']} where {target} should be, at {way.get('address')}",
            "no two hosts may have one address: look at /etc/hosts of an own image",
        ),
        "late": (f"{source} did not get through to {target} ({way['reason']})", _RULES),
    }[str(way["ended"])]
    back = _way_ended(matrix, target, source)
    direction = {None: "", "ok": f", while {target} does reach {source}"}.get(
        back, ", nor the other way round"
    )
    more = (
        f"; so it is with {len(broken) - 1} more of the ways between hosts"
        if set(broken) - {(source, target), (target, source)}
        else ""
    )
    return HostFinding(
        "NCCL007",
        at_fault,
        f"{what}{direction}{more}. NCCL would wait for it at the first collective without a word: {remedy}",
    )


def _judge_clocks(matrix: _MATRIX, told: Sequence[str]) -> list[HostFinding]:
    """The host whose clock is furthest from the others', if it is too far."""
    apart = [
        (abs(float(way["offset"])), float(way["offset"]), source, target)
        for source in told
        for target, way in matrix[source].items()
        if way["ended"] == "ok"
    ]
    far = [each for each in apart if each[0] > MOST_SECONDS_APART]
    if not far:
        return []
    seconds, offset, source, target = max(far)
    counted = Counter(host for _, _, a, b in far for host in (a, b))
    host = max((source, target), key=lambda name: (counted[name], name == target))
    ahead = "ahead of" if offset > 0 else "behind"
    return [
        HostFinding(
            "",
            host,
            f"the clock of {target} is {seconds:.1f} s {ahead} that of {source}, more than "
            f"{MOST_SECONDS_APART:.0f} s: what happened first cannot be told from their logs, and S3 refuses "
            "requests of clocks that are 15 minutes wrong",
            ends=False,
        )
    ]


# The all-reduce between the hosts, or the GPUs of one: who was ready, who came how far, and why.


Stands = typing.Mapping[str, typing.Mapping[str, Any]]
"""By host how far its processes came (`slipway/gate/probe_host.py`)."""

_REMEDY = (
    "The ranks would wait in the same way. Let the security group admit all traffic from and to itself "
    "(EFA001, EFA002), and take NCCL_SOCKET_IFNAME and the like out of `environment`"
)
_REMEDY_OF_ONE = (
    "The ranks would wait in the same way. Look at the GPUs (nvidia-smi topo -m, dmesg) and at /dev/shm, and "
    "take NCCL_P2P_LEVEL, NCCL_SHM_DISABLE and the like out of `environment`"
)
_WORK = {
    "ready": "waited for the others",
    "gloo": "was in the one over gloo",
    "nccl": "was in the one over NCCL",
}


def can_meet(stands: Stands, hosts: Sequence[str]) -> bool:
    """Whether every host is ready for the all-reduce."""
    return all(stands.get(host, {}).get("stage") == "ready" for host in hosts)


def judge_ready(stands: Stands, hosts: Sequence[str], seconds: float) -> Report:
    """What the hosts' own torch and GPUs say before they meet.

    A torch that is not imported in time, or not there, makes the all-reduce unknown and no finding: the
    first import from a cold disk may take longer.
    """
    found: list[HostFinding] = []
    unknown: list[str] = []
    for host in hosts:
        stand = stands.get(host, {"stage": "started", "said": {}})
        stage, said = stand["stage"], stand["said"]
        if stage == "ready":
            found += _judge_architecture(host, said)
        elif said.get("cuda_fails"):
            text = f"torch cannot use the GPUs: {said['reason']}. Take an image that fits them"
            found.append(HostFinding("IMG002", host, text))
        elif said.get("cpu_only"):
            text = f"{said['reason']}, so the host's GPUs would be idle: leave torch out of requirements.txt"
            found.append(HostFinding("IMG002", host, text, ends=False))
        else:
            reason = said.get("reason", f"torch and the devices were not ready within {seconds:.0f} s")
            between = "hosts" if len(hosts) > 1 else "GPUs"
            unknown.append(f"the all-reduce between the {between} ({host}: {reason})")
    return Report(tuple(found), tuple(unknown))


def judge_reduction(stands: Stands, hosts: Sequence[str], seconds: float) -> Report:
    """NCCL007 where it did not get to its end on all hosts, of the host that says why, or is the last."""
    order = ("error", "started", "ready", "gloo", "nccl")
    behind = {host: stands.get(host, {"stage": "started", "said": {}}) for host in hosts}
    behind = {host: stand for host, stand in behind.items() if stand["stage"] != "done"}
    if not behind:
        return Report()
    host = min(behind, key=lambda name: (order.index(behind[name]["stage"]), hosts.index(name)))
    stand = behind[host]
    if stand["stage"] == "error":
        what = f"failed: {stand['said'].get('reason', 'without a reason')}"
    else:
        doing = "; ".join(
            f"{name} {_WORK.get(each['stage'], 'did not answer')}" for name, each in list(behind.items())[:4]
        )
        what = f"was not done within {seconds:.0f} s: {doing}"
    one = len(hosts) == 1
    between, remedy = ("host's GPUs", _REMEDY_OF_ONE) if one else (f"{len(hosts)} hosts", _REMEDY)
    text = f"a short all-reduce between the {between} {what}. {remedy}"
    return Report((HostFinding("NCCL007", host, text),))


def _judge_architecture(host: str, said: Mapping[str, Any]) -> list[HostFinding]:
    """Code of a compute capability runs on GPUs of the same major and a higher minor number; PTX on all later
    ones (CUDA compatibility guide)."""
    if not said.get("capability") or not said.get("built"):
        return []
    gpu = tuple(int(number) for number in said["capability"])
    for name in said["built"]:
        kind, _, digits = str(name).partition("_")
        number = "".join(character for character in digits if character.isdigit())
        if len(number) < 2:
            continue
        built = (int(number[:-1]), int(number[-1]))
        if (kind == "sm" and built[0] == gpu[0] and built[1] <= gpu[1]) or (
            kind == "compute" and built <= gpu
        ):
            return []
    text = (
        f"torch {said.get('torch', '')} has no code for GPUs of compute capability {gpu[0]}.{gpu[1]} (it has "
        f"{', '.join(map(str, said['built']))}): the first kernel would fail. Take an image of a newer torch"
    )
    return [HostFinding("IMG002", host, text)]


# Which network NCCL chose, by what it and its plugins print with NCCL_DEBUG=INFO.


_NETWORK = re.compile(r"NCCL INFO Using network (?P<network>[^\n]{1,60})")
_PROVIDER = re.compile(
    r"NET/OFI Selected [Pp]rovider is (?P<provider>[\w;]{1,40})(?:, fabric is [\w;-]{1,40})?"
    r"(?: \(found (?P<cards>\d{1,4}) nics\))?"
)
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


def judge_network(host: str, log: str, efa: Sequence[str], hosts: int, efa_interfaces: int = 0) -> Report:
    """Judge the log of one rank on a host with these EFA devices, of a type that has `efa_interfaces`.

    0 of them where the type is not known. A host without EFA, or alone, uses what it has. Without a word
    about the network in the log it is not known.
    """
    refused = _REFUSED.search(log)
    if refused:
        text = f"EFA's device RDMA or its memory registration fails: {_one_line(refused[0])}"
        remedy = (
            "Leave FI_EFA_USE_DEVICE_RDMA and OFI_NCCL_PROTOCOL unset, and raise no memory limits (ulimit -l)"
        )
        return Report((HostFinding("EFA007", host, f"{text}. {remedy}"),))
    if hosts < 2:
        return Report()
    if len(efa) < efa_interfaces:
        what = f"the host has {len(efa)} of the {efa_interfaces} EFA devices of its type"
        return Report((_too_few(host, what, _ATTACH),))
    if not efa:
        return Report()
    chosen = _NETWORK.search(log)
    provider = _PROVIDER.search(log)
    if provider and not provider["provider"].startswith("efa"):
        what = f"aws-ofi-nccl chose the provider {provider['provider']}"
    elif chosen and chosen["network"].strip() == "Socket":
        plugin = _PLUGIN.search(log)
        what = "NCCL chose TCP sockets" + (f" ({_one_line(plugin[0])})" if plugin else "")
    elif provider and provider["cards"] and int(provider["cards"]) < len(efa):
        what = f"aws-ofi-nccl uses {provider['cards']} of the {len(efa)} EFA devices of the host"
        return Report((_too_few(host, what, _PASS_ON),))
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


_ATTACH = (
    "Start the host with an EFA interface on each of its network cards, and give containers /dev/infiniband"
)
_PASS_ON = (
    "Give containers all of /dev/infiniband, leave FI_EFA_IFACE unset, and look at "
    "`fi_info -p efa` on this host"
)


def _too_few(host: str, what: str, remedy: str) -> HostFinding:
    return HostFinding("EFA005", host, f"{what}: a fraction of the bandwidth that is paid for. {remedy}")


def _one_line(text: str) -> str:
    """What a line says, in one piece."""
    return " ".join(text.split())[:200]
