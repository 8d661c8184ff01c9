"""One run of a command in this process, with faults at its calls to AWS; nothing is waited for."""

from __future__ import annotations

import json
from collections import deque
from contextlib import chdir
from dataclasses import asdict, dataclass, field
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from moto.core.models import botocore_stubber

from launcher.aws.clients import open_session
from tests.emulator.batch import EmulatedQueue
from tests.emulator.faults import Fault, answered, leave_alone, meet
from tools.attack.calling import call_launch
from tools.attack.matrix.account import Attacked
from tools.attack.matrix.commands import Command
from tools.attack.matrix.faults import as_told_by
from tools.attack.matrix.virtual_time import VirtualClock, virtual_time


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a command: how it ended, what it printed, what it asked of AWS, what AWS then held."""

    exit_code: int
    printed: str
    seconds: float
    """Of virtual time until it ended; `seconds_of_threads` until the last of its threads did."""
    seconds_of_threads: float
    calls: list[str]
    """Each call as `service.Operation`, in the order in which they came."""
    created: list[str] = field(default_factory=list)
    stops: int = 0
    """Calls to stop a job that reached AWS."""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Attack:
    """A fault at a call: at the first one only, or at each one `for_good`."""

    call: str
    fault: Fault
    for_good: bool


def run(attacked: Attacked, command: Command, attack: Attack | None = None) -> Run:
    """Run the command to its end. Changes the account, so each run is given one of its own (a fork)."""
    clock, before = VirtualClock(), attacked.jobs
    wire = _Wire(attacked.queue, clock, attack)
    with (
        chdir(attacked.folder),
        virtual_time(clock),
        mock.patch("launcher.aws.clients.open_session", lambda: _Session(wire)),
    ):
        code, out, err = call_launch(command.words)
    return Run(
        int(code or 0),
        out + err,
        clock.now(),
        clock.furthest,
        list(wire.calls),
        [job for job in attacked.jobs if job not in before],
        wire.stops,
    )


class _Session:
    """boto3's session as the launcher opens it, whose clients meet the faults."""

    def __init__(self, wire: _Wire) -> None:
        self._session = open_session()
        self._wire = wire

    def client(self, service: str, **options: Any) -> Any:
        client = self._session.client(service, **options)
        self._wire.attach(client)
        return client


class _Wire:
    """Between the launcher's clients and moto: notes the calls, and lets some meet a fault."""

    def __init__(self, batch: EmulatedQueue, clock: VirtualClock, attack: Attack | None) -> None:
        self.calls: deque[str] = deque()
        self.stops = 0
        self._batch = batch
        self._clock = clock
        self._attack = attack
        self._met = False

    def attach(self, client: Any) -> None:
        protocol = client.meta.service_model.protocol
        read_timeout = client.meta.config.read_timeout

        def before_send(request: AWSPreparedRequest, event_name: str, **_: Any) -> AWSResponse | None:
            _, service, operation = event_name.split(".")
            call = f"{service}.{operation}"
            self.calls.append(call)
            fault = self._fault_of(call)
            if fault is None:
                return self._work(event_name, request)
            return meet(
                as_told_by(protocol, fault),
                request,
                event_name,
                protocol,
                work=self._work,
                wait=lambda seconds: self._clock.sleep(read_timeout if seconds is None else seconds),
            )

        client.meta.events.register_first("before-send.*.*", before_send)

    def _fault_of(self, call: str) -> Fault | None:
        if self._attack is None or call != self._attack.call or (self._met and not self._attack.for_good):
            return None
        self._met = True
        return self._attack.fault

    def _work(self, event_name: str, request: AWSPreparedRequest) -> AWSResponse | None:
        if "StopTrainingJob" in event_name or "TerminateServiceJob" in event_name:
            self.stops += 1
        if ".batch." in event_name:
            answer = self._batch.over_http(urlsplit(request.url).path, request.body)
            if answer is not None:
                status, document = answer
                return answered(request, status, json.dumps(document).encode(), {"x-amzn-requestid": "1"})
        answer_of_moto: AWSResponse | None = botocore_stubber(event_name, request)
        leave_alone(request)
        return answer_of_moto
