"""One real Slurm for all tests of this folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends.slurm.cluster import SlurmPlace
from tests.backends.slurm.mini_cluster import MiniCluster, mini_cluster, skip_without_slurm


@pytest.fixture
def short_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A cache with a short path, as a home has: in a long one ssh's connections are not kept."""
    with tempfile.TemporaryDirectory(prefix="s", dir="/tmp", ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("XDG_CACHE_HOME", folder)
        yield folder


@pytest.fixture(scope="session")
def running_slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    skip_without_slurm()
    # A short path: a socket's may have 107 characters.
    folder = tmp_path_factory.mktemp("slurm")
    with mini_cluster(folder) as cluster:
        yield cluster


@pytest.fixture
def slurm(running_slurm: MiniCluster) -> Iterator[MiniCluster]:
    """The cluster with all its nodes idle, before the test and after it."""
    running_slurm.ready()
    yield running_slurm
    # Not one after the other: the controller forgets jobs that have ended while somebody looks at them.
    running_slurm.call("scancel", "--user=root")


@pytest.fixture
def cluster(slurm: MiniCluster, tmp_path: Path) -> SlurmPlace:
    shared = slurm.shared / tmp_path.name
    shared.mkdir()
    return SlurmPlace(slurm, tmp_path, shared)
