"""What a change of the cluster file does to a cluster that is deployed."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from launcher.cluster.specification import ClusterSpec
from launcher.cluster.updates import POLICIES, FieldChange, Policy, changes, cluster_file_data, fields_of

PERSISTENT = {"deployment": "PERSISTENT_2", "throughput": 125, "capacity_gib": 4800}
TWO = ["us-west-2a", "us-west-2b"]
LINK = {"path": "/data", "s3_uri": "s3://corpus"}
KEY = "arn:aws:kms:us-west-2:111122223333:key/1234abcd"
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


def file(base: dict[str, Any], /, **edits: Any) -> ClusterSpec:
    """The base with fields set by their path, `__` between its parts; `...` removes one."""
    data = copy.deepcopy(base)
    for path, value in edits.items():
        *parents, name = path.split("__")
        at: Any = data
        for part in parents:
            at = at[int(part) if part.isdigit() else part]
        if value is ...:
            at.pop(name, None)
        else:
            at[int(name) if name.isdigit() else name] = value
    return ClusterSpec.model_validate(data)


def only_change(before: ClusterSpec, after: ClusterSpec) -> FieldChange:
    (change,) = changes(before, after)
    return change


def test_the_table_has_every_field_of_the_model_and_no_other() -> None:
    assert set(POLICIES) == set(fields_of())


def test_equal_files_have_no_changes() -> None:
    assert changes(file(BASE), file(BASE)) == []


@pytest.mark.parametrize(
    ("base", "before", "after", "field", "policy"),
    [
        (BASE, {}, {"hosts__0__count": 40}, "hosts.0.count", Policy.IN_PLACE),
        (BASE, {}, {"tags": {"a": "b"}}, "tags", Policy.IN_PLACE),
        (BASE, {}, {"name": "other"}, "name", Policy.ANOTHER_CLUSTER),
        (BASE, {}, {"availability_zones": TWO}, "availability_zones", Policy.IN_PLACE),
        (BASE, {"availability_zones": TWO}, {}, "availability_zones", Policy.IDLE),
        (BASE, {}, {"availability_zones": ["us-west-2b"]}, "availability_zones", Policy.FAILS),
        (BASE, {}, {"availability_zones": ["usw2-az1"]}, "availability_zones", Policy.FAILS),
        (
            BASE,
            {"lustre": ...},
            {"lustre": ..., "availability_zones": ["us-west-2b"]},
            "availability_zones",
            Policy.FAILS,
        ),
        (BASE, {}, {"vpc__cidr": "10.64.0.0/16"}, "vpc.cidr", Policy.FAILS),
        (BASE, {"lustre": ...}, {"lustre": ..., "vpc__cidr": "10.64.0.0/16"}, "vpc.cidr", Policy.FAILS),
        (
            BASE,
            {"lustre": ..., "vpc__nat": False},
            {"lustre": ..., "vpc__nat": False, "vpc__cidr": "10.64.0.0/16"},
            "vpc.cidr",
            Policy.REPLACES,
        ),
        (BASE, {}, {"vpc__nat": False}, "vpc.nat", Policy.IDLE),
        (BASE, {}, {"lustre__capacity_gib": 9600}, "lustre.capacity_gib", Policy.IN_PLACE),
        (BASE, {}, {"lustre__capacity_gib": 2400}, "lustre.capacity_gib", Policy.FAILS),
        (
            BASE,
            {"lustre": {"deployment": "SCRATCH_1", "capacity_gib": 1200}},
            {"lustre": {"deployment": "SCRATCH_1", "capacity_gib": 2400}},
            "lustre.capacity_gib",
            Policy.FAILS,
        ),
        (BASE, {}, {"lustre__throughput": 250}, "lustre.throughput", Policy.REPLACES_DATA),
        (BASE, {}, {"lustre__compression": "NONE"}, "lustre.compression", Policy.IN_PLACE),
        (BASE, {}, {"lustre__metadata": "automatic"}, "lustre.metadata", Policy.FAILS),
        (
            BASE,
            {"lustre__metadata": {"iops": 3000}},
            {"lustre__metadata": {"iops": 6000}},
            "lustre.metadata.iops",
            Policy.IN_PLACE,
        ),
        (
            BASE,
            {"lustre__metadata": {"iops": 6000}},
            {"lustre__metadata": {"iops": 3000}},
            "lustre.metadata.iops",
            Policy.FAILS,
        ),
        (BASE, {}, {"lustre__backup": {"retention_days": 7}}, "lustre.backup", Policy.REPLACES_DATA),
        (
            BASE,
            {"lustre__backup": {"retention_days": 7}},
            {"lustre__backup": {"retention_days": 9}},
            "lustre.backup.retention_days",
            Policy.IN_PLACE,
        ),
        (BASE, {}, {"lustre__associations": [LINK]}, "lustre.associations", Policy.IN_PLACE),
        (BASE, {"lustre__associations": [LINK]}, {}, "lustre.associations", Policy.REPLACES),
        (
            BASE,
            {"lustre__associations": [LINK]},
            {"lustre__associations": [{**LINK, "path": "/corpus"}]},
            "lustre.associations.0.path",
            Policy.FAILS,
        ),
        (BASE, {"lustre": ...}, {}, "lustre", Policy.IN_PLACE),
        (BASE, {}, {"lustre": ...}, "lustre", Policy.IDLE),
        (
            BASE,
            {"removal_policy": "destroy"},
            {"removal_policy": "destroy", "lustre": ...},
            "lustre",
            Policy.REPLACES_DATA,
        ),
        (BASE, {}, {"encryption": "new-key"}, "encryption", Policy.REPLACES_DATA),
        (
            BASE,
            {"lustre": ..., "encryption": "new-key"},
            {"lustre": ..., "encryption": KEY},
            "encryption",
            Policy.IN_PLACE,
        ),
        (
            BASE,
            {"lustre": ..., "encryption": "new-key", "removal_policy": "destroy"},
            {"lustre": ..., "removal_policy": "destroy"},
            "encryption",
            Policy.REPLACES_DATA,
        ),
        (BASE, {}, {"buckets": {"code": "my-code"}}, "buckets.code", Policy.IDLE),
        (
            BASE,
            {"removal_policy": "destroy"},
            {"removal_policy": "destroy", "buckets": {"code": "my-code"}},
            "buckets.code",
            Policy.REPLACES_DATA,
        ),
        (BASE, {}, {"data_buckets": ["corpus"]}, "data_buckets", Policy.IN_PLACE),
        (BASE, {"data_buckets": ["corpus", "more"]}, {"data_buckets": ["more"]}, "data_buckets", Policy.IDLE),
        (BASE, {}, {"queue": {}}, "queue", Policy.IN_PLACE),
        (BASE, {"queue": {}}, {}, "queue", Policy.IDLE),
        (BASE, {"queue": {}}, {"queue": {"max_instances": 9}}, "queue.max_instances", Policy.IN_PLACE),
        (BASE, {"queue": {}}, {"queue": {"shares": {"a": 1}}}, "queue.shares", Policy.FAILS),
        (
            BASE,
            {"queue": {"shares": {"a": 1}}},
            {"queue": {"shares": {"a": 2}}},
            "queue.shares",
            Policy.IN_PLACE,
        ),
        (BASE, {"observability": {}}, {}, "observability", Policy.REPLACES),
        (BASE, {}, {"removal_policy": "destroy"}, "removal_policy", Policy.IN_PLACE),
        (
            IN_EXISTING,
            {},
            {"vpc__existing__subnets": EXISTING["subnets"][:1]},
            "vpc.existing.subnets",
            Policy.IN_PLACE,
        ),
        (
            IN_EXISTING,
            {},
            {"vpc__existing__subnets__0__id": "subnet-0123456789abcdef9"},
            "vpc.existing.subnets.0.id",
            Policy.REPLACES_DATA,
        ),
        (
            IN_EXISTING,
            {},
            {"vpc__existing__security_group_id": "sg-0123456789abcdef9"},
            "vpc.existing.security_group_id",
            Policy.FAILS,
        ),
    ],
)  # fmt: skip
def test_a_change_does_what_the_table_says(
    base: dict[str, Any], before: dict[str, Any], after: dict[str, Any], field: str, policy: Policy
) -> None:
    change = only_change(file(base, **before), file(base, **after))

    assert (change.field, change.policy) == (field, policy)


def test_a_new_file_system_may_have_any_size() -> None:
    scratch = {"deployment": "SCRATCH_2", "capacity_gib": 1200}
    found = {each.field: each.policy for each in changes(file(BASE), file(BASE, lustre=scratch))}

    assert found["lustre.deployment"] is Policy.REPLACES_DATA
    assert found["lustre.capacity_gib"] is Policy.IN_PLACE


def test_what_an_earlier_version_did_not_write_has_its_default() -> None:
    earlier = {name: value for name, value in cluster_file_data(file(BASE)).items() if name != "encryption"}

    assert changes(earlier, file(BASE)) == []


def test_a_field_that_this_version_does_not_know_is_told() -> None:
    (change,) = changes({**cluster_file_data(file(BASE)), "warp": 9}, file(BASE))

    assert (change.field, change.policy) == ("warp", Policy.UNKNOWN)


def test_a_change_in_json_names_the_policy_in_one_word() -> None:
    change = only_change(file(BASE), file(BASE, lustre__throughput=250))

    assert change.to_json() == {
        "field": "lustre.throughput",
        "kind": "changed",
        "before": 125,
        "after": 250,
        "policy": "replaces-data",
        "reason": "CloudFormation replaces a file system whose throughput per TiB changes",
    }


@pytest.mark.parametrize("path", sorted(POLICIES))
def test_every_row_can_be_read_in_the_documentation(path: str) -> None:
    assert len(POLICIES[path].words) >= len("in place")
