"""The life of a cluster, with the real command lines: deployed, grown, without its Lustre, destroyed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from moto.s3.models import s3_backends

from tests.emulator.buckets import emulated_buckets
from tests.stacks.command_line import ACCOUNT, Account

pytestmark = [pytest.mark.second_day, pytest.mark.timeout(1200)]

FILE: dict[str, Any] = {
    "name": "story",
    "region": "us-west-2",
    "availability_zones": ["us-west-2a"],
    "vpc": {"cidr": "10.64.0.0/20", "nat": True},
    "hosts": [{"instance_type": "ml.g5.8xlarge", "count": 2}],
    "lustre": {"deployment": "SCRATCH_2", "capacity_gib": 1200},
    "removal_policy": "retain",
}
GROWN = {
    "hosts": [{"instance_type": "ml.g5.8xlarge", "count": 40}],
    "availability_zones": ["us-west-2a", "us-west-2b"],
    "lustre": {"deployment": "SCRATCH_2", "capacity_gib": 4800},
}


@pytest.fixture
def account(endpoint: str, tmp_path: Path) -> Iterator[Account]:
    with emulated_buckets():
        yield Account(endpoint, tmp_path / "story.yaml", tmp_path)


def write(account: Account, **changes: Any) -> None:
    account.file.write_text(yaml.safe_dump({**FILE, **changes}))


def said(done: subprocess.CompletedProcess[str], code: int = 0) -> str:
    """What a command line said, which ended with the exit code."""
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def planned(account: Account, code: int = 0) -> dict[str, str]:
    """What `launch cluster plan` says of each field that changes."""
    done = account.launch("cluster", "plan", str(account.file), "--output", "json")
    said(done, code)
    return {each["field"]: each["policy"] for each in json.loads(done.stdout)["fields"] or ()}


def destroyed(account: Account) -> dict[str, Any]:
    """What `launch cluster destroy` says, which leaves nothing over."""
    done = account.launch("cluster", "destroy", "story", "--confirm", "story", "--output", "json")
    said(done)
    aftermath: dict[str, Any] = json.loads(done.stdout)["aftermath"]
    assert aftermath["left_over"] == [] and aftermath["unseen"] is None
    assert account.client("cloudformation").describe_stacks()["Stacks"] == []
    return aftermath


def test_a_cluster_grows_loses_its_lustre_takes_it_back_and_goes(account: Account) -> None:
    write(account)
    assert planned(account) == {}
    said(account.deploy())
    first = account.manifest()
    assert first.lustre is not None
    assert "story" in said(account.launch("cluster", "show", "story"))
    stacks = account.client("cloudformation").describe_stacks()["Stacks"]
    assert said(account.deploy()).count("(no changes)") == len(stacks) == 8

    write(account, **GROWN)
    assert planned(account) == {
        "availability_zones": "in-place", "hosts.0.count": "in-place", "lustre.capacity_gib": "in-place",
    }  # fmt: skip
    said(account.deploy())
    grown = account.manifest()
    assert grown.subnets[0] == first.subnets[0] and len(grown.subnets) == 2
    assert grown.lustre == first.lustre

    write(account, **{**GROWN, "lustre": {"deployment": "SCRATCH_2", "capacity_gib": 2400}})
    assert planned(account, code=1) == {"lustre.capacity_gib": "fails"}

    write(account, lustre=None)
    assert planned(account)["lustre"] == "idle"
    said(account.deploy())
    without = account.manifest()
    assert without.lustre is None and without.subnets == first.subnets

    back = {"lustre": {"existing": first.lustre.model_dump()}}
    write(account, **back)
    assert planned(account) == {"lustre": "in-place"}
    said(account.deploy())
    assert account.manifest().lustre == first.lustre
    said(account.launch("cluster", "show", "story"))

    aftermath = destroyed(account)
    (file_system,) = account.client("fsx").describe_file_systems()["FileSystems"]
    assert (file_system["FileSystemId"], file_system["StorageCapacity"]) == (first.lustre.id, 4800)
    kept = " ".join(aftermath["kept"])
    for each in (
        first.vpc_id,
        first.lustre.subnet_id,
        *first.security_group_ids,
        *first.buckets.model_dump().values(),
    ):
        assert each in kept
    ec2 = account.client("ec2")
    assert {each["State"] for each in ec2.describe_nat_gateways()["NatGateways"]} <= {"deleted"}
    assert ec2.describe_addresses()["Addresses"] == []


def test_a_cluster_that_is_not_kept_goes_with_all_that_is_in_its_buckets(account: Account) -> None:
    write(account, removal_policy="destroy")
    said(account.deploy())
    s3, buckets = account.client("s3"), account.manifest().buckets
    # Not by the API, by which the bucket of the code takes nothing twice.
    backend = s3_backends[ACCOUNT]["aws"]
    for bucket in buckets.model_dump().values():
        for body in (b"old", b"new"):
            backend.put_object(bucket, "some/object", body)
    backend.delete_object(buckets.checkpoints, "some/object")
    found = s3.list_object_versions(Bucket=buckets.checkpoints)
    assert (len(found["Versions"]), len(found["DeleteMarkers"])) == (2, 1)

    assert destroyed(account)["kept"] == []
    assert [each["Name"] for each in s3.list_buckets()["Buckets"] if "story" in each["Name"]] == []
    assert account.client("fsx").describe_file_systems()["FileSystems"] == []
    vpcs = account.client("ec2").describe_vpcs()["Vpcs"]
    assert [each["VpcId"] for each in vpcs if not each["IsDefault"]] == []
