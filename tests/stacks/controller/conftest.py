"""The managed stack's resources, and what they make of an emulated account."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.emulator.account import use_test_keys
from tests.emulator.deployed_controller import DeployedController, deployed_controller
from tests.stacks import synthesis


@pytest.fixture(scope="module")
def managed() -> dict[str, Any]:
    """The resources of the managed stack, by their types."""
    found: dict[str, Any] = {}
    template = synthesis.synthesize(synthesis.OTHERS["everything"]).template("managed")
    for each in template["Resources"].values():
        found.setdefault(each["Type"], []).append(each["Properties"])
    return found


@pytest.fixture
def deployed(
    managed: dict[str, Any],
    write_job: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[DeployedController]:
    use_test_keys(monkeypatch)
    (rule,) = managed["AWS::Events::Rule"]
    with deployed_controller(rule["EventPattern"], write_job, tmp_path) as deployed:
        yield deployed
