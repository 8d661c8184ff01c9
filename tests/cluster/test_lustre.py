"""Which Lustre file systems exist."""

from __future__ import annotations

import pytest

from launcher.cluster.lustre import (
    Deployment,
    capacity_problem,
    efa_problem,
    metadata_problem,
    storage_type,
    throughput_problem,
)


@pytest.mark.parametrize(
    ("deployment", "throughput", "capacity", "exists"),
    [
        ("SCRATCH_1", None, 2400, True),
        ("SCRATCH_1", None, 3600, True),
        ("SCRATCH_1", None, 4800, False),
        ("SCRATCH_2", None, 1200, True),
        ("SCRATCH_2", None, 3600, False),
        ("SCRATCH_2", None, 0, False),
        ("SCRATCH_2", None, -2400, False),
        ("PERSISTENT_1", 50, 1200, True),
        ("PERSISTENT_1", 12, 6000, True),
        ("PERSISTENT_1", 12, 1800, False),
        ("PERSISTENT_1", 40, 1800, True),
        ("PERSISTENT_1", 40, 1200, False),
        ("PERSISTENT_2", 1000, 7200, True),
        ("PERSISTENT_2", 1000, 1201, False),
    ],
)
def test_capacities_of_lustre(
    deployment: Deployment, throughput: int | None, capacity: int, exists: bool
) -> None:
    assert (capacity_problem(deployment, throughput, capacity) is None) is exists


@pytest.mark.parametrize(
    ("deployment", "throughput", "exists"),
    [
        ("SCRATCH_1", None, True),
        ("SCRATCH_2", 200, False),
        ("PERSISTENT_1", 200, True),
        ("PERSISTENT_1", 40, True),
        ("PERSISTENT_1", None, False),
        ("PERSISTENT_2", 125, True),
        ("PERSISTENT_2", 50, False),
    ],
)
def test_throughputs_of_lustre(deployment: Deployment, throughput: int | None, exists: bool) -> None:
    assert (throughput_problem(deployment, throughput) is None) is exists


def test_only_the_slowest_persistent_1_is_on_disks() -> None:
    assert storage_type("PERSISTENT_1", 40) == "HDD"
    assert storage_type("PERSISTENT_1", 50) == storage_type("SCRATCH_2", None) == "SSD"


@pytest.mark.parametrize(
    ("iops", "exists"),
    [(None, True), (1500, True), (6000, True), (9000, False), (12000, True), (192000, True), (204000, False)],
)
def test_metadata_iops(iops: int | None, exists: bool) -> None:
    assert (metadata_problem("PERSISTENT_2", iops) is None) is exists


@pytest.mark.parametrize(("throughput", "step"), [(125, 38400), (250, 19200), (500, 9600), (1000, 4800)])
def test_capacities_of_file_systems_with_efa(throughput: int, step: int) -> None:
    for capacity, exists in ((step, True), (3 * step, True), (step // 2, False)):
        problem = efa_problem("PERSISTENT_2", throughput, capacity, metadata=True)
        assert (problem is None) is exists
