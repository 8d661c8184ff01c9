"""Clients for many threads: each made once, with bounds that keep a call from hanging."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from launcher.aws.clients import ATTEMPTS, CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS, SharedClients
from launcher.aws.errors import UnusableSession


def test_all_threads_get_the_same_client() -> None:
    clients = SharedClients()
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: clients("sts", "us-west-2"), range(8)))

    assert len({id(each) for each in made}) == 1


def test_each_region_has_a_client_of_its_own() -> None:
    clients = SharedClients()

    assert [clients("sts", region).meta.region_name for region in ("us-west-2", "eu-west-1")] == [
        "us-west-2",
        "eu-west-1",
    ]


def test_a_call_is_bounded_and_tried_again() -> None:
    config = SharedClients()("sts", "us-west-2").meta.config

    assert (config.connect_timeout, config.read_timeout) == (CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS)
    assert config.retries == {"mode": "standard", "total_max_attempts": ATTEMPTS}


def test_a_profile_that_does_not_exist_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")

    with pytest.raises(UnusableSession, match="nobody"):
        SharedClients()("sts", "us-west-2")
