"""The descriptions of services that clients are made of."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import UnknownServiceError

from launcher.aws.clients import Clients, open_session

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
    model = session._session.get_component("data_loader").load_service_model("sts", "service-2")
    newer = tmp_path / "sts" / "2099-01-01"
    newer.mkdir(parents=True)
    model["metadata"]["apiVersion"] = "2099-01-01"
    (newer / "service-2.json").write_text(json.dumps(model))
    assert (
        open_session().client("sts", region_name="us-west-2").meta.service_model.api_version == "2099-01-01"
    )
