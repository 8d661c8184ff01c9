"""The account's clients, of which some calls fail: what the live stage asks, in threads of its own.

clients = FaultyClients(ec2__DescribeSubnets=DENIED)            # always; `all` means every call
clients.rule("iam.SimulatePrincipalPolicy", DENIED)          # the next call, then it works again
gather(clients, ...)
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from launcher.aws.clients import BRISK, CallSettings, Clients
from tests.emulator.faults import Fault, Faults, meet

_CLIENTS = Clients()
"""Made once for all tests of a process, which takes most of a second."""

_CURRENT: list[FaultyClients] = []


class FaultyClients(Clients):
    """Clients of which some calls fail, by `service.Operation` (in keywords `service__Operation`).

    An exception in place of a fault is raised in the SDK, as where there are no credentials. The clients
    that were made last are those that work. `calls` lists what was asked, in no particular order.
    """

    def __init__(self, **always: Fault | Exception) -> None:
        super().__init__()
        self.calls: list[str] = []
        self._always = {name.replace("__", "."): fault for name, fault in always.items()}
        self._rules: dict[str, Faults] = {}
        _CURRENT[:] = [self]

    def rule(self, call: str, *faults: Fault | None) -> Faults:
        """Let the next of these calls meet the faults, one each; retries count."""
        self._rules[call] = Faults(deque(faults))
        return self._rules[call]

    def __call__(self, service: str, region: str | None, settings: CallSettings = BRISK) -> Any:
        client = _CLIENTS(service, region, settings)
        # One handler per client, which asks whoever was made last: the same id is not registered twice.
        handler = partial(_send, client.meta.service_model.protocol)
        client.meta.events.register_first("before-send.*.*", handler, unique_id="faults")
        return client

    def fault(self, call: str) -> Fault | Exception | None:
        """What a call meets; None leaves it to moto."""
        self.calls.append(call)
        ahead = self._rules[call].next() if call in self._rules else None
        return ahead or self._always.get(call) or self._always.get("all")


def _send(protocol: str, request: AWSPreparedRequest, event_name: str, **_: Any) -> AWSResponse | None:
    _, service, operation = event_name.split(".")
    fault = _CURRENT[0].fault(f"{service}.{operation}")
    if isinstance(fault, Exception):
        raise fault
    return None if fault is None else meet(fault, request, event_name, protocol)
