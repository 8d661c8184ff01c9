"""An account in which CloudFormation bites."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from moto import mock_aws

from tests.emulator import cloudformation
from tests.emulator.small_stacks import Deployed


@pytest.fixture
def account() -> Iterator[Deployed]:
    cloudformation.install()
    with mock_aws():
        yield Deployed()
