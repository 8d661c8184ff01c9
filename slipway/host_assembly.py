"""The job's hosts among themselves: one asks all of them something, and knows what all of them answered.

The first host's boot keeps what the hosts have said; the others ask it over the network, beside the ranks'
own connections.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import ipaddress
import json
import socket
import socketserver
import threading
import time
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slipway.container import Container, Rendezvous
from slipway.errors import say
from slipway.failure import BootError


class Assembly:
    """The hosts' boots together. The first host's answers everybody, so nothing works without it.

    Where one host is alone nothing is listened to and nothing is sent.
    """

    def __init__(self, container: Container, rendezvous: Rendezvous, job: str, token: str = "") -> None:
        """`job` is the job's name, `token` what only its hosts know.

        Raises OSError on the first host where the port after the rendezvous' is taken.
        """
        self.hosts, self.current = container.hosts, container.current_host
        self._served: SwitchboardServer | None = None
        self._switchboard: Switchboard | DistantSwitchboard
        seal = Seal(job, token)
        if container.node_rank > 0:
            self._switchboard = DistantSwitchboard(rendezvous, seal)
        else:
            self._switchboard = Switchboard(self.hosts)
            if len(self.hosts) > 1:
                self._served = SwitchboardServer(self._switchboard, rendezvous, seal, len(self.hosts))

    @property
    def is_first(self) -> bool:
        """Whether this host is the one that answers."""
        return self.current == self.hosts[0]

    def post(self, topic: str, value: Any) -> None:
        """Say something under a topic, in place of what this host said there before.

        Raises FirstHostSilent, as the other three do.
        """
        self._switchboard.post(topic, self.current, value)

    def read(self, topic: str) -> Answers:
        """What each host said last under a topic, at this moment."""
        return self._switchboard.read(topic)

    def exchange(self, topic: str, value: Any, seconds: float) -> Answers:
        """Say something and wait for the others: the same answers for all hosts.

        Who has not spoken `seconds` after the first is not among them. A topic is exchanged once.
        """
        return self._switchboard.exchange(topic, self.current, value, seconds)

    def decide(self, topic: str, value: Any) -> Any:
        """The value of the host that asked first, the same for all."""
        return self._switchboard.decide(topic, self.current, value)

    def missing(self, answers: Answers) -> tuple[str, ...]:
        """The hosts that are not among the answers, in the job's order."""
        return tuple(host for host in self.hosts if host not in answers)

    def close(self) -> None:
        """Answer nobody any more."""
        if self._served is not None:
            self._served.close()


TOKEN_VARIABLE = "SLIPWAY_HOST_TOKEN"
"""What only the job's hosts know, random for each job: the launcher puts it into the request at the end."""


def assemble(
    container: Container, rendezvous: Rendezvous, environment: Mapping[str, str], token: str
) -> Assembly:
    """The hosts of the job that the environment names; `token` is what only they know.

    Raises BootError (NCCL009) where another process holds the first host's port.
    """
    if not token and len(container.hosts) > 1 and container.node_rank == 0:
        say(
            f"this job's request has no {TOKEN_VARIABLE}, so that whoever reaches port "
            f"{switchboard_port(rendezvous)} and knows the job's name could speak for its hosts: launch it "
            f"with `launch`, or give {TOKEN_VARIABLE} a random value"
        )
    try:
        return Assembly(container, rendezvous, environment.get("TRAINING_JOB_NAME", ""), token)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise BootError(
            "NCCL009",
            f"{container.current_host} cannot listen on port {switchboard_port(rendezvous)} "
            f"({error.strerror}), where the hosts of this job tell each other how they are, so none would "
            "know of the others: set "
            "MASTER_PORT in `environment` so that it and the port after it are free",
        ) from None


class Seal:
    """By which the job's hosts know each other's lines: a hash over each, with a key that only they have.

    The key itself is never sent. So who only reads the job's name, which `ps` shows, is no host of it.
    """

    def __init__(self, job: str, token: str) -> None:
        self._key = hashlib.sha256(f"{token}\n{job}".encode()).digest()

    def close(self, content: bytes, question: bytes = b"") -> bytes:
        """The line that says `content`; an answer's belongs to the line of its question."""
        return self._hash(question, content) + b" " + content + b"\n"

    def open(self, line: bytes, question: bytes = b"") -> bytes:
        """What a line says. Raises ValueError where it is from no host of the job."""
        mark, _, content = line.rstrip(b"\n").partition(b" ")
        if not hmac.compare_digest(mark, self._hash(question, content)):
            raise ValueError("what speaks there is not a boot of this job")
        return content

    def _hash(self, question: bytes, content: bytes) -> bytes:
        # Of one length, so that no other question and content together are the same bytes.
        asked = hashlib.sha256(question).digest()
        return hmac.new(self._key, asked + content, hashlib.sha256).hexdigest().encode()


# The switchboard over the network: one connection a question, a sealed line of JSON there and one back.


LONGEST_LINE = 16 * 1024 * 1024
"""Bytes of a question or an answer: stacks of 8 ranks of each of 64 hosts are some megabytes."""

PATIENCE_SECONDS = 20.0
"""So long a question is asked again where the first host does not answer."""

_CONNECT_SECONDS, _AGAIN_SECONDS = 5.0, 0.2
_ANSWER_SECONDS = 10.0

_UNHEARD_OF_A_HOST, _UNHEARD_BESIDE_HOSTS = 4, 32
"""So many connections may be open that have not asked anything yet: a host asks at once, and from fewer
threads. Each takes an open file of the first host's boot."""


class FirstHostSilent(Exception):
    """The first host did not answer: its address, how long it was asked, and the last reason."""

    def __init__(self, address: str, port: int, seconds: float, reason: str) -> None:
        super().__init__(f"{address}:{port} did not answer within {seconds:.0f} s ({reason})")
        self.address = address
        self.port = port


def switchboard_port(rendezvous: Rendezvous) -> int:
    """Where the first host's boot listens: the port after the ranks' own."""
    return rendezvous.port + 1


class SwitchboardServer:
    """The first host's switchboard, served to the others, whom their seal tells from strangers."""

    def __init__(self, switchboard: Switchboard, rendezvous: Rendezvous, seal: Seal, hosts: int) -> None:
        """`hosts` is how many the job has. Raises OSError where the port is taken."""
        address = (_listening_address(rendezvous), switchboard_port(rendezvous))
        self._server = _ThreadedServer(address, _QuestionHandler)
        self._server.switchboard, self._server.seal = switchboard, seal
        self._server.most_unheard = _UNHEARD_BESIDE_HOSTS + _UNHEARD_OF_A_HOST * hosts
        # How often it looks whether it shall end: `close` waits for that.
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        """Listen no more; questions that wait for an answer are given up."""
        self._server.shutdown()
        self._server.server_close()
        if self._server.strangers > 1:
            say(f"strangers came to this job {self._server.strangers} times in all, and were ignored")


class DistantSwitchboard:
    """A host's way to the first host's switchboard, with the same questions."""

    def __init__(self, rendezvous: Rendezvous, seal: Seal, *, patience: float = PATIENCE_SECONDS) -> None:
        """`patience` is in seconds, and comes on top of what an answer takes by itself."""
        self._address, self._port = rendezvous.address, switchboard_port(rendezvous)
        self._seal, self._patience = seal, patience

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
        line = self._seal.close(json.dumps(question).encode())
        patience = self._patience + takes
        until = time.monotonic() + patience
        while True:
            try:
                answer = self._exchange_line(line, takes)
                break
            except (OSError, ValueError) as error:
                if time.monotonic() > until:
                    silent = FirstHostSilent(self._address, self._port, patience, str(error) or "no answer")
                    raise silent from error
                time.sleep(_AGAIN_SECONDS)
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer["answer"]

    def _exchange_line(self, line: bytes, takes: float) -> Any:
        with socket.create_connection((self._address, self._port), timeout=_CONNECT_SECONDS) as connection:
            connection.sendall(line)
            connection.settimeout(takes + _ANSWER_SECONDS)
            with connection.makefile("rb") as stream:
                answer = stream.readline(LONGEST_LINE)
        return json.loads(self._seal.open(answer, line))


class _ThreadedServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024
    switchboard: Switchboard
    seal: Seal
    most_unheard: int
    strangers = 0

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self._unheard: dict[socket.socket, Any] = {}
        self._lock = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hear the newest; where too many hold a connection and ask nothing, the oldest of them is ended."""
        with self._lock:
            self._unheard[request] = client_address
            oldest = next(iter(self._unheard)) if len(self._unheard) > self.most_unheard else None
            address = None if oldest is None else self._unheard.pop(oldest)
            if oldest is not None:
                # Its thread, which waits for the question, closes it.
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
        if oldest is not None:
            self.ignore_stranger(address)
        super().process_request(request, client_address)

    def is_heard_in_time(self, request: Any) -> bool:
        """Whether a connection, which has asked or will not, was not ended before."""
        with self._lock:
            return self._unheard.pop(request, None) is not None

    def handle_error(self, request: object, client_address: object) -> None:
        """Who hangs up before the answer gets none."""

    def ignore_stranger(self, client_address: Any) -> None:
        """Count who came and is no host of this job, and tell of the first."""
        with self._lock:
            self.strangers += 1
            is_first = self.strangers == 1
        if is_first:
            say(
                f"{client_address[0]} came to port {self.server_address[1]} of this job's hosts without its "
                "token, and is ignored, as are all others: if that is none of your own jobs with the same "
                "MASTER_PORT, look at who may reach this port"
            )


class _QuestionHandler(socketserver.StreamRequestHandler):
    server: _ThreadedServer

    def handle(self) -> None:
        """Answer one line of a host of this job, and strangers nothing."""
        self.connection.settimeout(_ANSWER_SECONDS)
        try:
            line = self.rfile.readline(LONGEST_LINE)
        finally:
            in_time = self.server.is_heard_in_time(self.connection)
        if not in_time:
            return
        try:
            content = self.server.seal.open(line)
        except ValueError:
            # Who only connects, as the look of a load balancer or a port scan does, has said nothing.
            if line:
                self.server.ignore_stranger(self.client_address)
            return
        with contextlib.suppress(ValueError, KeyError, TypeError):
            reply = self._reply(json.loads(content))
            self.wfile.write(self.server.seal.close(json.dumps(reply).encode(), line))

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


# What the hosts have said, kept by the first host's boot.
#
# A topic holds one value a host. Values are whatever JSON can hold.
#
# Those of collections.abc have no brackets before Python 3.9.
Answers = typing.Mapping[str, Any]
"""A value by the name of the host that said it."""


class Switchboard:
    """Takes what hosts say and answers them; called by as many threads as there are questions."""

    def __init__(self, hosts: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._hosts = tuple(hosts)
        self._clock = clock
        self._said: dict[str, dict[str, Any]] = {}
        self._closed: dict[str, dict[str, Any]] = {}
        self._ends: dict[str, float] = {}
        self._changed = threading.Condition()

    def post(self, topic: str, host: str, value: Any) -> None:
        """Keep what a host says under a topic, in place of what it said there before."""
        with self._changed:
            self._said.setdefault(topic, {})[self._known(host)] = value
            self._changed.notify_all()

    def read(self, topic: str) -> Answers:
        """What each host said last under a topic, at this moment."""
        with self._changed:
            return dict(self._said.get(topic, {}))

    def exchange(self, topic: str, host: str, value: Any, seconds: float) -> Answers:
        """Say something and wait for what the others say, all getting the same answers.

        It ends when all hosts have spoken, or so many seconds after the first of them did. Who comes later
        gets the answers of those who were in time, without its own.
        """
        with self._changed:
            if topic not in self._closed:
                self._said.setdefault(topic, {})[self._known(host)] = value
                self._ends.setdefault(topic, self._clock() + seconds)
                self._changed.notify_all()
            while topic not in self._closed:
                left = self._ends[topic] - self._clock()
                if left <= 0 or len(self._said[topic]) == len(self._hosts):
                    self._closed[topic] = dict(self._said[topic])
                    self._changed.notify_all()
                else:
                    self._changed.wait(left)
            return dict(self._closed[topic])

    def decide(self, topic: str, host: str, value: Any) -> Any:
        """The value of whoever asked first under a topic, the same for all who ask."""
        with self._changed:
            first = self._said.setdefault(topic, {})
            if not first:
                first[self._known(host)] = value
            return next(iter(first.values()))

    def _known(self, host: str) -> str:
        """Raises ValueError for a name that no host of this job has."""
        if host not in self._hosts:
            raise ValueError(f"{host!r} is not one of this job's hosts")
        return host
