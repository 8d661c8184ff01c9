"""Judges the all-reduce between the hosts, or the GPUs of one: who was ready, who came how far, and why."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from typing import Any

from slipway.gate.findings import HostFinding, Report

Stands = typing.Mapping[str, typing.Mapping[str, Any]]
"""By host how far its processes came (`slipway/gate/reducing.py`)."""

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
            found += _architecture(host, said)
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
            f"{name} {_WORK.get(each['stage'], 'did not answer')}" for name, each in _some(behind)
        )
        what = f"was not done within {seconds:.0f} s: {doing}"
    one = len(hosts) == 1
    between, remedy = ("host's GPUs", _REMEDY_OF_ONE) if one else (f"{len(hosts)} hosts", _REMEDY)
    text = f"a short all-reduce between the {between} {what}. {remedy}"
    return Report((HostFinding("NCCL007", host, text),))


def _some(behind: Stands) -> list[tuple[str, Mapping[str, Any]]]:
    return list(behind.items())[:4]


def _architecture(host: str, said: Mapping[str, Any]) -> list[HostFinding]:
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
