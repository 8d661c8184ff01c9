"""Whether every host reaches every other one: each listens on a port, and all others connect."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import socket
import socketserver
import threading
import time
import typing
from collections.abc import Mapping
from typing import Any

CONNECT_SECONDS = 5.0
"""A refused connection fails at once; packets that are dropped are sent again after 1 and after 3 s."""

GREETING_SECONDS = 10.0
"""A host that is connected is there; a busy one may take its time to say who it is."""

AT_ONCE = 32
"""So many hosts are asked at once."""

PAIRS_SECONDS = 15.0
"""For all of them; names that a dead resolver does not answer take longest, 10 s by default
(resolv.conf(5): 5 s, twice)."""

LONGEST_GREETING = 4096

Paths = typing.Mapping[str, typing.Mapping[str, Any]]
"""By host how the way there ended: `ended` is `ok` (with `offset`, by how many seconds its clock is ahead at
least), `name`, `connection`, `stranger` or `late`, with a `reason` and the address."""


class Door:
    """The port on which this host can be reached while the gate lasts; it greets with name and time."""

    def __init__(self, host: str, loopback: bool) -> None:
        """Raises OSError where no port can be had."""
        self._server = _Server(("127.0.0.1" if loopback else "", 0), _Greeting)
        self._server.host = host
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024
    host: str

    def handle_error(self, request: object, client_address: object) -> None:
        """Who hangs up early learns nothing."""


class _Greeting(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        """Say who this is and what time it is."""
        self.connection.settimeout(GREETING_SECONDS)
        self.wfile.write(json.dumps({"host": self.server.host, "time": time.time()}).encode() + b"\n")


def is_loopback(address: str) -> bool:
    """Whether all hosts of the job are on this machine, as those of a local run."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(address).is_loopback
    return False


def ways_to(addresses: Mapping[str, tuple[str, int]], seconds: float = PAIRS_SECONDS) -> Paths:
    """Connect to all hosts, each at its name or address and its port."""
    found: dict[str, Mapping[str, Any]] = {}
    left = list(addresses.items())[::-1]

    def ask() -> None:
        # A list's pop is one step: no two threads get the same host.
        while True:
            try:
                host, address = left.pop()
            except IndexError:
                return
            found[host] = _way(host, *address)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(min(AT_ONCE, len(left)))]
    for thread in threads:
        thread.start()
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    late = {"ended": "late", "reason": f"nothing came of it within {seconds:.0f} s"}
    # A copy: threads that are late may still write.
    answered = dict(found)
    return {host: answered.get(host, late) for host in addresses}


def _way(host: str, name: str, port: int) -> Mapping[str, Any]:
    try:
        *_, address = socket.getaddrinfo(name, port, socket.AF_INET, socket.SOCK_STREAM)[0]
    except OSError as error:
        return {"ended": "name", "reason": error.strerror or str(error), "address": name}
    where = f"{address[0]}:{port}"
    try:
        with socket.create_connection((str(address[0]), port), timeout=CONNECT_SECONDS) as connection:
            connection.settimeout(GREETING_SECONDS)
            asked = time.time()
            with connection.makefile("rb") as stream:
                greeting = json.loads(stream.readline(LONGEST_GREETING))
            answered = time.time()
            if greeting["host"] != host:
                return {"ended": "stranger", "reason": str(greeting["host"])[:64], "address": where}
            return {"ended": "ok", "offset": _offset(float(greeting["time"]), asked, answered)}
    except socket.timeout:  # noqa: UP041 (a class of its own before Python 3.10)
        reason = "no answer in time"
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return {"ended": "connection", "reason": reason, "address": where}


def _offset(theirs: float, asked: float, answered: float) -> float:
    """By how much another clock is ahead of this one at least, whatever part of the round trip went where.

    Negative where it is behind; 0.0 where the round trip explains all of it.
    """
    if theirs > answered:
        return round(theirs - answered, 3)
    return round(min(0.0, theirs - asked), 3)
