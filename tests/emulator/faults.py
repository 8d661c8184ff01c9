"""Faults of AWS and of the network, and how a client in this process meets them.

A fault is told once, as `Fault`. `inject` gives a boto3 client faults for the next calls of an operation:

    faults = inject(client, "CreateTrainingJob", LOST, THROTTLED)   # then everything works again
    ...
    assert faults.calls == 3

Clients that are made by the code under test meet them by `tests.emulator.faulty_clients`, launchers in
other processes by `tests.emulator.faulty_server`. boto3's clients repeat throttling, 5xx answers, resets
and timeouts; the rest surfaces at once. `no_backoff` takes the waiting out of it.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import botocore.endpoint
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError
from moto.core.models import botocore_stubber

_NOWHERE = "http://nowhere.invalid/"
_HEAD_BYTES = 300
"""About as many as the status line and the headers of an answer of AWS have."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One way in which a call goes wrong.

    With a `status` it is an answer: AWS's error `code` with the `message`, or the `body` whatever was asked,
    with the `headers`.
    Else the connection ends (`reset`) or nothing comes (`hang`); `executed` tells whether AWS had done what
    was asked by then. A `drip` is the right answer, a byte every half second.
    """

    name: str
    status: int | None = None
    code: str = ""
    message: str = ""
    body: bytes = b""
    hang: bool = False
    executed: bool = False
    headers: dict[str, str] = field(default_factory=dict, hash=False)
    drip: bool = False


THROTTLED = Fault("throttled", 400, "ThrottlingException", "Rate exceeded")
SLOW_DOWN = Fault("slow down", 503, "SlowDown", "Please reduce your request rate.")
LIMIT = Fault("limit", 400, "ResourceLimitExceeded", "The account-level service limit is 0 Instances")
EXPIRED = Fault("expired token", 400, "ExpiredTokenException", "The security token is expired")
EXPIRED_S3 = Fault("expired token", 400, "ExpiredToken", "The provided token has expired.")
DENIED = Fault("denied", 400, "AccessDeniedException", "User is not authorized to perform this action")
DENIED_S3 = Fault("denied", 403, "AccessDenied", "User is not authorized to perform this action")
SKEWED = Fault("clock skew", 403, "InvalidSignatureException", "Signature expired: 20260101T000000Z")
SKEWED_S3 = Fault("clock skew", 403, "RequestTimeTooSkewed", "The difference is too large.")
CONFLICT = Fault("two at once", 409, "ConditionalRequestConflict", "A conflicting operation occurred.")
INTERNAL = Fault("internal", 500, "InternalFailure", "An internal error has occurred")
EMPTY = Fault("empty 200", 200)
EMPTY_DONE = Fault("empty 200 after the work", 200, executed=True)
PORTAL = Fault("portal", 200, body=b"<!DOCTYPE html><html><body>Sign in<br></body>")
PORTAL_XHTML = Fault("well-formed portal", 200, body=b"<html><body><p>Sign in</p></body></html>")
CUT_JSON = Fault("cut JSON", 200, body=b'{"TrainingJobName": "dig')
CUT_XML = Fault("cut XML", 200, body=b"<?xml version='1.0'?><ListBucketResult><Name>te")
BAD_GZIP = Fault("bad gzip", 200, body=b"\x1f\x8b\x08\x00\xff\xfe\x00garbage\xc3")
BAD_GZIP_DONE = replace(BAD_GZIP, name="bad gzip after the work", executed=True)
OTHER_JSON = Fault("other JSON", 200, body=b'{"status": "ok"}')
NO_OBJECT = Fault("JSON that is no object", 200, body=b'["ok"]')
ODD = (EMPTY, PORTAL, PORTAL_XHTML, CUT_JSON, CUT_XML, BAD_GZIP, OTHER_JSON, NO_OBJECT)
"""Answers that AWS does not give: of something between here and AWS, or cut on their way."""

PAGE_500 = Fault("page of a failing service", 500, body=b"<!DOCTYPE html><html><body>Oops<br></body></html>")
PAGE_403 = Fault("page that forbids", 403, body=b"<!DOCTYPE html><html><body>Blocked<br></body></html>")
PAGE_404 = Fault("page that is not found", 404, body=b"<!DOCTYPE html><html><body>Gone<br></body></html>")
REDIRECT = Fault(
    "redirect", 302, body=b"<html>Moved<br></html>", headers={"Location": "http://portal.invalid/login"}
)
RESET = Fault("reset")
LOST = Fault("lost response", executed=True)
HANG = Fault("hang", hang=True)
LOST_IN_TIME = Fault("hang after the work", hang=True, executed=True)
DRIP = Fault("drip", drip=True, executed=True)

SECONDS_A_BYTE = 0.5
"""Of a drip."""

Work = Callable[[str, AWSPreparedRequest], AWSResponse | None]
"""What carries a call out, given botocore's name of the event and the request: moto."""


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
    model = client.meta.service_model

    def before_send(request: AWSPreparedRequest, event_name: str, **_: Any) -> AWSResponse | None:
        fault = state.next()
        return None if fault is None else meet(fault, request, event_name, model.protocol)

    client.meta.events.register_first(f"before-send.{model.service_id.hyphenize()}.{operation}", before_send)
    return state


def meet(
    fault: Fault,
    request: AWSPreparedRequest,
    event_name: str,
    protocol: str,
    *,
    work: Work = botocore_stubber,
    wait: Callable[[float | None], None] | None = None,
) -> AWSResponse:
    """What a call that botocore is about to send gets: the fault's answer, or the error of its connection.

    `wait` is called with the seconds that a drip takes, and with None for a hang: until the caller's own
    time-out. Without it no time passes.
    """
    url = request.url
    done = work(event_name, request) if fault.executed else None
    if fault.drip and done is not None:
        if wait is not None:
            wait(SECONDS_A_BYTE * (_HEAD_BYTES + len(done.content)))
        leave_alone(request)
        return done
    if fault.status is not None:
        return answered(request, fault.status, body_of(fault, protocol), fault.headers)
    if fault.hang:
        if wait is not None:
            wait(None)
        raise ReadTimeoutError(endpoint_url=url)
    raise ConnectionClosedError(endpoint_url=url)


def answered(
    request: AWSPreparedRequest, status: int, body: bytes, headers: dict[str, str] | None = None
) -> AWSResponse:
    """An answer to a call that moto is not to carry out."""
    leave_alone(request)
    return AWSResponse(_NOWHERE, status, headers or {}, _Raw(body))


def leave_alone(request: AWSPreparedRequest) -> None:
    """Keep moto from acting: botocore asks every handler, and takes the first answer."""
    request.url = _NOWHERE


def body_of(fault: Fault, protocol: str) -> bytes:
    """The body of a fault's answer, in botocore's name of a protocol: `json`, `rest-xml`, `query`, `ec2`."""
    if not fault.code:
        return fault.body
    error = f"<Error><Code>{fault.code}</Code><Message>{fault.message}</Message></Error>"
    match protocol:
        case "rest-xml":
            text = error
        case "query":
            text = f"<ErrorResponse>{error}</ErrorResponse>"
        case "ec2":
            text = f"<Response><Errors>{error}</Errors></Response>"
        case _:
            text = json.dumps({"__type": fault.code, "message": fault.message})
    return text.encode()


@contextmanager
def no_backoff() -> Iterator[list[float]]:
    """Let botocore retry without waiting; gives the seconds that it would have waited."""
    waits: list[float] = []
    with mock.patch.object(botocore.endpoint, "time", mock.Mock(sleep=waits.append)):
        yield waits


class _Raw:
    """The part of urllib3's response that botocore reads."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()

    def read(self, *_: Any) -> bytes:
        body, self._body = self._body, b""
        return body
