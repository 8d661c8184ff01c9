"""The kernel's tables of TCP connections."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from slipway.processes.rank_connections import Connection, SocketEnd, connections, sockets_of

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
REST = "00000000:00000000 00:00000000 00000000     0        0"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the tables are Linux's")


@pytest.mark.skipif(sys.byteorder != "little", reason="the addresses below are those of such a machine")
def test_established_and_closed_ends_are_read_with_their_addresses(tmp_path: Path) -> None:
    listening = f"   0: 0100007F:1E61 00000000:0000 0A {REST} 11 1\n"
    joined = f"   1: 0100007F:C000 0200000A:1E61 01 {REST} 12 1\n"
    left = f"   2: 0100007F:C001 0100007F:1E61 06 {REST} 0 3\n"
    (tmp_path / "tcp").write_text(HEADER + listening + joined + left)
    mapped = "0000000000000000FFFF0000"
    six = f"   0: {mapped}0100007F:C002 {mapped}0200000A:1E61 01 {REST} 13 1\n"
    (tmp_path / "tcp6").write_text(HEADER + six)
    assert connections(tmp_path) == [
        Connection(SocketEnd("127.0.0.1", 49152), SocketEnd("10.0.0.2", 7777), 12, False),
        Connection(SocketEnd("127.0.0.1", 49153), SocketEnd("127.0.0.1", 7777), 0, True),
        Connection(SocketEnd("127.0.0.1", 49154), SocketEnd("10.0.0.2", 7777), 13, False),
    ]


def test_a_kernel_without_ipv6_has_one_table_and_another_system_none(tmp_path: Path) -> None:
    (tmp_path / "tcp").write_text(HEADER)
    assert connections(tmp_path) == []
    with pytest.raises(OSError, match="No such file"):
        connections(tmp_path / "none")


def test_a_real_connection_is_found_with_its_owner() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as one,
    ):
        ours = [end for end in connections() if end.local == one.getsockname()]
        # The kernel's list may tell a connection twice while others come and go.
        assert {end.remote for end in ours} == {server.getsockname()}
        assert ours[0].inode in sockets_of(os.getpid())


def test_a_process_that_is_gone_has_no_sockets() -> None:
    assert sockets_of(2**22 + 1) == set()
