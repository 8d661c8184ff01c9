"""A workplace for local jobs, which must be empty of processes afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.backends.local.backend import LocalBackend
from tests.backends.workplace import SHORT, Workplace


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    place = Workplace(tmp_path)
    yield place
    left = place.processes()
    for process in left:
        process.kill()
    assert left == [], "processes were left behind"


@pytest.fixture
def local(workplace: Workplace) -> Iterator[LocalBackend]:
    with LocalBackend(workplace.home, grace=SHORT) as local:
        yield local
