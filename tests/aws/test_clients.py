"""The clients of a command: each made once, for its purpose, with the credentials of one session."""

from __future__ import annotations

import copy
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import UnknownServiceError

from launcher.account.questions.ask import BOUND_SECONDS
from launcher.aws.clients import BRISK, FOLLOWING, PATIENT, CallSettings, Clients, open_session
from launcher.aws.session import Caller, fetch_caller
from launcher.failure_modes.model import UnusableSession
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


def test_no_call_waits_for_more_than_ten_seconds_for_a_connection_or_a_minute_for_an_answer() -> None:
    for settings in (PATIENT, FOLLOWING):
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
    before = clients("sts", "us-west-2")
    sign_in(monkeypatch, "second")
    assert [key_of(each) for each in (before, clients("sqs", "us-west-2"))] == ["first", "first"]

    # Renewed ones have those of that moment.
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


KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
ROLE = "role_arn = arn:aws:iam::111122223333:role/training\n"
ECHO = f"credential_process = {sys.executable} -c"


NO_TOKEN = {"AWS_ROLE_ARN": ROLE.split()[2], "AWS_WEB_IDENTITY_TOKEN_FILE": "/nowhere/token"}
WRONG_VARIABLES = {
    "nonsense": {**KEYS, "AWS_DEFAULTS_MODE": "nonsense"},
    "notaurl": {**KEYS, "AWS_ENDPOINT_URL": "notaurl"},
    "AWS_SECRET_ACCESS_KEY": {"AWS_ACCESS_KEY_ID": "testing"},
    "/nowhere/token": NO_TOKEN,
}
"""What is said, by what is wrong."""


@pytest.mark.parametrize("says", WRONG_VARIABLES)
def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    for name, value in WRONG_VARIABLES[says].items():
        monkeypatch.setenv(name, value)

    assert_named(says)


WRONG_PROFILES = {
    "missing": f"{ROLE}source_profile = missing\n",
    "Nonsense": f"{ROLE}credential_source = Nonsense\n",
    "JSONDecodeError": f"{ECHO} print(chr(120))\n",
    "list": f"{ECHO} print([])\n",
    "/nowhere/program": "credential_process = /nowhere/program\n",
}


@pytest.mark.parametrize("says", WRONG_PROFILES)
def test_a_wrong_profile_is_named(
    aws_configuration: Path, monkeypatch: pytest.MonkeyPatch, says: str
) -> None:
    aws_configuration.write_text(f"[profile team]\n{WRONG_PROFILES[says]}")
    monkeypatch.setenv("AWS_PROFILE", "team")

    assert_named(says)


def test_a_region_that_cannot_be_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)

    assert_named("us west 2", region="us west 2")


def assert_named(says: str, region: str = "us-west-2") -> None:
    with pytest.raises(UnusableSession) as refused:
        fetch_caller(Clients()("sts", region))
    assert says in refused.value.message
    assert "network" not in refused.value.remedy
    assert "configuration" in f"{refused.value.message} {refused.value.remedy}"
    assert ".." not in refused.value.message
    assert refused.value.exit_code == 3


DATA = "botocore/data/"


@pytest.fixture
def looked_into(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders below botocore's data of which somebody lists the content, in this order."""
    folders: list[str] = []
    listdir = os.listdir

    def recorded(path: Any = ".") -> list[str]:
        _, found, folder = str(path).partition(DATA)
        if found:
            folders.append(folder)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", recorded)
    return folders


def test_a_client_and_its_paginators_look_into_their_own_services_folder_alone(
    looked_into: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A path of its own: what botocore's loader found on the usual ones is kept for all tests.
    monkeypatch.setenv("AWS_DATA_PATH", str(tmp_path))
    iam = Clients()("iam", "us-west-2")
    assert iam.can_paginate("simulate_principal_policy")
    assert iam.waiter_names
    assert {folder.partition("/")[0] for folder in looked_into if folder} == {"iam"}


def test_a_service_without_paginators_has_none() -> None:
    assert not Clients()("sts", "us-west-2").can_paginate("get_caller_identity")


def test_a_service_that_nobody_knows_is_said_to_be_unknown() -> None:
    with pytest.raises(UnknownServiceError, match="sagemakre"):
        open_session().client("sagemakre", region_name="us-west-2")


def test_the_users_own_folders_of_models_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DATA_PATH", f"{tmp_path / 'missing'}{os.pathsep}{tmp_path}")
    session = open_session()
    loader = session._session.get_component("data_loader")
    model = copy.deepcopy(loader.load_service_model("sts", "service-2"))
    newer = tmp_path / "sts" / "2099-01-01"
    newer.mkdir(parents=True)
    model["metadata"]["apiVersion"] = "2099-01-01"
    (newer / "service-2.json").write_text(json.dumps(model))
    assert (
        open_session().client("sts", region_name="us-west-2").meta.service_model.api_version == "2099-01-01"
    )
