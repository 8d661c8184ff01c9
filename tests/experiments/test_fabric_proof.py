"""What is said of measured networks: made ones, of which it is known which host is slow."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import pytest

from launcher.cluster.instances import instance_facts
from launcher.experiments.fabric_proof import (
    ENOUGH,
    RECORD_MARK,
    BadRecord,
    FabricRecord,
    find_slow_hosts,
    in_gb,
    in_percent,
    judge_fabric,
    limit_of,
    published_runs,
    record_in,
)

MIB = 1024 * 1024
GPUS = 8


def record_line(**changes: Any) -> str:
    content = {
        "version": 1,
        "backend": "nccl",
        "instance_type": "ml.p5.48xlarge",
        "gbps": 3200.0,
        "at_least": 0.5,
        "hosts": ["algo-1", "algo-2"],
        "ranks": 16,
        "curve": [[MIB, 0.0001, 16.0], [1024 * MIB, 0.0046, 437.0], [4096 * MIB, 0.0173, 466.0]],
        "pair_bytes": None,
        "pairs": [],
        "storage": [],
        **changes,
    }
    return f"[rank0]: {RECORD_MARK}{json.dumps(content)}"


def measured(
    rates: Sequence[float],
    *,
    gbps: float | None = 3200.0,
    noise: float = 0.0,
    seed: int = 0,
    slow_links: Mapping[tuple[int, int], float] | None = None,
    together: float = 1.0,
    pairs: bool = True,
) -> FabricRecord:
    """What a job measures whose hosts send and receive so many GB/s; the slowest of a group holds all up.

    Measurements differ by `noise` either way; `together` is the part that is left when all send at once.
    """
    chance = random.Random(seed)
    links = slow_links or {}
    count = len(rates)

    def rate(members: Sequence[int]) -> float:
        slowest = min(rates[each] for each in members)
        limits = [links.get((a, b), slowest) for a, b in combinations(members, 2)]
        factor = 2 * (2 * GPUS - 1) / (2 * GPUS) if len(members) == 2 else together
        return min([slowest, *limits]) * factor * (1 + chance.uniform(-noise, noise))

    best = rate(range(count))
    curve = [[size * MIB, 0.01, best * min(1.0, (size / 64) ** 0.5)] for size in (1, 4, 16, 64, 256)]
    found = record_in(
        record_line(
            gbps=gbps,
            hosts=[f"algo-{number + 1}" for number in range(count)],
            ranks=GPUS * count,
            curve=curve,
            pair_bytes=256 * MIB if pairs else None,
            pairs=[[a, b, rate((a, b))] for a, b in combinations(range(count), 2)] if pairs else [],
        )
    )
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("gbps", "hosts", "ranks", "limit"),
    [
        (400, 2, 16, 93.75),
        (3200, 2, 16, 750.0),
        (100, 2, 2, 12.5),
        (400, 3, 24, 50.0),
        (3200, 16, 128, 400.0),
    ],
    ids=[
        "two p4d: 15/8",
        "two p5: 15/8",
        "one rank a host: the rate",
        "three: the ring",
        "sixteen: the ring",
    ],
)
def test_the_limit_is_the_ring_s_and_of_two_hosts_what_both_directions_carry(
    gbps: float, hosts: int, ranks: int, limit: float
) -> None:
    assert limit_of(gbps, hosts, ranks) == limit


def test_one_host_has_no_limit_of_a_network() -> None:
    with pytest.raises(ValueError, match="1 host"):
        limit_of(3200, 1, 8)
    verdict = judge_fabric(measured([400.0], pairs=False))
    assert verdict.limit is None
    assert verdict.reached is None


def test_a_published_curve_is_enough() -> None:
    line = record_in(record_line())
    assert line is not None
    verdict = judge_fabric(line)
    assert verdict.reached
    assert verdict.is_good
    assert verdict.says == (
        "2 hosts reach 466 GB/s at 4.0 GiB, 62 % of the 750 GB/s that interfaces of 3,200 Gbit/s a host "
        "allow: enough (at least 50 %).",
    )


@pytest.mark.parametrize("hosts", [3, 4, 5, 8, 16])
@pytest.mark.parametrize("seed", range(5))
def test_a_slow_host_is_named_alone_whichever_it_is_and_with_noise(hosts: int, seed: int) -> None:
    slow = seed % hosts
    rates = [100.0 if each == slow else 340.0 for each in range(hosts)]
    verdict = judge_fabric(measured(rates, noise=0.05, seed=seed))
    assert verdict.reached is False
    assert verdict.slow_hosts == (f"algo-{slow + 1}",)
    assert verdict.slow_pairs == ()
    assert f"algo-{slow + 1} is slow" in verdict.says[1]


@pytest.mark.parametrize("hosts", [3, 4, 5, 8, 16])
@pytest.mark.parametrize("rate", [60.0, 190.0])
@pytest.mark.parametrize("seed", range(5))
def test_no_host_is_named_where_all_are_slow_alike(hosts: int, rate: float, seed: int) -> None:
    verdict = judge_fabric(measured([rate] * hosts, noise=0.05, seed=seed))
    assert verdict.reached is False
    assert verdict.slow_hosts == ()
    assert verdict.slow_pairs == ()
    assert any("all are slow alike" in sentence for sentence in verdict.says)


@pytest.mark.parametrize("seed", range(5))
def test_no_host_is_named_where_the_limit_is_reached(seed: int) -> None:
    rates = [340.0, 340.0, 260.0, 340.0]
    verdict = judge_fabric(measured(rates, noise=0.05, seed=seed))
    assert verdict.reached
    assert verdict.slow_hosts == ()
    assert len(verdict.says) == 1


def test_two_slow_hosts_of_four_are_both_named() -> None:
    verdict = judge_fabric(measured([340.0, 90.0, 340.0, 120.0], noise=0.05))
    assert verdict.slow_hosts == ("algo-2", "algo-4")


def test_a_slow_way_between_two_sound_hosts_is_no_slow_host() -> None:
    verdict = judge_fabric(measured([340.0] * 4, slow_links={(1, 2): 50.0}, noise=0.05))
    assert verdict.slow_hosts == ()
    assert [pair.hosts for pair in verdict.slow_pairs] == [("algo-2", "algo-3")]
    assert any("Between algo-2 and algo-3" in sentence for sentence in verdict.says)


def test_what_is_slow_only_when_all_send_at_once_is_told_so() -> None:
    verdict = judge_fabric(measured([340.0] * 4, together=0.3, noise=0.05))
    assert verdict.reached is False
    assert verdict.slow_hosts == ()
    assert any("when all send at once" in sentence for sentence in verdict.says)


def test_of_two_hosts_neither_is_named() -> None:
    verdict = judge_fabric(measured([340.0, 50.0], pairs=False))
    assert verdict.reached is False
    assert verdict.slow_hosts == ()
    assert any("Two hosts cannot tell" in sentence for sentence in verdict.says)
    assert find_slow_hosts(measured([340.0, 50.0]).pairs) == ((), ())


def test_without_a_rate_nothing_is_judged_but_a_slow_host_is_seen() -> None:
    even = judge_fabric(measured([1.0] * 4, gbps=None, noise=0.05))
    assert (even.reached, even.limit, even.share, even.slow_hosts) == (None, None, None, ())
    assert even.is_good
    assert "--gbps" in even.says[0]
    uneven = judge_fabric(measured([1.0, 1.0, 0.2, 1.0], gbps=None, noise=0.05))
    assert uneven.slow_hosts == ("algo-3",)


def test_a_cluster_s_name_of_a_slow_host_is_said_with_the_way_to_leave_it_out() -> None:
    nodes = {f"algo-{number}": f"p5-{number:02}" for number in range(1, 5)}
    verdict = judge_fabric(measured([340.0, 90.0, 340.0, 340.0]), nodes)
    assert "algo-2 (p5-02) is slow" in verdict.says[1]
    assert "slurm.exclude=[p5-02]" in verdict.says[1]


def test_a_place_that_cannot_be_written_falls_short() -> None:
    broken = {"what": "S3", "bytes": 1, "write": {}, "read": {}, "error": "write: AccessDenied"}
    record = record_in(record_line(storage=[broken]))
    assert record is not None
    verdict = judge_fabric(record)
    assert verdict.reached
    assert not verdict.is_good
    assert verdict.says[-1] == "S3 could not be measured: write: AccessDenied."


def test_a_line_without_a_record_is_none_and_a_broken_one_is_told() -> None:
    assert record_in("step 1 loss 2.3") is None
    assert record_in(f"it prints {RECORD_MARK}later") is None
    for broken in ("{", "{}", '{"hosts": 3}'):
        with pytest.raises(BadRecord):
            record_in(RECORD_MARK + broken)
    for change in ({"curve": [[1, 2]]}, {"curve": [[1, 2, -1.0]]}, {"pairs": [[0, 7, 1.0]]}, {"gbps": "nan"}):
        with pytest.raises(BadRecord):
            record_in(record_line(**change))


def test_the_json_of_a_verdict_has_all_that_was_measured() -> None:
    record = measured([340.0, 90.0, 340.0])
    content = json.loads(json.dumps(judge_fabric(record).to_json()))
    assert content["reached"] is False
    assert content["slow_hosts"] == ["algo-2"]
    assert content["limit_gb_per_s"] == 400.0
    assert len(content["curve"]) == len(record.curve)
    assert content["pairs"][0] == {"hosts": ["algo-1", "algo-2"], "gb_per_s": record.pairs[0].busbw}


def test_every_published_run_is_enough_and_none_is_above_its_limit() -> None:
    for run in published_runs():
        facts = instance_facts(run.instance_type)
        assert facts is not None
        assert ENOUGH < run.share_of(facts.efa_gbps) < 1
        assert run.source.startswith("https://")
    assert {run.hosts for run in published_runs("ml.p4d.24xlarge")} == {2, 3, 4}
    assert published_runs("ml.m5.xlarge") == ()


def test_shares_are_rounded_down_and_rates_to_three_digits() -> None:
    assert in_percent(0.4999) == "49 %"
    assert in_percent(0.5) == "50 %"
    assert in_percent(0.0034) == "0.3 %"
    assert (in_gb(479.28), in_gb(1234.5), in_gb(0.04812)) == ("479 GB/s", "1,234 GB/s", "48.1 MB/s")


def test_one_pair_that_was_a_little_slower_is_no_slow_way() -> None:
    verdict = judge_fabric(measured([100.0] * 3, slow_links={(0, 1): 75.0}))
    assert verdict.reached is False
    assert (verdict.slow_hosts, verdict.slow_pairs) == ((), ())
