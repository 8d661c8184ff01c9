"""The Lustre file system: its zone (FSX002) and its paths (FSX003)."""

from __future__ import annotations

import pytest

HERE, THERE = "subnet-0123456789abcdef0", "subnet-0000000000000000b"
INPUT = {"corpus": {"lustre": "/train"}}


@pytest.fixture
def two_zones(manifest: dict) -> dict:
    manifest["subnets"].append({"id": THERE, "availability_zone": "us-west-2b"})
    return manifest


@pytest.mark.parametrize(
    ("job", "found"),
    [
        pytest.param({"network": {"subnets": [HERE]}, "inputs": INPUT}, None, id="its own subnet"),
        pytest.param({"network": {"subnets": [THERE]}, "inputs": INPUT}, "error", id="the other zone"),
        pytest.param({"network": {"subnets": [HERE, THERE]}, "inputs": INPUT}, "error", id="either zone"),
        pytest.param({"inputs": INPUT}, None, id="left to the plan"),
        pytest.param({"network": {"subnets": ["subnet-1"]}, "inputs": INPUT}, None, id="an unknown zone"),
        pytest.param({"network": {"subnets": [THERE]}}, None, id="no use of the file system"),
        pytest.param(
            {"network": {"subnets": [THERE]}, "checkpoint": {"lustre": "/c"}}, "error", id="for checkpoints"
        ),
    ],
)
def test_file_system_and_job_share_a_zone(severity_of, two_zones: dict, job: dict, found: str | None) -> None:
    assert severity_of("FSX002", manifest=two_zones, **job) == found


def test_the_zones_are_told_and_the_subnet_that_fits(judge, two_zones: dict) -> None:
    (finding,) = judge("FSX002", manifest=two_zones, network={"subnets": [THERE]}, inputs=INPUT)
    assert f"{THERE} in us-west-2b" in finding.message
    assert "us-west-2a" in finding.message
    assert HERE in finding.remedy


def test_a_cluster_without_a_subnet_in_the_zone_of_its_file_system_is_refused(
    severity_of, manifest: dict
) -> None:
    manifest["subnets"] = [{"id": THERE, "availability_zone": "us-west-2b"}]
    assert severity_of("FSX002", manifest=manifest, inputs=INPUT) == "error"


def test_without_a_manifest_nothing_is_known_of_zones(severity_of) -> None:
    assert severity_of("FSX002", cluster="dev", inputs=INPUT) is None


@pytest.mark.parametrize(
    ("path", "found"),
    [
        pytest.param("/train", None, id="below the mount"),
        pytest.param("/", None, id="the mount itself"),
        pytest.param("/abcdefgh/train", "warning", id="the mount name twice"),
        pytest.param("/abcdefghi/train", None, id="a name that only begins alike"),
        pytest.param("/train/../../other", "error", id="out of the mount"),
        pytest.param("/train..old", None, id="dots in a name"),
    ],
)
def test_paths_are_below_the_mount(severity_of, manifest: dict, path: str, found: str | None) -> None:
    assert severity_of("FSX003", manifest=manifest, inputs={"corpus": {"lustre": path}}) == found
