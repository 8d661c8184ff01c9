"""Faults of AWS and of the network, for emulated AWS.

In one process, `inject` gives a boto3 client faults for the next calls of an operation:

    faults = inject(client, "CreateTrainingJob", LOST, THROTTLED)   # then everything works again
    ...
    assert faults.calls == 3

End to end, `faulty_server` runs moto's server on loopback for launchers in other processes; its rules
are the same faults, by operation, and a `Gate` that holds a call while a test kills who made it:

    with faulty_server() as server:
        server.rule("CreateTrainingJob", LOST)
        gate = server.hold("PutObject", answered=False)

A fault is told once, as `Fault`, and carried out in both places. boto3's clients repeat throttling, 5xx
answers, resets and timeouts; the rest surfaces at once. `no_backoff` takes the waiting out of it.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import botocore.endpoint
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError
from moto.core.models import botocore_stubber
from moto.moto_api._internal.models import moto_api_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

_LONGEST_HOLD_SECONDS = 60
_NOWHERE = "http://nowhere.invalid/"


@dataclass(frozen=True, slots=True)
class Fault:
    """One way in which a call goes wrong.

    With a `status` it is an answer of AWS: the error `code` with the `message`, or a body of nothing. Else
    the connection ends (`reset`) or nothing comes (`hang`); `executed` tells whether AWS had done what
    was asked by then.
    """

    name: str
    status: int | None = None
    code: str = ""
    message: str = ""
    hang: bool = False
    executed: bool = False


THROTTLED = Fault("throttled", 400, "ThrottlingException", "Rate exceeded")
SLOW_DOWN = Fault("slow down", 503, "SlowDown", "Please reduce your request rate.")
LIMIT = Fault("limit", 400, "ResourceLimitExceeded", "The account-level service limit is 0 Instances")
EXPIRED = Fault("expired token", 400, "ExpiredTokenException", "The security token is expired")
EXPIRED_S3 = Fault("expired token", 400, "ExpiredToken", "The provided token has expired.")
DENIED = Fault("denied", 400, "AccessDeniedException", "User is not authorized to perform this action")
DENIED_S3 = Fault("denied", 403, "AccessDenied", "User is not authorized to perform this action")
SKEWED = Fault("clock skew", 403, "InvalidSignatureException", "Signature expired: 20260101T000000Z")
SKEWED_S3 = Fault("clock skew", 403, "RequestTimeTooSkewed", "The difference is too large.")
INTERNAL = Fault("internal", 500, "InternalFailure", "An internal error has occurred")
EMPTY = Fault("empty 200", 200)
EMPTY_DONE = Fault("empty 200 after the work", 200, executed=True)
RESET = Fault("reset")
LOST = Fault("lost response", executed=True)
HANG = Fault("hang", hang=True)
LOST_IN_TIME = Fault("hang after the work", hang=True, executed=True)


@dataclass(slots=True)
class Faults:
    """The faults that an operation still has ahead; None among them lets a call through."""

    ahead: deque[Fault | None]
    calls: int = 0

    def next(self) -> Fault | None:
        """The fault of this call, if any."""
        self.calls += 1
        return self.ahead.popleft() if self.ahead else None


def inject(client: Any, operation: str, *faults: Fault | None) -> Faults:
    """Let the client's next calls of an operation (the API's name) meet the faults, one each.

    Retries count as calls. Use inside `mock_aws`.
    """
    state = Faults(deque(faults))
    service = client.meta.service_model.service_id.hyphenize()

    def before_send(request: AWSPreparedRequest, event_name: str, **_: Any) -> AWSResponse | None:
        fault = state.next()
        if fault is None:
            return None
        if fault.executed:
            botocore_stubber(event_name, request)
        if fault.status is not None:
            # botocore asks every handler and takes the first answer: moto, asked next, must not act.
            request.url = _NOWHERE
            return AWSResponse(_NOWHERE, fault.status, {}, _Raw(_body(fault, service == "s3")))
        if fault.hang:
            raise ReadTimeoutError(endpoint_url=request.url)
        raise ConnectionClosedError(endpoint_url=request.url)

    client.meta.events.register_first(f"before-send.{service}.{operation}", before_send)
    return state


@contextmanager
def no_backoff() -> Iterator[list[float]]:
    """Let botocore retry without waiting; gives the seconds that it would have waited."""
    waits: list[float] = []
    with mock.patch.object(botocore.endpoint, "time", mock.Mock(sleep=waits.append)):
        yield waits


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
            return [_body(fault, environ.get("HTTP_X_AMZ_TARGET") is None)]
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


class _Raw:
    """The part of urllib3's response that botocore reads."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self._body
        self._body = b""

    def read(self, *_: Any) -> bytes:
        body, self._body = self._body, b""
        return body


def _body(fault: Fault, is_s3: bool) -> bytes:
    if not fault.code:
        return b""
    if is_s3:
        return f"<Error><Code>{fault.code}</Code><Message>{fault.message}</Message></Error>".encode()
    return json.dumps({"__type": fault.code, "message": fault.message}).encode()


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
