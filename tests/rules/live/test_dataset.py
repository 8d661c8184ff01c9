"""FSX006 in the account: what lies in S3 for a download, and what the file system tells about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from launcher.account.facts import Prefix, Unverified
from launcher.account.file_system import DataRepositoryAssociation
from launcher.failure_modes.model import Finding
from tests.rules.live.states import FILE_SYSTEM, REQUEST, found

URI = "s3://data/train"
GB, M5 = 1000**3, "ml.m5.xlarge"
SHARDED = {"s3_uri": URI, "distribution": "ShardedByS3Key"}
PART = Prefix(URI, 1000, 100 * GB, more=True)
"""More than one call lists: of the rest nothing is known."""


def judged(listed: Prefix | Unverified = PART, *, mode: str = "File", **state: Any) -> list[Finding]:
    """The findings where this was listed at the input `train`, which is read in this mode."""
    train, *others = REQUEST["InputDataConfig"]
    request = {"InputDataConfig": [{**train, "InputMode": mode}, *others]}
    return found("FSX006", request=request, prefixes={URI: listed}, **state)


@pytest.mark.parametrize(
    ("listed", "says"),
    [
        pytest.param(Prefix(URI, 3, 500 * GB), None, id="500 GB"),
        pytest.param(Prefix(URI, 3, 501 * GB), "holds 501 GB for each host (3 objects)", id="more"),
        pytest.param(
            Prefix(URI, 1000, 501 * GB, more=True),
            "holds at least 501 GB for each host (at least 1,000 objects)",
            id="more, in a part",
        ),
        pytest.param(PART, None, id="a part that is not large"),
        pytest.param(Unverified("what lies there", "s3:ListBucket", "403"), None, id="not known"),
    ],
)
def test_what_lies_in_s3_is_judged_by_its_size(listed: Any, says: str | None) -> None:
    findings = judged(listed, file_system=None, associations=None)
    assert [each.severity for each in findings] == ["warning"] * (says is not None)
    assert says is None or says in findings[0].message


def test_the_bound_is_a_byte_more_than_500_gb() -> None:
    assert judged(Prefix(URI, 1, 500 * GB)) == []
    assert len(judged(Prefix(URI, 1, 500 * GB + 1))) == 1


@pytest.mark.parametrize("mode", ["FastFile", "Pipe"])
def test_what_is_streamed_may_be_large(mode: str) -> None:
    assert judged(Prefix(URI, 3, 9000 * GB), mode=mode) == []


@pytest.mark.parametrize(("hosts", "count"), [(2, 0), (1, 1)])
def test_a_sharded_input_counts_by_the_part_of_a_host(hosts: int, count: int) -> None:
    listed = Prefix(URI, 10, 900 * GB)
    assert len(judged(listed, hosts=hosts, job={"inputs": {"train": SHARDED}})) == count


@pytest.mark.parametrize(("size", "count"), [(30 * GB, 0), (30 * GB + 1, 1)])
def test_what_is_downloaded_fits_on_the_disk(size: int, count: int) -> None:
    findings = judged(Prefix(URI, 3, size), instance_type=M5)
    assert ["does not fit on its 30 GB of disk" in each.message for each in findings] == [True] * count


@pytest.mark.parametrize(
    ("listed", "count"),
    [
        pytest.param(Prefix(URI, 1000, 1000 * 10**6 - 1, more=True), 1, id="small and many"),
        pytest.param(Prefix(URI, 1000, 1000 * 10**6, more=True), 0, id="a megabyte each"),
        pytest.param(Prefix(URI, 1000, 1000, more=False), 0, id="small, and no more than a thousand"),
    ],
)
def test_very_many_small_objects_are_an_information(listed: Prefix, count: int) -> None:
    findings = judged(listed)
    assert [each.severity for each in findings] == ["info"] * count
    assert all("more than 1,000 objects" in each.message for each in findings)


LINK = DataRepositoryAssociation("dra-1", "AVAILABLE", "/train", "s3://data/train")


@pytest.mark.parametrize(
    ("size", "links", "capacity", "count"),
    [
        pytest.param("2TB", [LINK], 12000, 1, id="linked, and downloaded"),
        pytest.param("500GB", [LINK], 12000, 0, id="not more than 500 GB"),
        pytest.param("2TB", [], 12000, 0, id="it may be what is mounted"),
        pytest.param("2TB", [], 1200, 1, id="larger than the file system"),
        pytest.param("2TB", [replace(LINK, s3_uri="s3://data/tra")], 12000, 0, id="only begins alike"),
        pytest.param(None, [LINK], 1200, 0, id="a size that is not known"),
    ],
)
def test_large_data_is_not_downloaded_beside_a_file_system(
    size: str | None, links: Any, capacity: int, count: int
) -> None:
    findings = judged(
        job={"data": {"size": size}} if size else {},
        associations=tuple(links),
        file_system=replace(FILE_SYSTEM, capacity_gib=capacity),
    )
    assert [each.severity for each in findings] == ["warning"] * count


@pytest.mark.parametrize("links", [(LINK,), ()])
def test_a_complete_listing_outweighs_what_the_job_file_says(
    links: tuple[DataRepositoryAssociation, ...],
) -> None:
    job = {"data": {"size": "2TB"}}
    assert judged(Prefix(URI, 3, 5 * GB), job=job, associations=links) == []


def test_linked_data_that_is_seen_to_be_large_is_told_once_with_the_path() -> None:
    (finding,) = judged(Prefix(URI, 3, 900 * GB), associations=(LINK,))
    assert "linked to /train" in finding.message


def test_data_that_is_seen_to_be_large_is_not_also_inferred() -> None:
    (finding,) = judged(Prefix(URI, 3, 2000 * GB), job={"data": {"size": "2TB"}})
    assert "holds 2,000 GB" in finding.message


def test_the_path_on_the_file_system_is_told() -> None:
    link = replace(LINK, path="/ns", s3_uri="s3://data")
    (finding,) = judged(job={"data": {"size": "2TB"}}, associations=(link,))
    assert "inputs.train: {lustre: /ns/train}" in finding.remedy
