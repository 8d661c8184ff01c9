"""The dev cluster, synthesized once for all tests of a process."""

from __future__ import annotations

import pytest

from tests.stacks import synthesis


@pytest.fixture(scope="session")
def dev() -> synthesis.Synthesized:
    return synthesis.dev()
