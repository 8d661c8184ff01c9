"""A file system that exists is named by its id, or in full, and by nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.cluster.files import ClusterFileError, load_cluster_file
from launcher.cluster.specification import ClusterSpec

ID = "fs-0123456789abcdef0"
PLACE = "subnet_id: subnet-0123456789abcdef0, security_group_id: sg-0123456789abcdef0"
CLUSTER = """\
name: dev
region: us-west-2
availability_zones: [us-west-2a]
hosts: [{instance_type: ml.p4d.24xlarge, count: 2}]
vpc: {cidr: 10.0.0.0/20}
"""


def load(lustre: str, folder: Path) -> ClusterSpec:
    path = folder / "dev.yaml"
    path.write_text(f"{CLUSTER}lustre: {{{lustre}}}\n")
    return load_cluster_file(path)


def in_full(zone: str) -> str:
    return f"existing: {{id: {ID}, mount_name: abcdefgh, availability_zone: {zone}, {PLACE}}}"


def test_the_id_is_enough(tmp_path: Path) -> None:
    lustre = load(f"existing: {ID}", tmp_path).lustre

    assert lustre is not None and lustre.existing is not None
    assert (lustre.existing.id, lustre.existing.to_be_looked_up) == (ID, True)


def test_in_full_nothing_is_looked_up(tmp_path: Path) -> None:
    lustre = load(in_full("us-west-2a"), tmp_path).lustre

    assert lustre is not None and lustre.existing is not None
    assert not lustre.existing.to_be_looked_up


@pytest.mark.parametrize(
    ("lustre", "told"),
    [
        (f"existing: {ID}, capacity_gib: 1200", "`lustre.capacity_gib`: fs-0123456789abcdef0 exists"),
        (f"existing: {ID}, deployment: SCRATCH_2", "`lustre.deployment`: fs-0123456789abcdef0 exists"),
        (f"existing: {ID}, compression: NONE", "`lustre.compression`: fs-0123456789abcdef0 exists"),
        (f"existing: {{id: {ID}, mount_name: abc}}", "subnet_id, availability_zone, security_group_id miss"),
        ("existing: vol-0123456789abcdef0", "`lustre.existing.id`: 'vol-0123456789abcdef0' does not have"),
        (in_full("us-west-2b"), "FSX002 `lustre.existing.availability_zone`: fs-0123456789abcdef0 is in us"),
        ("capacity_gib: 1200", "`lustre.deployment`: is missing"),
        ("deployment: SCRATCH_2", "`lustre.capacity_gib`: is missing"),
    ],
)
def test_what_does_not_go_with_it_is_refused(lustre: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterFileError) as refused:
        load(lustre, tmp_path)

    (problem,) = refused.value.problems
    assert told in problem
