"""An account without anything in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from moto import mock_aws

from tests.emulator import cloudformation
from tests.stacks.second_day.in_process import Account


@pytest.fixture
def account() -> Iterator[Account]:
    cloudformation.install()
    with mock_aws():
        yield Account()
