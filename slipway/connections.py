"""The TCP connections of this host and whose they are, as Linux shows them (proc(5), /proc/net/tcp)."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_ESTABLISHED = 0x01
_CLOSING = frozenset({0x04, 0x05, 0x06, 0x09, 0x0B})
"""FIN_WAIT1, FIN_WAIT2, TIME_WAIT, LAST_ACK and CLOSING, by the numbers of the kernel's tcp_states.h."""


class End(NamedTuple):
    """An address and a port; an IPv4 address that IPv6 carries is an IPv4 address."""

    address: str
    port: int


class Connection(NamedTuple):
    """One end of a connection. `inode` is its socket's, 0 where no process has it, or not yet."""

    local: End
    remote: End
    inode: int
    closing: bool
    """Whether it was closed from here. Linux remembers that for a minute (TIME_WAIT), nobody's by then."""


def connections(proc: Path = Path("/proc/self/net")) -> list[Connection]:
    """All ends of connections on this host that are established or were lately.

    Raises OSError where the system has no such table, as on macOS.
    """
    found = list(_table(proc / "tcp"))
    with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
        found += _table(proc / "tcp6")
    return found


def sockets_of(pid: int) -> set[int]:
    """The inodes of a process' open sockets; none of a process that is gone.

    Raises PermissionError where another user's process is not ours to look at.
    """
    inodes = set()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for descriptor in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                name = os.readlink(descriptor.path)  # noqa: PTH115  Path has it since Python 3.9
                if name.startswith("socket:["):
                    inodes.add(int(name[len("socket:[") : -1]))
    return inodes


def _table(file: Path) -> Iterator[Connection]:
    for line in file.read_text().splitlines()[1:]:
        fields = line.split()
        state = int(fields[3], 16)
        if state == _ESTABLISHED or state in _CLOSING:
            yield Connection(_end(fields[1]), _end(fields[2]), int(fields[9]), state in _CLOSING)


def _end(text: str) -> End:
    """`0100007F:1E61` is 127.0.0.1:7777: each 32 bits of the address as this machine writes a number."""
    digits, port = text.split(":")
    packed = b"".join(
        struct.pack("=I", int(digits[start : start + 8], 16)) for start in range(0, len(digits), 8)
    )
    if len(packed) == 4:
        return End(str(ipaddress.IPv4Address(packed)), int(port, 16))
    address = ipaddress.IPv6Address(packed)
    return End(str(address.ipv4_mapped or address), int(port, 16))
