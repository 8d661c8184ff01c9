"""AWS with faults for launchers in other processes: moto's server on loopback, with rules.

The rules are the faults of `tests.emulator.faults`, by operation, and a `Gate` that holds a call while a
test kills who made it:

    with faulty_server() as server:
        server.rule("CreateTrainingJob", LOST)
        gate = server.hold("PutObject", answered=False)
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from moto.moto_api._internal.models import moto_api_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from tests.emulator.faults import Fault, Faults, body_of

_LONGEST_HOLD_SECONDS = 60


@dataclass(slots=True)
class Gate:
    """Holds one call in the server: `wait` returns when it has come, it goes on after `release`."""

    answered: bool
    _reached: threading.Event = field(default_factory=threading.Event)
    _open: threading.Event = field(default_factory=threading.Event)

    def wait(self, seconds: float = _LONGEST_HOLD_SECONDS) -> bool:
        """Until the call has come; False where it never did."""
        return self._reached.wait(seconds)

    def release(self) -> None:
        """Let the held call go on."""
        self._open.set()

    def hold(self) -> None:
        """Stay here until released; the server's side."""
        self._reached.set()
        self._open.wait(_LONGEST_HOLD_SECONDS)


class FaultyServer:
    """moto's server with rules; `calls` holds the operations in the order in which they came."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.url = ""
        self._application = DomainDispatcherApplication(create_backend_app)
        self._rules: dict[str, Faults] = {}
        self._gates: list[Gate] = []
        self._waiting: dict[str, Gate] = {}

    def rule(self, operation: str, *faults: Fault | None) -> Faults:
        """Let the next calls of an operation meet the faults, one each."""
        self._rules[operation] = Faults(deque(faults))
        return self._rules[operation]

    def hold(self, operation: str, *, answered: bool) -> Gate:
        """Hold the next call of an operation: before it is carried out, or after (`answered`)."""
        gate = Gate(answered)
        self._gates.append(gate)
        self._waiting[operation] = gate
        return gate

    def open(self) -> None:
        """Release every call that is held."""
        for gate in self._gates:
            gate.release()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """The WSGI application."""
        operation = _operation(environ)
        self.calls.append(operation)
        gate = self._waiting.pop(operation, None)
        if gate is not None and not gate.answered:
            gate.hold()
        fault = self._rules[operation].next() if operation in self._rules else None
        if fault is not None:
            return self._fail(fault, environ, start_response)
        answer: Iterable[bytes] = self._application(environ, start_response)
        if gate is not None and gate.answered:
            answer = list(answer)
            gate.hold()
        return answer

    def _fail(
        self, fault: Fault, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        if fault.executed:
            list(self._application(environ, lambda *_: lambda data: None))
        if fault.status is not None:
            start_response(f"{fault.status} {fault.name}", [("Content-Type", "text/plain")])
            return [body_of(fault, "json" if "HTTP_X_AMZ_TARGET" in environ else "rest-xml")]
        # A connection that hangs would be waited for: cut here, it is the same to the caller's retry.
        connection: socket.socket = environ["werkzeug.socket"]
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        raise ConnectionAbortedError(fault.name)


@contextmanager
def faulty_server() -> Iterator[FaultyServer]:
    """moto's server on a free port of loopback, with rules; its state is this process's moto, emptied."""
    moto_api_backend.reset()
    server = FaultyServer()
    listening = make_server("127.0.0.1", 0, server, threaded=True)
    server.url = f"http://127.0.0.1:{listening.server_port}"
    thread = threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.open()
        listening.shutdown()
        thread.join()
        listening.server_close()
        moto_api_backend.reset()


_S3_OPERATIONS = (
    ("POST", "uploads", "CreateMultipartUpload"),
    ("PUT", "partNumber", "UploadPart"),
    ("POST", "uploadId", "CompleteMultipartUpload"),
    ("DELETE", "uploadId", "AbortMultipartUpload"),
    ("GET", "list-type", "ListObjectsV2"),
    ("HEAD", "", "HeadObject"),
    ("PUT", "", "PutObject"),
    ("GET", "", "GetObject"),
)


def _operation(environ: dict[str, Any]) -> str:
    """The API's name of the call: by its target header, or by what S3 is asked."""
    target = environ.get("HTTP_X_AMZ_TARGET")
    if target is not None:
        return str(target).rpartition(".")[2]
    method, query = environ["REQUEST_METHOD"], environ.get("QUERY_STRING", "")
    if "HTTP_X_AMZ_COPY_SOURCE" in environ:
        return "UploadPartCopy" if "partNumber" in query else "CopyObject"
    names = {part.partition("=")[0] for part in query.split("&")}
    for verb, word, name in _S3_OPERATIONS:
        if verb == method and (not word or word in names):
            return name
    return f"{method} {environ['PATH_INFO']}"
