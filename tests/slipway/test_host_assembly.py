"""Hosts that ask each other, over loopback."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from launcher.backends.local.layout import two_free_ports
from slipway.container import Container, Rendezvous
from slipway.host_assembly import Assembly, DistantSwitchboard, FirstHostSilent, Seal, Switchboard


def container(host: int, hosts: int) -> Container:
    names = tuple(f"algo-{n}" for n in range(1, hosts + 1))
    return Container(Path("/opt/ml"), names, names[host], "ml.p4d.24xlarge", None, {}, {}, {})


@pytest.fixture
def four() -> Iterator[list[Assembly]]:
    rendezvous = Rendezvous("127.0.0.1", two_free_ports())
    assemblies = [Assembly(container(n, 4), rendezvous, "job-1", "4711") for n in range(4)]
    yield assemblies
    for assembly in assemblies:
        assembly.close()


def at_once(assemblies: list[Assembly], topic: str, seconds: float) -> list[Any]:
    with ThreadPoolExecutor(len(assemblies)) as pool:
        return list(pool.map(lambda one: one.exchange(topic, one.current.upper(), seconds), assemblies))


def test_all_hosts_get_what_all_hosts_said(four: list[Assembly]) -> None:
    everything = {f"algo-{n}": f"ALGO-{n}" for n in range(1, 5)}
    assert at_once(four, "roll-call", 30) == [everything] * 4
    assert four[0].missing(everything) == ()


def test_after_the_deadline_all_get_the_same_without_the_host_that_is_missing(four: list[Assembly]) -> None:
    answers = at_once(four[:3], "roll-call", 0.2)
    assert answers == [{f"algo-{n}": f"ALGO-{n}" for n in (1, 2, 3)}] * 3
    assert four[0].missing(answers[0]) == ("algo-4",)
    assert four[3].exchange("roll-call", "late", 30) == answers[0], (
        "who is late learns what was said without it"
    )


def test_what_is_posted_is_read_by_all_and_replaces_what_was_there(four: list[Assembly]) -> None:
    four[1].post("steps", 7)
    four[1].post("steps", 8)
    four[0].post("steps", 9)
    assert four[2].read("steps") == {"algo-1": 9, "algo-2": 8}
    assert four[2].read("nothing") == {}


def test_what_the_first_to_ask_decided_holds_for_all(four: list[Assembly]) -> None:
    with ThreadPoolExecutor(4) as pool:
        decided = list(pool.map(lambda one: one.decide("port", one.current), four))
    assert len(set(decided)) == 1
    assert decided[0] in four[0].hosts


def test_one_host_alone_listens_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    alone = Assembly(container(0, 1), Rendezvous("127.0.0.1", 1), "job")
    assert alone.exchange("roll-call", 1, 30) == {"algo-1": 1}
    assert alone.is_first


def test_a_first_host_that_never_comes_is_named_with_its_address() -> None:
    port = two_free_ports()
    line = DistantSwitchboard(Rendezvous("127.0.0.1", port), Seal("job", ""), patience=0.3)
    with pytest.raises(FirstHostSilent, match=f"127.0.0.1:{port + 1} did not answer within 0 s"):
        line.read("steps")


def test_a_host_that_came_before_the_first_one_waits_for_it() -> None:
    rendezvous = Rendezvous("127.0.0.1", two_free_ports())
    second = Assembly(container(1, 2), rendezvous, "job")
    with ThreadPoolExecutor(1) as pool:
        answers = pool.submit(second.exchange, "roll-call", 2, 30)
        first = Assembly(container(0, 2), rendezvous, "job")
        assert first.exchange("roll-call", 1, 30) == {"algo-1": 1, "algo-2": 2}
        assert answers.result(30) == {"algo-1": 1, "algo-2": 2}
    first.close()


@pytest.mark.parametrize("seal", [Seal("job-2", "4711"), Seal("job-1", ""), Seal("job-1", "0815")])
def test_another_job_on_the_same_port_learns_that_it_is_another(four: list[Assembly], seal: Seal) -> None:
    line = four[1]._switchboard
    assert isinstance(line, DistantSwitchboard)
    other = DistantSwitchboard(Rendezvous(line._address, line._port - 1), seal, patience=0.3)
    with pytest.raises(FirstHostSilent, match="not a boot of this job"):
        other.post("watchdog-0:look", "algo-1", [1000, "x"])
    assert four[1].read("watchdog-0:look") == {}


def ask_as_stranger(address: tuple[str, int], sent: bytes) -> bytes:
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        return connection.makefile("rb").readline()


def test_who_knows_the_jobs_name_alone_speaks_for_none_of_its_hosts(
    four: list[Assembly], capfd: pytest.CaptureFixture[str]
) -> None:
    """The name is in every boot's path, which `ps` shows to all users of a machine."""
    line = four[1]._switchboard
    assert isinstance(line, DistantSwitchboard)
    finding = {"code": "HW001", "ranks": [0], "text": "FORGED", "certain": True}
    question = {
        "job": "job-1",
        "ask": "post",
        "host": "algo-2",
        "topic": "verdict",
        "value": [[finding], True],
    }
    content = json.dumps(question).encode()
    for sent in (content + b"\n", Seal("job-1", "").close(content), b"0" * 64 + b" " + content + b"\n", b""):
        assert ask_as_stranger((line._address, line._port), sent) == b""
    assert four[0].read("verdict") == {}
    four[0].close()
    told = capfd.readouterr().err
    assert told.count("without its token") == 1
    assert "strangers came to this job 3 times in all" in told


def test_who_connects_and_asks_nothing_makes_room_for_hosts_and_is_told_once(
    four: list[Assembly], capfd: pytest.CaptureFixture[str]
) -> None:
    """Every connection takes one of the files that the first host's boot may open."""
    line = four[1]._switchboard
    assert isinstance(line, DistantSwitchboard)
    held = [socket.create_connection((line._address, line._port), timeout=10) for _ in range(60)]
    assert [each.recv(1) for each in held[:10]] == [b""] * 10
    four[1].post("steps", 7)
    assert four[0].read("steps") == {"algo-2": 7}
    for each in held:
        each.close()
    assert capfd.readouterr().err.count("without its token") == 1


def test_an_answer_belongs_to_its_question() -> None:
    seal = Seal("job-1", "4711")
    answer = seal.close(b'{"answer": 1}', b"question 1")
    assert seal.open(answer, b"question 1") == b'{"answer": 1}'
    with pytest.raises(ValueError, match="not a boot of this job"):
        seal.open(answer, b"question 2")


def test_a_name_that_is_no_host_of_the_job_is_refused() -> None:
    with pytest.raises(ValueError, match="'algo-9' is not one of this job's hosts"):
        Switchboard(["algo-1"]).post("steps", "algo-9", 1)


@pytest.mark.parametrize(
    "sent", [b"", b"\n", b"{}\n", b"[]\n", b"\xff\xfe\n", b'{"job": 1}\n', b"GET / HTTP/1.1\r\n", b"null\n"]
)
def test_a_foreign_question_gets_no_answer_and_the_others_still_do(four: list[Assembly], sent: bytes) -> None:
    line = four[1]._switchboard
    assert isinstance(line, DistantSwitchboard)
    with socket.create_connection((line._address, line._port), timeout=10) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        reply = connection.makefile("rb").readline()
    assert reply == b"" or "error" in json.loads(reply)
    assert four[1].read("steps") == {}


def test_sixty_four_hosts_are_together_at_once() -> None:
    rendezvous, threads = Rendezvous("127.0.0.1", two_free_ports()), threading.active_count()
    assemblies = [Assembly(container(n, 64), rendezvous, "job") for n in range(64)]
    answers = at_once(assemblies, "roll-call", 60)
    assemblies[0].close()
    assert all(len(one) == 64 for one in answers)
    assert threading.active_count() < threads + 64 + 32
