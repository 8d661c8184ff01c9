"""Whole boots on hosts that are network namespaces, with faults of the network between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slipway.gate.namespaces import Namespaces, why_not

WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Namespaces]:
    hosts = Namespaces(tmp_path, 3)
    yield hosts
    hosts.close()


def test_sound_hosts_meet_in_an_all_reduce_and_train(three: Namespaces) -> None:
    ended = three.ends({host: three.start(host, torch=True) for host in three.names})
    assert [code for code, _, _ in ended.values()] == [0, 0, 0], ended
    assert all("trained" in out for _, out, _ in ended.values())
    (line,) = [line for line in ended["algo-1"][2].splitlines() if "gate:" in line]
    assert "all well" in line
    assert "3 hosts, 6 ways between them, disks and devices, an all-reduce" in line


@pytest.mark.exhaustive
def test_an_all_reduce_that_fails_although_all_ways_are_open_refuses_the_job(three: Namespaces) -> None:
    # Each host tells the others that it is reached at 127.0.0.1, as a wrong interface in `environment` does.
    wrong = {"GLOO_SOCKET_IFNAME": "lo"}
    ended = three.ends({host: three.start(host, torch=True, variables=wrong) for host in three.names})
    assert [code for code, _, _ in ended.values()] == [1, 1, 1], ended
    texts = [three.failure(host) for host in three.names]
    assert all(text.startswith("NCCL007 ") for text in texts), texts
    assert "a short all-reduce between the 3 hosts" in texts[0]


def refused(three: Namespaces, ended: dict[str, tuple[int, str, str]], code: str, host: str) -> str:
    """The finding for which all hosts that ran were refused, alike."""
    assert [exit_code for exit_code, _, _ in ended.values()] == [1] * len(ended), ended
    assert not any("trained" in out for _, out, _ in ended.values())
    texts = {each: three.failure(each) for each in ended}
    for each, text in texts.items():
        begins = f"{code} {host}: " if each == host else f"{code} refused because of {host}: "
        assert text.startswith(begins), texts
    assert len({text.partition(f"{host}: ")[2].partition(" (and ")[0] for text in texts.values()}) == 1
    return next(iter(texts.values()))


@pytest.mark.exhaustive
def test_a_host_that_never_comes_is_named_on_all_others(three: Namespaces) -> None:
    ended = three.run(["algo-1", "algo-3"], roll_call=5)
    assert "did not answer the roll-call of 3 hosts" in refused(three, ended, "NCCL008", "algo-2")


@pytest.mark.exhaustive
def test_a_host_whose_link_is_down_is_named_and_names_the_first(three: Namespaces) -> None:
    three.ip("algo-2", "link", "set", "eth0", "down")
    ended = three.run(roll_call=5)
    cut = ended.pop("algo-2")
    refused(three, ended, "NCCL008", "algo-2")
    assert cut[0] == 1
    assert three.failure("algo-2").startswith("NCCL008 refused because of algo-1: the first host")


def test_ports_that_a_security_group_closes_are_named_with_the_pair(three: Namespaces) -> None:
    # As a group that opens the rendezvous and leaves out the ports that NCCL and gloo choose.
    three.swallow("algo-2", "to", "10.77.0.0/24", "ipproto", "tcp", "dport", "20000-65534")
    text = refused(three, three.run(), "NCCL007", "algo-2")
    assert "algo-1 cannot connect to algo-2 at 10.77.0.2:" in text
    assert "(no answer in time)" in text
    assert "nor the other way round" in text


@pytest.mark.exhaustive
def test_one_direction_alone_is_named_as_such(three: Namespaces) -> None:
    # algo-2 knows algo-3 by an address at which nobody is; algo-3 reaches algo-2.
    names = {host: three.address(host) for host in three.names}
    three.tell_names("algo-2", {**names, "algo-3": "10.77.0.99"})
    text = refused(three, three.run(), "NCCL007", "algo-2")
    assert "algo-2 cannot connect to algo-3 at 10.77.0.99:" in text
    assert "while algo-3 does reach algo-2" in text


@pytest.mark.exhaustive
def test_a_name_that_does_not_resolve_is_told_from_a_closed_port(three: Namespaces) -> None:
    three.tell_names("algo-2", {host: three.address(host) for host in ("algo-1", "algo-2")})
    text = refused(three, three.run(), "NCCL007", "algo-2")
    assert "algo-2 cannot resolve the name algo-3" in text


@pytest.mark.exhaustive
def test_with_warn_the_same_is_told_and_the_job_goes_on(three: Namespaces) -> None:
    three.tell_names("algo-2", {host: three.address(host) for host in ("algo-1", "algo-2")})
    ended = three.run(gate="warn")
    assert [code for code, _, _ in ended.values()] == [0, 0, 0]
    assert all("trained" in out for _, out, _ in ended.values())
    assert "warning: gate: NCCL007 algo-2: algo-2 cannot resolve the name algo-3" in ended["algo-1"][2]
