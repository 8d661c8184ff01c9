"""A whole proof between network namespaces of limited bandwidth: boots, torchrun, gloo, the judgement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launcher.experiments.fabric_proof import ProofVerdict, judge_fabric, limit_of, record_in
from launcher.session.runs.prove_fabric import SCRIPT
from tests.slipway.gate.namespaces import Namespaces, why_not

WHY_NOT = why_not(shaping=True)
pytestmark = [pytest.mark.exhaustive, pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))]

MBIT, SLOW_MBIT = 400, 80
HOSTS = 4

Prove = Callable[..., ProofVerdict]


@pytest.fixture
def prove(tmp_path: Path) -> Iterator[Prove]:
    """Run a proof on hosts of MBIT, but for those that are given others; hold it against `gbps`."""
    hosts = Namespaces(tmp_path, HOSTS)

    def run(gbps: float, **rates: int) -> ProofVerdict:
        for host in hosts.names:
            hosts.limit(host, rates.get(host.replace("-", "_"), MBIT))
        below = 0.5 * limit_of(gbps, HOSTS, HOSTS)
        words = [f"--gbps={gbps}", f"--pairs-below={below}", "--up-to=2097152", "--pair-bytes=2097152"]
        shared = tmp_path / "shared"
        ended = hosts.ends(
            {
                host: hosts.start(
                    host,
                    torch=True,
                    gate="off",
                    text=SCRIPT,
                    strategy=("torchrun", "--processes-per-host", "1"),
                    arguments=[*words, "--storage-bytes=1000000", f"--folder=shared folder={shared}"],
                )
                for host in hosts.names
            }
        )
        assert [code for code, _, _ in ended.values()] == [0] * HOSTS, ended
        records = [record_in(line) for _, out, _ in ended.values() for line in out.splitlines()]
        [record] = [each for each in records if each is not None]
        return judge_fabric(record)

    yield run
    hosts.close()


def test_the_slow_one_of_four_hosts_is_named(prove: Prove) -> None:
    verdict = prove(MBIT / 1000, algo_3=SLOW_MBIT)
    assert verdict.reached is False
    assert verdict.slow_hosts == ("algo-3",)
    assert verdict.slow_pairs == ()
    assert len(verdict.record.pairs) == 6
    assert not verdict.broken


def test_of_four_sound_hosts_none_is_named_and_most_of_the_limit_is_reached(prove: Prove) -> None:
    verdict = prove(MBIT / 1000)
    assert verdict.reached
    assert verdict.share is not None
    assert 0.5 < verdict.share < 1.1
    assert verdict.slow_hosts == ()


def test_where_all_hosts_give_less_than_they_should_none_is_named(prove: Prove) -> None:
    verdict = prove(10 * MBIT / 1000)
    assert verdict.reached is False
    assert len(verdict.record.pairs) == 6
    assert verdict.slow_hosts == ()
