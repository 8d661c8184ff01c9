"""Real connections between hosts that are threads of this process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from slipway.gate.probe_host import Door, _clock_offset, is_loopback, ways_to


@pytest.fixture
def door() -> Iterator[Door]:
    door = Door("algo-2", loopback=True)
    yield door
    door.close()


def test_a_host_that_answers_by_its_name_is_reached(door: Door) -> None:
    way = ways_to({"algo-2": ("127.0.0.1", door.port)})["algo-2"]
    assert way["ended"] == "ok"
    assert abs(way["offset"]) < 5


def test_a_port_that_is_closed_fails_with_its_address(door: Door) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        way = ways_to({"algo-2": ("127.0.0.1", port)})["algo-2"]
    assert way == {"ended": "connection", "reason": "Connection refused", "address": f"127.0.0.1:{port}"}


def test_a_name_that_does_not_resolve_is_told(door: Door) -> None:
    way = ways_to({"algo-2": ("256.0.0.1.", door.port)})["algo-2"]
    assert way["ended"] == "name"


def test_a_stranger_is_not_taken_for_the_host(door: Door) -> None:
    way = ways_to({"algo-3": ("127.0.0.1", door.port)})["algo-3"]
    assert (way["ended"], way["reason"]) == ("stranger", "algo-2")


@pytest.mark.parametrize("greeting", [b"", b"\n", b"[]\n", b'{"host": 1}\n', b"\xff\xfe\n", b"220 mail\r\n"])
def test_what_does_not_greet_as_a_boot_is_no_host(greeting: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            connection, _ = other.accept()
            with connection:
                connection.sendall(greeting)

        threading.Thread(target=answer, daemon=True).start()
        way = ways_to({"algo-2": ("127.0.0.1", other.getsockname()[1])})["algo-2"]
    assert way["ended"] in ("connection", "stranger")


def test_what_takes_too_long_is_late(door: Door) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        way = ways_to({"algo-2": ("127.0.0.1", silent.getsockname()[1])}, seconds=0.05)["algo-2"]
    assert way["ended"] == "late"


@pytest.mark.parametrize(
    ("theirs", "asked", "answered", "offset"),
    [(105.0, 100.0, 101.0, 4.0), (100.5, 100.0, 101.0, 0.0), (90.0, 100.0, 101.0, -10.0)],
)
def test_the_round_trip_is_taken_off_a_clocks_difference(
    theirs: float, asked: float, answered: float, offset: float
) -> None:
    assert _clock_offset(theirs, asked, answered) == offset


def test_only_addresses_of_this_machine_are_loopback() -> None:
    assert is_loopback("127.0.0.1")
    assert not is_loopback("10.0.0.1")
    assert not is_loopback("algo-1")
