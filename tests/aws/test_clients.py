"""The clients of a command: each made once, for its purpose, with the credentials of one session."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from launcher.account.questions.asking import BOUND_SECONDS
from launcher.aws.clients import BRISK, FOLLOWING, PATIENT, CallSettings, Clients
from launcher.aws.errors import UnusableSession
from launcher.aws.session import Caller
from tests.emulator.account import EmulatedAccount, emulated_account
from tests.emulator.faulty_clients import FaultyClients


def test_all_threads_get_the_same_client() -> None:
    clients = Clients()
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: clients("sts", "us-west-2"), range(8)))

    assert len({id(each) for each in made}) == 1


def test_each_region_has_a_client_of_its_own() -> None:
    clients = Clients()

    assert [clients("sts", region).meta.region_name for region in ("us-west-2", "eu-west-1")] == [
        "us-west-2",
        "eu-west-1",
    ]


@pytest.mark.parametrize(
    ("settings", "mode"), [(PATIENT, "standard"), (BRISK, "standard"), (FOLLOWING, "adaptive")]
)
def test_each_purpose_has_a_client_that_calls_as_it_says(settings: CallSettings, mode: str) -> None:
    clients = Clients()
    config = clients("sts", "us-west-2", settings).meta.config

    assert (config.connect_timeout, config.read_timeout) == (settings.connect_timeout, settings.read_timeout)
    assert config.retries == {"mode": mode, "total_max_attempts": settings.attempts}
    assert config.max_pool_connections == settings.connections


@pytest.mark.parametrize("settings", [PATIENT, FOLLOWING])
def test_no_call_waits_for_more_than_ten_seconds_for_a_connection_or_a_minute_for_an_answer(
    settings: CallSettings,
) -> None:
    assert settings.connect_timeout <= 10
    assert settings.read_timeout <= 60
    assert settings.attempts > 1


def test_a_brisk_call_that_hangs_once_is_tried_again_before_its_question_is_cut() -> None:
    assert BRISK.connect_timeout < BRISK.read_timeout
    assert BRISK.connect_timeout + BRISK.read_timeout <= BOUND_SECONDS
    assert BRISK.attempts > 1


def test_all_clients_have_the_credentials_that_one_session_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sign_in(monkeypatch, "first")
    clients = Clients()
    keys = [key_of(clients("sts", "us-west-2"))]
    sign_in(monkeypatch, "second")
    keys.append(key_of(clients("sqs", "us-west-2")))

    assert keys == ["first", "first"]


def test_renewed_clients_have_the_credentials_of_that_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    sign_in(monkeypatch, "first")
    clients = Clients()
    before = clients("sts", "us-west-2")
    sign_in(monkeypatch, "second")
    clients.renew()

    assert (key_of(before), key_of(clients("sts", "us-west-2"))) == ("first", "second")


def test_the_caller_is_asked_for_once_until_the_credentials_are_renewed(
    account: EmulatedAccount,
) -> None:
    clients = FaultyClients()
    expected = Caller("123456789012", account.caller)

    assert [clients.caller("us-west-2") for _ in range(2)] == [expected, expected]
    assert clients.calls == ["sts.GetCallerIdentity"]
    clients.renew()
    assert clients.caller("us-west-2") == expected
    assert len(clients.calls) == 2


def test_a_profile_that_does_not_exist_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")

    with pytest.raises(UnusableSession, match="nobody"):
        Clients()("sts", "us-west-2")


@pytest.fixture
def account() -> Any:
    with emulated_account() as made:
        yield made


def sign_in(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")


def key_of(client: Any) -> str:
    return str(client._request_signer._credentials.access_key)
