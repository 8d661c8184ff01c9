"""What `launch proof` has measured, held against what the interfaces of the hosts can give.

The limit is arithmetic. A host sends B at most, the sum of its interfaces, and receives as much at the same
time. A ring over n ranks sends 2 (n - 1) / n bytes out of every host for each byte that is reduced, so that
its bus bandwidth, which is counted in just these bytes, is B at most. With two hosts the ranks of each can
first reduce among themselves, over NVLink: then one half goes one way as partial sums and comes back as
results, the other half the other way round, and each direction carries one byte for each that is reduced,
which is the least that any algorithm can do. The bus bandwidth of that is 2 (n - 1) / n times B: 15/8 of it
with two hosts of 8 GPUs. With H hosts the same bound is H (n - 1) / (n (H - 1)) times B, a third above the
ring's with 4 hosts of 8 GPUs and hardly anything with many; the trees of NCCL come no closer to it than the
ring does (in both together a host sends two bytes for each that is reduced), so that B is the limit there.

Bus bandwidth is that of nccl-tests (PERFORMANCE.md in github.com/NVIDIA/nccl-tests): bytes over seconds,
times 2 (n - 1) / n. B is the `efa_gbps` of `launcher.cluster.instances`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from launcher.facts import read_data_file
from launcher.frozen import frozen
from launcher.text.values import memory_in_words

RECORD_MARK = "slipway proof: "
"""What the line with the record begins with (slipway/fabric/measure.py)."""

ENOUGH = 0.5
"""The share of the limit that is enough. Published runs on EFA reached 58 to 92 % of it
(`published_runs.json`), one whose EFA is not used a few per cent."""

SLOW_FACTOR = 0.8
"""A host is slow whose fastest pair reaches less than this of the fastest one: pairs of sound hosts differ by
some 5 % either way."""

SLOW_PAIR_FACTOR = 0.6
"""The same of a pair of hosts that are both fast with others: it is one measurement, of a host there are
several, and so it has to be clearer."""

_MOST_RECORD = 1_000_000
"""Characters of a record; one of 16 hosts or more has some 30,000."""


class BadRecord(ValueError):
    """A line that begins as a record does and is none."""


@frozen
class CurvePoint:
    """All-reduces of one size over all ranks: bytes, seconds of one, bus bandwidth in GB/s (10^9 bytes)."""

    bytes: int
    seconds: float
    busbw: float


@frozen
class HostPair:
    """Two hosts that reduced between themselves, by their names, and their bus bandwidth in GB/s."""

    first: str
    second: str
    busbw: float

    @property
    def hosts(self) -> tuple[str, str]:
        """Both names."""
        return self.first, self.second


@frozen
class StorageRates:
    """What a shared place gave when all hosts used it at once: GB/s by host, or why it could not be used."""

    what: str
    bytes: int
    write: Mapping[str, float]
    read: Mapping[str, float]
    error: str | None = None


@frozen
class FabricRecord:
    """What the job has measured.

    `gbps` is what the interfaces of a host send, in Gbit/s, None where nobody knows it; `at_least` the share
    of the limit that is enough; `ranks` counts those of all hosts. `pairs` is empty where none were measured.
    """

    backend: str
    hosts: tuple[str, ...]
    ranks: int
    gbps: float | None
    at_least: float
    curve: tuple[CurvePoint, ...]
    pairs: tuple[HostPair, ...] = ()
    pair_bytes: int | None = None
    storage: tuple[StorageRates, ...] = ()
    instance_type: str | None = None

    @property
    def best(self) -> CurvePoint | None:
        """The point of the highest bus bandwidth; None without a curve."""
        return max(self.curve, key=lambda point: point.busbw, default=None)


def record_in(text: str) -> FabricRecord | None:
    """The record in a line of a job's log; None where it holds none. Raises BadRecord for a broken one."""
    _, mark, content = text.partition(RECORD_MARK)
    if not mark or not content.startswith("{"):
        return None
    try:
        if len(content) > _MOST_RECORD:
            raise ValueError("it is too long")
        return _record(json.loads(content))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise BadRecord(f"the record of the proof cannot be read: {error}") from error


def _record(content: Mapping[str, Any]) -> FabricRecord:
    hosts = tuple(str(host) for host in content["hosts"])
    gbps = content["gbps"]
    return FabricRecord(
        backend=str(content["backend"]),
        hosts=hosts,
        ranks=int(content["ranks"]),
        gbps=None if gbps is None else _finite(gbps),
        at_least=_finite(content["at_least"]),
        curve=tuple(
            CurvePoint(int(size), _finite(took), _finite(busbw)) for size, took, busbw in content["curve"]
        ),
        pairs=tuple(HostPair(hosts[a], hosts[b], _finite(busbw)) for a, b, busbw in content["pairs"]),
        pair_bytes=None if content["pair_bytes"] is None else int(content["pair_bytes"]),
        storage=tuple(
            StorageRates(
                str(each["what"]),
                int(each["bytes"]),
                {str(host): _finite(rate) for host, rate in each["write"].items()},
                {str(host): _finite(rate) for host, rate in each["read"].items()},
                None if each["error"] is None else str(each["error"]),
            )
            for each in content["storage"]
        ),
        instance_type=None if content["instance_type"] is None else str(content["instance_type"]),
    )


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"{value!r} is no measured value")
    return number


# The limit, and how much of it was reached.


def limit_of(gbps: float, hosts: int, ranks: int) -> float:
    """The highest bus bandwidth, in GB/s, that hosts can reach whose interfaces send `gbps` Gbit/s each.

    `ranks` counts those of all hosts. Raises ValueError for fewer than two hosts, which need no network.

    >>> limit_of(400, 2, 16), limit_of(3200, 2, 16), limit_of(3200, 16, 128)
    (93.75, 750.0, 400.0)
    """
    if hosts < 2:
        raise ValueError(f"{hosts} host has no limit of a network")
    rate = gbps / 8
    return rate * 2 * (ranks - 1) / ranks if hosts == 2 else rate


@frozen
class ProofVerdict:
    """What a record says.

    `limit` is the highest bus bandwidth in GB/s, `share` the part of it that was reached, both None where the
    rate of the interfaces is not known, and then `reached` is None as well. `slow_hosts` are slow with
    whomever they meet, `slow_pairs` only with each other; `pair_share` is what the fastest pair reached of
    what two hosts can. `broken` are the places that could not be read or written. `says` tells all that in
    sentences.
    """

    record: FabricRecord
    limit: float | None
    share: float | None
    reached: bool | None
    slow_hosts: tuple[str, ...] = ()
    slow_pairs: tuple[HostPair, ...] = ()
    pair_share: float | None = None
    broken: tuple[StorageRates, ...] = ()
    says: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether nothing that was measured falls short."""
        return self.reached is not False and not self.broken and self.record.best is not None

    def to_json(self) -> dict[str, Any]:
        """The shape that `--output json` prints."""
        record, best = self.record, self.record.best
        return {
            "reached": self.reached,
            "share": _rounded(self.share),
            "limit_gb_per_s": _rounded(self.limit),
            "best_gb_per_s": None if best is None else best.busbw,
            "at_least": record.at_least,
            "gbps": record.gbps,
            "backend": record.backend,
            "hosts": list(record.hosts),
            "ranks": record.ranks,
            "curve": [
                {"bytes": each.bytes, "seconds": each.seconds, "gb_per_s": each.busbw}
                for each in record.curve
            ],
            "pairs": [{"hosts": list(each.hosts), "gb_per_s": each.busbw} for each in record.pairs],
            "slow_hosts": list(self.slow_hosts),
            "slow_pairs": [list(each.hosts) for each in self.slow_pairs],
            "storage": [
                {
                    "what": each.what,
                    "bytes": each.bytes,
                    "write_gb_per_s": dict(each.write),
                    "read_gb_per_s": dict(each.read),
                    "error": each.error,
                }
                for each in record.storage
            ],
            "says": list(self.says),
        }


def judge_fabric(record: FabricRecord, nodes: Mapping[str, str] | None = None) -> ProofVerdict:
    """Hold a record against its limit, and name the hosts that are slow where it falls short.

    `nodes` are the cluster's own names of the hosts, where it has some (Slurm).
    """
    several = len(record.hosts) > 1
    limit = limit_of(record.gbps, len(record.hosts), record.ranks) if record.gbps and several else None
    best = record.best
    share = None if limit is None or best is None else best.busbw / limit
    reached = None if share is None else share >= record.at_least
    slow: tuple[str, ...] = ()
    slow_pairs: tuple[HostPair, ...] = ()
    if reached is not True:
        slow, slow_pairs = find_slow_hosts(record.pairs)
    broken = tuple(each for each in record.storage if each.error is not None)
    verdict = ProofVerdict(record, limit, share, reached, slow, slow_pairs, _pair_share(record), broken)
    return replace(verdict, says=tuple(_sentences(verdict, nodes or {})))


def find_slow_hosts(pairs: Sequence[HostPair]) -> tuple[tuple[str, ...], tuple[HostPair, ...]]:
    """The hosts that are slow with whomever they meet, and the pairs that are slow though both are not.

    A host is as fast as its fastest pair: a sound one has met another sound one, unless it is the only one.
    None is slow where all are alike, and none where a single pair was measured, which cannot tell.
    """
    fastest: dict[str, float] = {}
    for pair in pairs:
        for host in pair.hosts:
            fastest[host] = max(fastest.get(host, 0.0), pair.busbw)
    if len(fastest) < 3:
        return (), ()
    best = max(fastest.values())
    slow = tuple(host for host in fastest if fastest[host] < SLOW_FACTOR * best)
    unlike = (pair for pair in pairs if pair.busbw < SLOW_PAIR_FACTOR * best)
    return slow, tuple(pair for pair in unlike if not set(pair.hosts) & set(slow))


def _pair_share(record: FabricRecord) -> float | None:
    if not record.gbps or not record.pairs:
        return None
    limit = limit_of(record.gbps, 2, 2 * record.ranks // len(record.hosts))
    return max(pair.busbw for pair in record.pairs) / limit


# What a verdict says, in sentences.


def _sentences(verdict: ProofVerdict, nodes: Mapping[str, str]) -> Iterator[str]:
    record, best = verdict.record, verdict.record.best
    if best is None:
        yield "Nothing was measured between the hosts."
    elif verdict.limit is None or verdict.share is None:
        yield (
            f"{_hosts(record)} reach {in_gb(best.busbw)} at {memory_in_words(best.bytes)}. What their "
            "interfaces could give is not known, so that nothing is judged: --gbps says it."
        )
    else:
        yield (
            f"{_hosts(record)} reach {in_gb(best.busbw)} at {memory_in_words(best.bytes)}, "
            f"{in_percent(verdict.share)} of the {in_gb(verdict.limit)} that {_interfaces(record)} allow: "
            f"{'enough' if verdict.reached else 'too little'} (at least {in_percent(record.at_least)})."
        )
    if verdict.reached is not True and best is not None:
        yield from _who_is_slow(verdict, nodes)
    for place in verdict.broken:
        yield f"{place.what} could not be measured: {place.error}."


def _hosts(record: FabricRecord) -> str:
    return f"{len(record.hosts)} hosts"


def _interfaces(record: FabricRecord) -> str:
    return f"interfaces of {record.gbps:,.6g} Gbit/s a host"


def _who_is_slow(verdict: ProofVerdict, nodes: Mapping[str, str]) -> Iterator[str]:
    record = verdict.record
    fastest = max((pair.busbw for pair in record.pairs), default=0.0)
    for host in verdict.slow_hosts:
        own = max(pair.busbw for pair in record.pairs if host in pair.hosts)
        way_out = (
            f"leave it out with --set 'slurm.exclude=[{nodes[host]}]'"
            if host in nodes
            else "another launch gets other hosts, unless a warm pool keeps these"
        )
        yield (
            f"{_named(host, nodes)} is slow: {in_gb(own)} at best with any other host, where others reach "
            f"{in_gb(fastest)}; {way_out}."
        )
    for pair in verdict.slow_pairs:
        first, second = (_named(host, nodes) for host in pair.hosts)
        yield (
            f"Between {first} and {second} it is slow ({in_gb(pair.busbw)}), though both are fast with "
            "others: the way between them."
        )
    if verdict.slow_hosts or verdict.slow_pairs or verdict.reached is None:
        return
    shared = _WHAT_ALL_SHARE["nccl" if record.backend == "nccl" else "gloo"]
    if len(record.hosts) == 2:
        yield (
            "Two hosts cannot tell which of them it is, or whether both are slow: --hosts 3 or more can. "
            f"{shared}"
        )
    elif record.pairs and verdict.pair_share is not None and verdict.pair_share >= record.at_least:
        yield (
            f"In pairs all are fast ({in_gb(fastest)}, {in_percent(verdict.pair_share)} of what two can): "
            "it is slow when all send at once, as over too few ways between switches, or between hosts "
            "that are far apart."
        )
    elif record.pairs:
        yield f"No host stands out: in pairs, too, all are slow alike. {shared}"


_WHAT_ALL_SHARE = {
    "nccl": "Look at what all share: whether NCCL uses EFA at all (`NET/OFI` or `NET/Libfabric` with "
    "NCCL_DEBUG=INFO; `NET/Socket` is TCP), how many interfaces each host has, the image's "
    "plugin, and settings of your own.",
    "gloo": "Look at what all share: the interface that gloo uses (GLOO_SOCKET_IFNAME), what else uses "
    "it, and the way between the hosts.",
}


def _named(host: str, nodes: Mapping[str, str]) -> str:
    return f"{host} ({nodes[host]})" if host in nodes else host


def in_gb(rate: float) -> str:
    """GB/s as people write it, to three digits; in MB/s where it is little.

    >>> in_gb(479.28), in_gb(0.0481)
    ('479 GB/s', '48.1 MB/s')
    """
    if rate < 0.1:
        return f"{1000 * rate:.3g} MB/s"
    return f"{rate:,.3g} GB/s" if rate < 1000 else f"{rate:,.0f} GB/s"


def in_percent(share: float) -> str:
    """A share in per cent, rounded down: 49.9 % of what is asked for is not 50 %.

    >>> in_percent(0.4999), in_percent(0.0034)
    ('49 %', '0.3 %')
    """
    percent = 100 * share
    return f"{math.floor(percent + 1e-9)} %" if percent >= 1 else f"{percent:.1g} %"


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


# What others have published of runs on such hosts.


@frozen
class PublishedRun:
    """The best all-reduce of a published run: hosts, ranks, bytes, bus bandwidth in GB/s, where and when."""

    instance_type: str
    hosts: int
    ranks: int
    bytes: int
    busbw: float
    source: str
    date: str
    note: str = ""

    def share_of(self, gbps: float) -> float:
        """The part of the limit that it reached, with interfaces of so many Gbit/s a host."""
        return self.busbw / limit_of(gbps, self.hosts, self.ranks)


def published_runs(instance_type: str | None = None) -> tuple[PublishedRun, ...]:
    """What was found of all types, or of one."""
    return tuple(each for each in _published() if instance_type in (None, each.instance_type))


@cache
def _published() -> tuple[PublishedRun, ...]:
    return tuple(PublishedRun(**each) for each in read_data_file(__file__, "published_runs.json")["runs"])
