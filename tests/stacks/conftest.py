"""The clusters that are shipped, synthesized once for all tests of a process, and a moto server."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest
from moto.server import ThreadedMotoServer

from tests.emulator import cloudformation
from tests.emulator.account import use_test_keys
from tests.stacks import synthesis


@pytest.fixture(scope="session")
def dev() -> synthesis.Synthesized:
    return synthesis.cluster("dev")


@pytest.fixture(scope="session")
def large() -> synthesis.Synthesized:
    return synthesis.cluster("p5-large")


@pytest.fixture(scope="session")
def isolated() -> synthesis.Synthesized:
    return synthesis.cluster("isolated")


@pytest.fixture(scope="session", params=[*synthesis.CLUSTERS, *synthesis.OTHERS])
def cluster(request: pytest.FixtureRequest) -> synthesis.Synthesized:
    """Every cluster that is shipped, and one of each kind that is not."""
    if request.param in synthesis.CLUSTERS:
        return synthesis.cluster(request.param)
    return synthesis.synthesize(synthesis.OTHERS[request.param])


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    use_test_keys(monkeypatch)


@pytest.fixture
def endpoint() -> Iterator[str]:
    """The address of a server of moto with an empty account."""
    cloudformation.install()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    # moto's state is the process's: other tests may have left some.
    urllib.request.urlopen(f"{address}/moto-api/reset", data=b"").close()
    yield address
    server.stop()
