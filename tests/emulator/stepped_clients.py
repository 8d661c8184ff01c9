"""Clients of which every call passes through a function, which carries it out, fails it or ends its caller.

clients = SteppedClients()
clients.step = lambda call: call.fail(THROTTLED) if call.name == "s3.PutObject" else call.carry_out()
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from botocore.awsrequest import AWSPreparedRequest
from moto.core.models import botocore_stubber

from launcher.aws.clients import PATIENT, CallSettings, Clients
from launcher.failure_modes.model import Unreachable
from tests.emulator.faults import Fault, leave_alone, meet


@dataclass(frozen=True, slots=True)
class Call:
    """A call that is about to be made, by `service.Operation` as botocore names them.

    `carry_out` lets AWS do it, `fail` lets it meet a fault; either gives what the call is answered.
    `is_again` where the SDK makes it once more after a fault; `url` is where it goes to, `body` what is sent
    there, where it came over HTTP.
    """

    name: str
    carry_out: Callable[[], Any]
    fail: Callable[[Fault], Any]
    is_again: bool = False
    url: str = ""
    body: bytes = b""


Step = Callable[[Call], Any]


class SteppedClients(Clients):
    """Clients whose calls all pass through `step`; until it is set each is carried out."""

    def __init__(self) -> None:
        super().__init__()
        self.step: Step = lambda call: call.carry_out()

    def __call__(self, service: str, region: str | None, settings: CallSettings = PATIENT) -> Any:
        # A client that was throttled would pace its calls by the clock.
        client = super().__call__(service, region, replace(settings, paced=False))
        protocol = client.meta.service_model.protocol

        def send(request: AWSPreparedRequest, event_name: str, **_: Any) -> Any:
            def carry_out() -> Any:
                done = botocore_stubber(event_name, request)
                leave_alone(request)
                return done

            service, operation = event_name.split(".")[1:]
            tries = str(request.headers.get("amz-sdk-request", b"attempt=1;"))
            return self.step(
                Call(
                    f"{service}.{operation}",
                    carry_out,
                    lambda fault: meet(fault, request, event_name, protocol),
                    "attempt=1;" not in tries,
                    request.url.partition("?")[0],
                )
            )

        client.meta.events.register_first("before-send.*.*", send, unique_id="stepped")
        return client

    def do(self, name: str, work: Callable[[], None]) -> None:
        """Let something else than a call of these clients pass through `step` as a call of that name."""

        def fail(fault: Fault) -> None:
            if fault.executed:
                work()
            raise Unreachable(f"{name} met {fault.name}.", "Try again.")

        self.step(Call(name, work, fail))
