"""How long the live stage takes to gather its facts against its slowest call.

Bound: one and a half times, where every call takes the same time: the hardest case, as whatever waits
for an answer then takes twice the slowest call. Printed besides, without a bound: the stage where STS
must first say who asks, and where the clients of eight services are not yet made, which is work for
this machine and not for the network (`Clients` makes them while other calls are under way).

AWS is moto's answers, recorded before and replayed after a delay, so that moto's own work does not
count. All in one process, and on no network.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from botocore.awsrequest import AWSResponse
from moto.core.models import botocore_stubber

from launcher.account.facts import AccountFacts, Unverified
from launcher.account.questions.gather import gather
from launcher.aws.clients import BRISK, CallSettings, Clients
from launcher.planning.request_view import RequestView
from launcher.session.account_checks import wanted_facts
from tests.emulator.account import REGION, EmulatedAccount, emulated_account
from tests.emulator.faults import answered
from tools.benchmarks.measuring import Figure

DELAY_SECONDS = 1.0
RUNS = 3
BOUND = 1.5


class Replayed(Clients):
    """Clients whose every call takes the same time, and gets the answer that moto gave before."""

    def __init__(self) -> None:
        super().__init__()
        self.clients = Clients()
        self.delay = 0.0
        self.calls = 0
        self._answers: dict[tuple[str, str, str], tuple[int, dict[str, str], bytes]] = {}
        self._watched: set[int] = set()

    def __call__(self, service: str, region: str | None, settings: CallSettings = BRISK) -> Any:
        """The client of a service."""
        client = self.clients(service, region, settings)
        if id(client) not in self._watched:
            self._watched.add(id(client))
            client.meta.events.register_first("before-send.*.*", self._answer)
        return client

    def _answer(self, request: Any, event_name: str, **_: Any) -> AWSResponse:
        key = (request.url, event_name, str(request.body))
        if key not in self._answers:
            answer = botocore_stubber(event_name, request)
            self._answers[key] = (answer.status_code, dict(answer.headers), answer.content)
        self.calls += 1
        time.sleep(self.delay)
        status, headers, content = self._answers[key]
        return answered(request, status, content, headers)


def seconds(account: EmulatedAccount, clients: Clients, caller: str | None) -> float:
    """Wall time of one gathering, in which every fact was had.

    Raises:
        AssertionError: a fact could not be had, so the time says nothing.
    """
    wanted = wanted_facts(RequestView(account.request()), REGION)
    start = time.perf_counter()
    facts = gather(clients, wanted, caller=caller)
    taken = time.perf_counter() - start
    assert not _unverified(facts), _unverified(facts)
    return taken


def figures(folder: Path) -> Iterator[Figure]:
    """The ratios."""
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    with emulated_account() as account:
        clients = Replayed()
        for caller in (account.caller, None):
            seconds(account, clients, caller)  # records the answers, makes the clients
        clients.delay, clients.calls = DELAY_SECONDS, 0
        known = median(seconds(account, clients, account.caller) for _ in range(RUNS))
        calls = f"{clients.calls // RUNS} calls of {DELAY_SECONDS:g} s each"
        asked = median(seconds(account, clients, None) for _ in range(RUNS))
        clients.clients = Clients()
        cold = seconds(account, clients, account.caller)
    yield Figure("live facts against the slowest call", known / DELAY_SECONDS, BOUND, "", calls)
    yield Figure("with STS asked first", asked / DELAY_SECONDS)
    yield Figure("with the clients to be made", cold / DELAY_SECONDS)


def _unverified(facts: AccountFacts) -> list[Unverified]:
    values = [getattr(facts, name) for name in AccountFacts.__slots__]
    flat = [each for value in values for each in (value.values() if isinstance(value, dict) else [value])]
    return [each for each in flat if isinstance(each, Unverified)]
