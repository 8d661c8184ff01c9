"""Judges whether the hosts reach one another: the roll-call, the pairs, the clocks."""

from __future__ import annotations

import typing
from collections import Counter
from collections.abc import Sequence
from typing import Any

from slipway.gate.findings import HostFinding, Report

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
    """Judge who reached whom: `matrix[a][b]` is how the way from a to b ended (`slipway/gate/pairs.py`).

    A host that did not tell in time is not known to reach the others.
    """
    told = [host for host in hosts if host in matrix]
    unknown = [f"the ways from {host} (it did not tell them in time)" for host in hosts if host not in matrix]
    broken = [(a, b) for a in told for b in hosts if b != a and _ended(matrix, a, b) not in ("ok", None)]
    found = [_broken(matrix, broken)] if broken else []
    return Report((*found, *_clocks(matrix, told)), tuple(unknown))


def _ended(matrix: _MATRIX, source: str, target: str) -> str | None:
    way = matrix.get(source, {}).get(target)
    return None if way is None else str(way["ended"])


def _broken(matrix: _MATRIX, broken: Sequence[tuple[str, str]]) -> HostFinding:
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
    back = _ended(matrix, target, source)
    direction = {None: "", "ok": f", while {target} does reach {source}"}.get(
        back, ", nor the other way round"
    )
    more = (
        f"; so it is with {len(broken) - 1} more of the ways between hosts"
        if _others(broken, source, target)
        else ""
    )
    return HostFinding(
        "NCCL007",
        at_fault,
        f"{what}{direction}{more}. NCCL would wait for it at the first collective without a word: {remedy}",
    )


def _others(broken: Sequence[tuple[str, str]], source: str, target: str) -> bool:
    """Whether there is more than this way and the one back."""
    return bool(set(broken) - {(source, target), (target, source)})


def _clocks(matrix: _MATRIX, told: Sequence[str]) -> list[HostFinding]:
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
