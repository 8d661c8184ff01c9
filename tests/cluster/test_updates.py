"""What a change of the cluster file does to a cluster that is deployed."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from launcher.cluster.specification import ClusterSpec
from launcher.cluster.updates import POLICIES, Policy, changes, cluster_file_data, fields_of

PERSISTENT = {"deployment": "PERSISTENT_2", "throughput": 125, "capacity_gib": 4800}
EXISTING = {
    "vpc_id": "vpc-0123456789abcdef0",
    "subnets": [
        {"id": "subnet-0123456789abcdef0", "availability_zone": "us-west-2a"},
        {"id": "subnet-0123456789abcdef1", "availability_zone": "us-west-2b"},
    ],
}
BASE: dict[str, Any] = {
    "name": "team",
    "region": "us-west-2",
    "availability_zones": ["us-west-2a"],
    "vpc": {"cidr": "10.64.0.0/18"},
    "hosts": [{"instance_type": "ml.g5.8xlarge", "count": 2}],
    "lustre": PERSISTENT,
}
IN_EXISTING = {**BASE, "availability_zones": [], "vpc": {"existing": EXISTING}}


def file(base: dict[str, Any], edits: dict[str, Any] | None = None) -> ClusterSpec:
    """The base with fields set by their path."""
    data = copy.deepcopy(base)
    for path, value in (edits or {}).items():
        *parents, name = (int(part) if part.isdigit() else part for part in path.split("."))
        at: Any = data
        for part in parents:
            at = at[part]
        at[name] = value
    return ClusterSpec.model_validate(data)


def test_the_table_has_every_field_of_the_model_and_no_other() -> None:
    assert set(POLICIES) == set(fields_of())


def test_equal_files_have_no_changes() -> None:
    assert changes(file(BASE), file(BASE)) == []


def test_changes_do_what_the_table_says() -> None:
    otherwise = []
    for row in yaml.safe_load((Path(__file__).parent / "changes.yaml").read_text("utf-8")):
        base = IN_EXISTING if row.get("in_existing") else BASE
        before, after = (file(base, row.get(key)) for key in ("before", "after"))
        found = [(change.field, change.policy.value) for change in changes(before, after)]
        if found != [(row["field"], row["policy"])]:
            otherwise.append((row, found))
    assert otherwise == []


def test_a_new_file_system_may_have_any_size() -> None:
    scratch = {"deployment": "SCRATCH_2", "capacity_gib": 1200}
    found = {each.field: each.policy for each in changes(file(BASE), file(BASE, {"lustre": scratch}))}

    assert found["lustre.deployment"] is Policy.REPLACES_DATA
    assert found["lustre.capacity_gib"] is Policy.IN_PLACE


def test_what_an_earlier_version_did_not_write_has_its_default() -> None:
    earlier = {name: value for name, value in cluster_file_data(file(BASE)).items() if name != "encryption"}

    assert changes(earlier, file(BASE)) == []


def test_a_field_that_this_version_does_not_know_is_told() -> None:
    (change,) = changes({**cluster_file_data(file(BASE)), "warp": 9}, file(BASE))

    assert (change.field, change.policy) == ("warp", Policy.UNKNOWN)


def test_a_change_in_json_names_the_policy_in_one_word() -> None:
    (change,) = changes(file(BASE), file(BASE, {"lustre.throughput": 250}))

    assert change.to_json() == {
        "field": "lustre.throughput",
        "kind": "changed",
        "before": 125,
        "after": 250,
        "policy": "replaces-data",
        "reason": "CloudFormation replaces a file system whose throughput per TiB changes",
    }


def test_every_row_can_be_read_in_the_documentation() -> None:
    assert [path for path, row in POLICIES.items() if len(row.words) < len("in place")] == []
