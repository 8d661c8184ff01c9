"""A switchboard over the network: one connection a question, a line of JSON there and one back."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import socket
import socketserver
import threading
import time
from typing import Any

from slipway.hosts.switchboard import Answers, Switchboard
from slipway.rendezvous import Rendezvous

LONGEST_LINE = 16 * 1024 * 1024
"""Bytes of a question or an answer: stacks of 8 ranks of each of 64 hosts are some megabytes."""

PATIENCE_SECONDS = 20.0
"""So long a question is asked again where the first host does not answer."""

_CONNECT_SECONDS, _AGAIN_SECONDS = 5.0, 0.2
_ANSWER_SECONDS = 10.0


class FirstHostSilent(Exception):
    """The first host did not answer: its address, how long it was asked, and the last reason."""

    def __init__(self, address: str, port: int, seconds: float, reason: str) -> None:
        super().__init__(f"{address}:{port} did not answer within {seconds:.0f} s ({reason})")
        self.address = address
        self.port = port


def port_of(rendezvous: Rendezvous) -> int:
    """Where the first host's boot listens: the port after the ranks' own."""
    return rendezvous.port + 1


class SwitchboardServer:
    """The first host's switchboard, served to the others; `job` tells its hosts from another job's."""

    def __init__(self, switchboard: Switchboard, rendezvous: Rendezvous, job: str) -> None:
        """Raises OSError where the port is taken."""
        self._server = _ThreadedServer((_listening_address(rendezvous), port_of(rendezvous)), _Asking)
        self._server.switchboard, self._server.job = switchboard, job
        # How often it looks whether it shall end: `close` waits for that.
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        """Listen no more; questions that wait for an answer are given up."""
        self._server.shutdown()
        self._server.server_close()


class DistantSwitchboard:
    """A host's way to the first host's switchboard, with the same questions."""

    def __init__(self, rendezvous: Rendezvous, job: str, *, patience: float = PATIENCE_SECONDS) -> None:
        """`patience` is in seconds, and comes on top of what an answer takes by itself."""
        self._address, self._port = rendezvous.address, port_of(rendezvous)
        self._job, self._patience = job, patience

    def post(self, topic: str, host: str, value: Any) -> None:
        """As Switchboard.post. Raises FirstHostSilent."""
        self._ask({"ask": "post", "topic": topic, "host": host, "value": value})

    def read(self, topic: str) -> Answers:
        """As Switchboard.read. Raises FirstHostSilent."""
        answers: Answers = self._ask({"ask": "read", "topic": topic})
        return answers

    def exchange(self, topic: str, host: str, value: Any, seconds: float) -> Answers:
        """As Switchboard.exchange. Raises FirstHostSilent."""
        question = {"ask": "exchange", "topic": topic, "host": host, "value": value, "seconds": seconds}
        answers: Answers = self._ask(question, seconds)
        return answers

    def decide(self, topic: str, host: str, value: Any) -> Any:
        """As Switchboard.decide. Raises FirstHostSilent."""
        return self._ask({"ask": "decide", "topic": topic, "host": host, "value": value})

    def _ask(self, question: dict[str, Any], takes: float = 0.0) -> Any:
        """Ask until there is an answer. A question may arrive twice, which changes nothing."""
        line = json.dumps({**question, "job": self._job}).encode() + b"\n"
        patience = self._patience + takes
        until = time.monotonic() + patience
        while True:
            try:
                answer = self._asked(line, takes)
                break
            except (OSError, ValueError) as error:
                if time.monotonic() > until:
                    silent = FirstHostSilent(self._address, self._port, patience, str(error) or "no answer")
                    raise silent from error
                time.sleep(_AGAIN_SECONDS)
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer["answer"]

    def _asked(self, line: bytes, takes: float) -> Any:
        with socket.create_connection((self._address, self._port), timeout=_CONNECT_SECONDS) as connection:
            connection.sendall(line)
            connection.settimeout(takes + _ANSWER_SECONDS)
            with connection.makefile("rb") as stream:
                answer = json.loads(stream.readline(LONGEST_LINE))
        if not isinstance(answer, dict) or not {"answer", "error"} & set(answer):
            raise ValueError("what listens there is not a boot of this job")
        return answer


class _ThreadedServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024
    switchboard: Switchboard
    job: str

    def handle_error(self, request: object, client_address: object) -> None:
        """Who hangs up before the answer gets none."""


class _Asking(socketserver.StreamRequestHandler):
    server: _ThreadedServer

    def handle(self) -> None:
        """Answer one line, or nothing where it is none."""
        self.connection.settimeout(_ANSWER_SECONDS)
        with contextlib.suppress(ValueError, KeyError, TypeError):
            question = json.loads(self.rfile.readline(LONGEST_LINE))
            if question["job"] != self.server.job:
                reply = {"error": "this port belongs to another job"}
            else:
                reply = self._reply(question)
            self.wfile.write(json.dumps(reply).encode() + b"\n")

    def _reply(self, question: dict[str, Any]) -> dict[str, Any]:
        board, topic = self.server.switchboard, question["topic"]
        try:
            if question["ask"] == "read":
                return {"answer": board.read(topic)}
            host, value = question["host"], question["value"]
            if question["ask"] == "post":
                board.post(topic, host, value)
                return {"answer": None}
            if question["ask"] == "decide":
                return {"answer": board.decide(topic, host, value)}
            return {"answer": board.exchange(topic, host, value, float(question["seconds"]))}
        except ValueError as error:
            return {"error": str(error)}


def _listening_address(rendezvous: Rendezvous) -> str:
    """All of this host's, or loopback alone where the whole job is on this machine."""
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(rendezvous.address).is_loopback:
            return rendezvous.address
    return ""
