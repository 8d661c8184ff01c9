"""The account that sessions ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.emulator.account import EmulatedAccount, emulated_account, use_test_keys


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedAccount]:
    use_test_keys(monkeypatch)
    with emulated_account() as made:
        yield made
