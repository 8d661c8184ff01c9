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
import statistics
import sys
import time
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DELAY_SECONDS = 1.0
RUNS = 3
BOUND = 1.5

# Another distribution brings a package `tests`; ours has none of its own, so it is named here.
sys.path.insert(0, str(ROOT))
sys.modules["tests"] = types.ModuleType("tests")
sys.modules["tests"].__path__ = [str(ROOT / "tests")]

from botocore.awsrequest import AWSResponse  # noqa: E402
from moto.core.models import botocore_stubber  # noqa: E402

from launcher.account.facts import AccountFacts, Unverified  # noqa: E402
from launcher.account.questions.gather import gather  # noqa: E402
from launcher.aws.clients import BRISK, CallSettings, Clients  # noqa: E402
from launcher.planning.request_view import RequestView  # noqa: E402
from launcher.session.account_checks import wanted_facts  # noqa: E402
from tests.emulator.account import REGION, EmulatedAccount, emulated_account  # noqa: E402


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
        return AWSResponse(request.url, status, headers, _Body(content))


class _Body:
    """The body of an answer, as botocore reads it."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, **_: Any) -> Any:
        """All of it, once."""
        yield self._content

    def read(self, *_: Any) -> bytes:
        """All of it."""
        return self._content


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


def main() -> int:
    """Measure, print the ratios, exit with 1 where the first is over the bound."""
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    with emulated_account() as account:
        clients = Replayed()
        for caller in (account.caller, None):
            seconds(account, clients, caller)  # records the answers, makes the clients
        clients.delay, clients.calls = DELAY_SECONDS, 0
        known = statistics.median(seconds(account, clients, account.caller) for _ in range(RUNS))
        calls = clients.calls // RUNS
        asked = statistics.median(seconds(account, clients, None) for _ in range(RUNS))
        clients.clients = Clients()
        cold = seconds(account, clients, account.caller)
    print(
        f"live facts: {calls} calls of {DELAY_SECONDS:g} s each in {known:.2f} s: "
        f"ratio {known / DELAY_SECONDS:.2f} (bound {BOUND}); "
        f"with STS asked first {asked / DELAY_SECONDS:.2f}, "
        f"with the clients to be made {cold / DELAY_SECONDS:.2f}"
    )
    return 0 if known / DELAY_SECONDS <= BOUND else 1


def _unverified(facts: AccountFacts) -> list[Unverified]:
    values = [getattr(facts, name) for name in AccountFacts.__slots__]
    flat = [each for value in values for each in (value.values() if isinstance(value, dict) else [value])]
    return [each for each in flat if isinstance(each, Unverified)]


if __name__ == "__main__":
    sys.exit(main())
