"""The account that clusters are planned in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.emulator.account import EmulatedAccount, emulated_account


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedAccount]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with emulated_account() as made:
        yield made
