"""AWS with faults for launchers in other processes: moto's server on loopback, with rules.

The rules are the faults of `tests.emulator.faults`, by operation, and a `Gate` that holds a call while a
test kills who made it:

    with faulty_server() as server:
        server.rule("CreateTrainingJob", LOST)
        gate = server.hold("PutObject", answered=False)

A rule for `all` is met by every call that has none of its own. Where the server is told to take its time, a
drip and a hang last as long as they do in earnest.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from moto.moto_api._internal.models import moto_api_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

from tests.emulator.batch import OPERATIONS, EmulatedQueue
from tests.emulator.faults import SECONDS_A_BYTE, Fault, Faults, body_of
from tests.emulator.stepped_clients import Call, Step

_LONGEST_HOLD_SECONDS = 60
_LONGEST_HANG_SECONDS = 600


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
    """moto's server with rules; `calls` holds the operations in the order in which they came.

    `on_call` is told of each of them as it comes, with the access key of who calls. A `queue` answers what
    AWS Batch is asked. All calls with an access key of `steps` pass through its function, as those of
    SteppedClients do.
    """

    def __init__(self, *, in_earnest: bool = False) -> None:
        self.calls: list[str] = []
        self.on_call: Callable[[str, str], None] = lambda operation, key: None
        self.queue: EmulatedQueue | None = None
        self.steps: dict[str, Step] = {}
        self._in_earnest = in_earnest
        self.url = ""
        self._application = DomainDispatcherApplication(create_backend_app)
        self._rules: dict[str, Faults] = {}
        self._gates: list[Gate] = []
        self._waiting: dict[str, Gate] = {}
        self._closing = threading.Event()

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
        """Release every call that is held, and end those that hang."""
        self._closing.set()
        for gate in self._gates:
            gate.release()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """The WSGI application."""
        key, service = _signed_by(environ)
        step = self.steps.get(key)
        if step is not None:
            return self._pass_through(step, service, environ, start_response)
        operation = _operation(environ)
        self.calls.append(operation)
        self.on_call(operation, key)
        gate = self._waiting.pop(operation, None)
        if gate is not None and not gate.answered:
            gate.hold()
        rule = self._rules.get(operation, self._rules.get("all"))
        fault = rule.next() if rule is not None else None
        if fault is not None:
            return self._fail(fault, environ, start_response)
        answer = self._work(environ, start_response)
        if gate is not None and gate.answered:
            answer = list(answer)
            gate.hold()
        return answer

    def _pass_through(
        self, step: Step, service: str, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = BytesIO(body)
        operation = _ACTION.search(body) if environ.get("CONTENT_TYPE", "").startswith(_FORM) else None
        name = operation[1].decode() if operation else _operation(environ)
        call = Call(
            f"{_EVENT_NAMES.get(service, service)}.{name}",
            lambda: list(self._work(environ, start_response)),
            lambda fault: self._fail(fault, environ, start_response),
            "attempt=1" not in environ.get("HTTP_AMZ_SDK_REQUEST", "attempt=1"),
            environ["PATH_INFO"],
            body,
        )
        answer: Iterable[bytes] = step(call)
        return answer

    def _work(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if self.queue is not None and environ["PATH_INFO"].endswith(("servicejob", "servicejobs")):
            body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            answered = self.queue.over_http(environ["PATH_INFO"], body)
            if answered is not None:
                status, document = answered
                start_response(f"{status} answered", [("Content-Type", "application/json")])
                return [json.dumps(document).encode()]
        answer: Iterable[bytes] = self._application(environ, start_response)
        return answer

    def _fail(
        self, fault: Fault, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        if fault.drip:
            return _drip(self._work(environ, start_response))
        if fault.executed:
            list(self._work(environ, lambda *_: lambda data: None))
        if fault.hang and self._in_earnest:
            self._closing.wait(_LONGEST_HANG_SECONDS)
        if fault.status is not None:
            start_response(f"{fault.status} {fault.name}", [("Content-Type", "text/plain")])
            return [body_of(fault, _protocol(environ))]
        # A connection that hangs would be waited for: cut here, it is the same to the caller's retry.
        connection: socket.socket = environ["werkzeug.socket"]
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        raise ConnectionAbortedError(fault.name)


def _drip(answer: Iterable[bytes]) -> Iterator[bytes]:
    """The answer, a byte at a time."""
    for byte in b"".join(answer):
        time.sleep(SECONDS_A_BYTE)
        yield bytes((byte,))


class _SilentHandler(WSGIRequestHandler):
    """Prints no line for each request."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


@contextmanager
def faulty_server(*, in_earnest: bool = False) -> Iterator[FaultyServer]:
    """moto's server on a free port of loopback, with rules; its state is this process's moto, emptied.

    With `in_earnest` a call that hangs is not answered for minutes, where else its connection is cut.
    """
    moto_api_backend.reset()
    server = FaultyServer(in_earnest=in_earnest)
    listening = make_server("127.0.0.1", 0, server, threaded=True, request_handler=_SilentHandler)
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

_CREDENTIAL = re.compile(r"Credential=([^/]+)/[^/]+/[^/]+/([^/]+)/")
_ACTION = re.compile(rb"(?:^|&)Action=(\w+)")
_FORM = "application/x-www-form-urlencoded"
_EVENT_NAMES = {"logs": "cloudwatch-logs"}
"""botocore's names of the services that are signed for under others."""


def _signed_by(environ: dict[str, Any]) -> tuple[str, str]:
    """The access key that a call is signed with, and for which service; empty where it is not signed."""
    found = _CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", ""))
    return (found[1], found[2]) if found else ("", "")


def _protocol(environ: dict[str, Any]) -> str:
    """botocore's name of the protocol of a call."""
    kind = environ.get("CONTENT_TYPE", "")
    if "HTTP_X_AMZ_TARGET" in environ or kind.startswith("application/json"):
        return "json"
    return "query" if kind.startswith(_FORM) else "rest-xml"


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
    path = environ["PATH_INFO"]
    if method == "POST" and path.startswith("/schedules/"):
        return "CreateSchedule"
    return OPERATIONS.get(path, f"{method} {path}")
