"""The cluster file: what is accepted, and how each mistake is told."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from launcher.cluster.lustre import capacity_problem, storage_type, throughput_problem
from launcher.cluster.specification import (
    ClusterFileError,
    ClusterSpec,
    PlannedHosts,
    addresses_per_host,
    load_cluster_file,
    subnet_prefix_length,
)

CLUSTERS = Path(__file__).parents[2] / "clusters"

SMALLEST = """\
name: small
region: us-west-2
availability_zones: [us-west-2a]
hosts: {instance_type: ml.p5.48xlarge, count: 4}
vpc:
  cidr: 10.0.0.0/20
"""


def load(text: str, folder: Path) -> ClusterSpec:
    path = folder / "small.yaml"
    path.write_text(text, "utf-8")
    return load_cluster_file(path)


def problems(text: str, folder: Path) -> list[str]:
    """The problems of a file, without its path."""
    with pytest.raises(ClusterFileError) as caught:
        load(text, folder)
    return [problem.removeprefix(f"{folder}/small.yaml") for problem in caught.value.problems]


@pytest.mark.parametrize("path", sorted(CLUSTERS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_cluster_file_of_ours_is_valid(path: Path) -> None:
    assert load_cluster_file(path).name == path.stem


def test_what_is_left_out_is_safe(tmp_path: Path) -> None:
    spec = load(SMALLEST, tmp_path)

    assert (spec.vpc.nat, spec.lustre, spec.removal_policy, spec.tags) == (True, None, "retain", {})


def test_tags_are_text_as_written(tmp_path: Path) -> None:
    spec = load(f"{SMALLEST}tags: {{debug: on, cost-centre: 0070}}\n", tmp_path)

    assert spec.tags == {"debug": "on", "cost-centre": "0070"}


def test_specification_survives_its_own_yaml(tmp_path: Path) -> None:
    spec = load_cluster_file(CLUSTERS / "dev.yaml")

    assert load(yaml.safe_dump(spec.model_dump(mode="json")), tmp_path) == spec


@pytest.mark.parametrize(
    ("line", "replacement", "told"),
    [
        ("name: small", "name: Small_1", ":1:1: `name`: 'Small_1' does not have the form"),
        ("name: small", "nmae: small", ":1:1: unknown field `nmae`. Did you mean `name`?"),
        ("region: us-west-2", "region: oregon", ":2:1: `region`: 'oregon' does not have the form"),
        ("[us-west-2a]", "[us-east-1a]", ":3:1: `availability_zones`: 'us-east-1a' is no zone of us-west-2"),
        ("[us-west-2a]", "[us-west-2a, us-west-2a]", "'us-west-2a' is there twice"),
        ("[us-west-2a]", "[]", ":3:1: `availability_zones`:"),
        ("count: 4", "count: 0", ":4:40: `hosts.count`: 0 is not valid"),
        ("p5.48", "p5.49", "`hosts.instance_type`: 'ml.p5.49xlarge' is no training instance type"),
        ("p5.48", "p5.49", "ml.p5.48xlarge"),
        ("10.0.0.0/20", "10.0.0.0/8", ":6:3: `vpc.cidr`: a VPC is between /16 and /28, not /8"),
        ("10.0.0.0/20", "10.0.0.1/20", ":6:3: `vpc.cidr`: '10.0.0.1/20' is not valid"),
        ("10.0.0.0/20", "10.0.0.0/24", "4 hosts of ml.p5.48xlarge in 1 zone(s) need 272"),
        ("  cidr: 10.0.0.0/20", "  nat: true", "`vpc.cidr` is missing"),
        ("name: small", "name: small\nremoval_policy: keep", ":2:1: `removal_policy`: 'keep' is not one of"),
    ],
)
def test_mistake_is_told_with_its_place(line: str, replacement: str, told: str, tmp_path: Path) -> None:
    assert line in SMALLEST

    assert told in "\n".join(problems(SMALLEST.replace(line, replacement), tmp_path))


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    broken = SMALLEST.replace("small", "SMALL").replace("count: 4", "count: none").replace("/20", "/99")

    assert len(problems(broken, tmp_path)) == 3


@pytest.mark.parametrize(
    ("lustre", "told"),
    [
        ("deployment: SCRATCH_2, capacity_gib: 1300", ":7:33: `lustre.capacity_gib`: FSx has no SCRATCH_2"),
        (
            "deployment: SCRATCH_2, throughput: 125, capacity_gib: 1200",
            "`lustre.throughput`: SCRATCH_2 has a fixed",
        ),
        ("deployment: PERSISTENT_2, capacity_gib: 1200", "`lustre.throughput`: PERSISTENT_2 needs one"),
        ("deployment: PERSISTENT_2, throughput: 200, capacity_gib: 1200", "use 125, 250, 500 or 1000"),
        ("deployment: PERSISTENT_3, capacity_gib: 1200", "`lustre.deployment`: 'PERSISTENT_3' is not one of"),
        (
            "deployment: SCRATCH_2, capacity_gib: 1200, compression: ZSTD",
            "`lustre.compression`: 'ZSTD' is not one of",
        ),
    ],
)
def test_impossible_file_system_is_refused(lustre: str, told: str, tmp_path: Path) -> None:
    (found,) = problems(f"{SMALLEST}lustre: {{{lustre}}}\n", tmp_path)

    assert told in found


@pytest.mark.parametrize(
    "content",
    [b"", b"- a\n- b\n", b"name: \xff\xfe", b"name: [", b"name: a\nname: b\n", b"a: !!python/object:os.x 1"],
)
def test_text_that_is_no_cluster_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_bytes(content)

    with pytest.raises(ClusterFileError, match=r"small\.yaml:[12]:\d+: "):
        load_cluster_file(path)


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_file_that_cannot_be_opened_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterFileError, match="cannot be read"):
        load_cluster_file(tmp_path / name)


@pytest.mark.parametrize(
    ("instance_type", "addresses"),
    [
        ("ml.m5.xlarge", 2),
        ("ml.g5.12xlarge", 5),
        ("ml.p4d.24xlarge", 5),
        ("ml.p5.48xlarge", 32),
        ("ml.p5en.48xlarge", 16),
        ("ml.trn1.32xlarge", 8),
    ],
)
def test_addresses_of_a_host(instance_type: str, addresses: int) -> None:
    assert addresses_per_host(instance_type) == addresses


@pytest.mark.parametrize(
    ("instance_type", "count", "prefix_length"),
    [
        ("ml.m5.xlarge", 1, 26),
        ("ml.p4d.24xlarge", 16, 25),
        ("ml.p5.48xlarge", 4, 24),
        ("ml.p5.48xlarge", 64, 20),
    ],
)
def test_subnet_is_as_large_as_the_hosts_need(instance_type: str, count: int, prefix_length: int) -> None:
    hosts = PlannedHosts(instance_type=instance_type, count=count)

    assert subnet_prefix_length(hosts) == prefix_length
    assert 2 ** (32 - prefix_length) - 5 >= count * addresses_per_host(instance_type)


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
def test_capacities_of_lustre(deployment: str, throughput: int | None, capacity: int, exists: bool) -> None:
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
def test_throughputs_of_lustre(deployment: str, throughput: int | None, exists: bool) -> None:
    assert (throughput_problem(deployment, throughput) is None) is exists


def test_only_the_slowest_persistent_1_is_on_disks() -> None:
    assert storage_type("PERSISTENT_1", 40) == "HDD"
    assert storage_type("PERSISTENT_1", 50) == storage_type("SCRATCH_2", None) == "SSD"
