"""The job is in the region of its cluster: S3001."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("region", "found"),
    [
        pytest.param(None, None, id="the cluster's, as none is given"),
        pytest.param("us-west-2", None, id="the cluster's"),
        pytest.param("us-east-1", "error", id="another one"),
    ],
)
def test_a_job_runs_in_the_region_of_its_cluster(
    severity_of, manifest: dict, region: str | None, found: str | None
) -> None:
    assert severity_of("S3001", manifest=manifest, cluster="dev", region=region) == found


def test_both_regions_are_named(judge, manifest: dict) -> None:
    (finding,) = judge("S3001", manifest=manifest, cluster="dev", region="us-east-1")
    assert "us-east-1" in finding.message and "cluster dev are in us-west-2" in finding.message


def test_without_a_cluster_any_region_will_do(severity_of) -> None:
    assert severity_of("S3001", region="us-east-1", output={"s3_uri": "s3://mine/out"}) is None
