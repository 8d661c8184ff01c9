"""The clusters that are shipped, synthesized once for all tests of a process."""

from __future__ import annotations

import pytest

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
