"""AWS that refuses, throttles, hangs or is not there: by the service and operation of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botocore.awsrequest import AWSResponse
from botocore.exceptions import EndpointConnectionError, NoCredentialsError

from launcher.account.clients import SharedClients

Fault = Callable[[Any], AWSResponse]


_CLIENTS = SharedClients()
"""Made once for all tests of a process, which takes most of a second."""

_CURRENT: list[FaultyClients] = []


class FaultyClients:
    """Clients of which some calls fail; `faults` has them by `service.Operation`, or `all`.

    The one that was made last is the one that works.

    `calls` lists what was asked, `service.Operation`, in no particular order.
    """

    def __init__(self, **faults: Fault) -> None:
        self.faults = {name.replace("__", "."): fault for name, fault in faults.items()}
        self.calls: list[str] = []
        _CURRENT[:] = [self]

    def __call__(self, service: str, region: str) -> Any:
        client = _CLIENTS(service, region)
        # One handler per client, which asks whoever was made last: the same id is not registered twice.
        client.meta.events.register_first("before-send.*.*", _send, unique_id="faults")
        return client

    def send(self, request: Any, event_name: str, **_: Any) -> AWSResponse | None:
        """The answer to a call; None leaves it to moto."""
        _, service, operation = event_name.split(".")
        self.calls.append(f"{service}.{operation}")
        fault = self.faults.get(f"{service}.{operation}") or self.faults.get("all")
        return fault(request) if fault else None


def _send(request: Any, event_name: str, **_: Any) -> AWSResponse | None:
    return _CURRENT[0].send(request, event_name)


def refuse(code: str = "AccessDenied", status: int = 403) -> Fault:
    """Answer with an error of AWS's, in the protocol of whoever asked."""

    def answer(request: Any) -> AWSResponse:
        if "x-amz-target" in {name.lower() for name in request.headers}:
            body = f'{{"__type": "{code}", "message": "not you"}}'
        elif "ec2." in request.url:
            body = (
                "<Response><Errors><Error>"
                f"<Code>{code}</Code><Message>not you</Message></Error></Errors></Response>"
            )
        elif "s3." in request.url:
            body = f"<Error><Code>{code}</Code><Message>not you</Message></Error>"
        else:
            body = (
                f"<ErrorResponse><Error><Code>{code}</Code><Message>not you</Message></Error></ErrorResponse>"
            )
        return AWSResponse(request.url, status, {}, _Body(body.encode()))

    return answer


def no_credentials(request: Any) -> AWSResponse:
    """What the SDK says without credentials."""
    raise NoCredentialsError


def unreachable(request: Any) -> AWSResponse:
    """No way to AWS."""
    raise EndpointConnectionError(endpoint_url=request.url)


class _Body:
    """The body of an answer, as botocore reads it."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, **_: Any) -> Any:
        yield self._content

    def read(self, *_: Any) -> bytes:
        return self._content
