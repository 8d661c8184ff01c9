"""A change of every field of the cluster file: changed, added, removed, as far as the field can be each.

`CHANGES` has a row for every field, by its path as `launcher.cluster.updates.POLICIES` writes it.
Words in braces stand for what the account already has, and become its ids: {vpc}, {subnet_a}, {group}.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

File = dict[str, Any]

LUSTRE: File = {"deployment": "PERSISTENT_2", "throughput": 125, "capacity_gib": 4800}
LINK: File = {"path": "/data", "s3_uri": "s3://corpus-of-dev"}
ADOPTED: File = {
    "id": "fs-0123456789abcdef0",
    "mount_name": "fsx",
    "subnet_id": "subnet-0123456789abcdef0",
    "availability_zone": "us-west-2a",
    "security_group_id": "sg-0123456789abcdef0",
}
CIDR: File = {"cidr": "10.64.0.0/20", "nat": True}
BY_HAND: File = {"cidr": "10.64.8.0/24"}

BASE: File = {
    "name": "dev",
    "region": "us-west-2",
    "availability_zones": ["us-west-2a"],
    "vpc": CIDR,
    "hosts": [{"instance_type": "ml.g5.8xlarge", "count": 2}],
    "lustre": LUSTRE,
    "removal_policy": "retain",
}


@dataclass(frozen=True)
class Change:
    """Two cluster files, each as what differs from `BASE`.

    `in_other_words` marks a change that writes the values of the templates in another way: what comes out
    is the same, which no comparison of templates can know.
    """

    before: Mapping[str, Any]
    after: Mapping[str, Any]
    kind: str = "changed"
    in_other_words: bool = False


def _changed(before: File, after: File) -> tuple[Change, ...]:
    return (Change(before, after),)


def _comes_and_goes(without: File, with_: File) -> tuple[Change, ...]:
    return (Change(without, with_, "added"), Change(with_, without, "removed"))


def _top(name: str, before: Any, after: Any) -> tuple[Change, ...]:
    return _changed({name: before}, {name: after})


def _lustre(before: File, after: File) -> tuple[Change, ...]:
    return _changed({"lustre": {**LUSTRE, **before}}, {"lustre": {**LUSTRE, **after}})


def _lustre_with(part: File) -> tuple[Change, ...]:
    return _comes_and_goes({}, {"lustre": {**LUSTRE, **part}})


def _adopted(**changes: str) -> File:
    return {"lustre": {"existing": {**ADOPTED, **changes}}}


def _in_adopted(name: str, other: str) -> tuple[Change, ...]:
    return _changed(_adopted(), _adopted(**{name: other}))


def _tiered(throughput_mbps: int = 4000, read_cache: Any = "none") -> File:
    tiering = {"throughput_mbps": throughput_mbps, "read_cache": read_cache}
    metadata = {"iops": 6000}
    return {"lustre": {"deployment": "PERSISTENT_2", "metadata": metadata, "intelligent_tiering": tiering}}


def _backup(**changes: str) -> File:
    return {"lustre": {**LUSTRE, "backup": {"retention_days": 7, **changes}}}


def _link(change: File) -> tuple[Change, ...]:
    return _lustre({"associations": [LINK]}, {"associations": [{**LINK, **change}]})


def _vpc(before: File, after: File) -> tuple[Change, ...]:
    return _changed({"vpc": {**CIDR, **before}}, {"vpc": {**CIDR, **after}})


def _existing(**changes: Any) -> File:
    subnets = [{"id": "{subnet_a}", "availability_zone": "us-west-2a"}]
    # The zones are those of the subnets.
    vpc = {"existing": {"vpc_id": "{vpc}", "subnets": subnets, **changes}}
    return {"availability_zones": [], "vpc": vpc}


def _added_subnets(**changes: Any) -> File:
    new = {"cidr": "10.8.128.0/20", "nat_gateway_id": "{nat}", **changes}
    wanted = {key: value for key, value in new.items() if value is not None}
    return {"vpc": {"existing": {"vpc_id": "{vpc}", "new_subnets": wanted}}}


def _in_added_subnets(**changes: Any) -> tuple[Change, ...]:
    return _changed(_added_subnets(), _added_subnets(**changes))


def _queue(before: File, after: File) -> tuple[Change, ...]:
    return _top("queue", before, after)


def _watch(before: File, after: File) -> tuple[Change, ...]:
    return _top("observability", before, after)


def _role(name: str) -> str:
    return f"arn:aws:iam::{_HERE}:role/{name}"


def _bounded(name: str) -> File:
    return {"permissions_boundary": f"arn:aws:iam::{_HERE}:policy/{name}"}


_HERE = "123456789012"
_KEY = f"arn:aws:kms:us-west-2:{_HERE}:key/1234abcd"
_CORPUS: File = {"data_buckets": ["corpus-of-dev"]}
_LOGS_KEPT: File = {"observability": {"job_log_days": 30}}
_TWO = {"availability_zones": ["us-west-2a", "us-west-2b"]}
_ISOLATED = {"cidr": "10.64.0.0/20", "nat": False}
_SECOND = {"id": "{subnet_b}", "availability_zone": "us-west-2b"}
_BOTH = [{"id": "{subnet_a}", "availability_zone": "us-west-2a"}, _SECOND]

CHANGES: Mapping[str, tuple[Change, ...]] = {
    "name": _top("name", "dev", "other"),
    # The emulator's account has one region; another region is another cluster, as another name is.
    "region": (),
    # That of the emulator.
    "account": tuple(
        replace(each, in_other_words=True) for each in _comes_and_goes({}, {"account": "123456789012"})
    ),
    "availability_zones": (
        *_comes_and_goes({}, _TWO),
        *_top("availability_zones", ["us-west-2a"], ["us-west-2b"]),
    ),
    "hosts": _comes_and_goes(
        {}, {"hosts": [*BASE["hosts"], {"instance_type": "ml.p4d.24xlarge", "count": 1}]}
    ),
    "hosts[].instance_type": _top("hosts", BASE["hosts"], [{"instance_type": "ml.g5.12xlarge", "count": 2}]),
    "hosts[].count": _top("hosts", BASE["hosts"], [{"instance_type": "ml.g5.8xlarge", "count": 17}]),
    "max_hosts": _comes_and_goes({}, {"max_hosts": 20}),
    "lustre": (
        *_comes_and_goes({"lustre": None}, {}),
        *(Change({"removal_policy": "destroy"}, {"removal_policy": "destroy", "lustre": None}, "removed"),),
    ),
    "lustre.deployment": _changed({}, {"lustre": {"deployment": "SCRATCH_2", "capacity_gib": 4800}}),
    "lustre.throughput": _lustre({}, {"throughput": 250}),
    "lustre.capacity_gib": (*_lustre({}, {"capacity_gib": 9600}), *_lustre({}, {"capacity_gib": 2400})),
    "lustre.compression": _lustre({}, {"compression": "LZ4"}),
    "lustre.metadata": _lustre_with({"metadata": "automatic"}),
    "lustre.metadata.iops": _lustre({"metadata": {"iops": 1500}}, {"metadata": {"iops": 3000}}),
    "lustre.efa": _lustre(
        {"metadata": "automatic", "throughput": 1000},
        {"metadata": "automatic", "throughput": 1000, "efa": True},
    ),
    "lustre.backup": _lustre_with({"backup": {"retention_days": 7}}),
    "lustre.backup.retention_days": _lustre(
        {"backup": {"retention_days": 7}}, {"backup": {"retention_days": 9}}
    ),
    "lustre.backup.start": (
        *_comes_and_goes(_backup(), _backup(start="03:00")),
        *_changed(_backup(start="03:00"), _backup(start="04:00")),
    ),
    "lustre.maintenance": (
        *_lustre_with({"maintenance": "sun 03:00"}),
        *_lustre({"maintenance": "sun 03:00"}, {"maintenance": "mon 04:00"}),
    ),
    "lustre.intelligent_tiering": _comes_and_goes({}, _tiered()),
    "lustre.intelligent_tiering.throughput_mbps": (
        *_changed(_tiered(4000), _tiered(8000)),
        *_changed(_tiered(8000), _tiered(4000)),
    ),
    "lustre.intelligent_tiering.read_cache.mode": _comes_and_goes(
        _tiered(), _tiered(read_cache="proportional")
    ),
    "lustre.intelligent_tiering.read_cache.gib": _changed(
        _tiered(read_cache={"gib": 32}), _tiered(read_cache={"gib": 64})
    ),
    "lustre.existing": (
        *_comes_and_goes({}, _adopted()),
        *_comes_and_goes({"lustre": None}, _adopted()),
        Change({"removal_policy": "destroy"}, {"removal_policy": "destroy", **_adopted()}),
    ),
    "lustre.existing.id": _in_adopted("id", "fs-00000000000000000"),
    "lustre.existing.mount_name": _in_adopted("mount_name", "abcdefgh"),
    "lustre.existing.subnet_id": _in_adopted("subnet_id", "subnet-00000000000000000"),
    "lustre.existing.availability_zone": _changed(
        {**_TWO, **_adopted()}, {**_TWO, **_adopted(availability_zone="us-west-2b")}
    ),
    "lustre.existing.security_group_id": _in_adopted("security_group_id", "sg-00000000000000000"),
    "lustre.associations": _lustre_with({"associations": [LINK]}),
    "lustre.associations[].path": _link({"path": "/other"}),
    "lustre.associations[].s3_uri": _link({"s3_uri": "s3://other-corpus"}),
    "lustre.associations[].import_on_create": _link({"import_on_create": True}),
    "lustre.associations[].auto_import": _link({"auto_import": ["new"]}),
    "lustre.associations[].auto_export": _link({"auto_export": ["new"]}),
    "vpc.cidr": _vpc({}, {"cidr": "10.96.0.0/20"}),
    "vpc.nat": (*_vpc({}, {"nat": False}), *_vpc({"nat": False}, {"nat": True})),
    "vpc.s3_prefix_list_id": _comes_and_goes(
        {"vpc": _ISOLATED}, {"vpc": {**_ISOLATED, "s3_prefix_list_id": "pl-68a54001"}}
    ),
    "vpc.subnets": _comes_and_goes({}, {"vpc": {**CIDR, "subnets": [BY_HAND]}}),
    "vpc.subnets[].cidr": _vpc({"subnets": [BY_HAND]}, {"subnets": [{"cidr": "10.64.10.0/24"}]}),
    "vpc.subnets[].nat_cidr": _vpc(
        {"subnets": [BY_HAND]}, {"subnets": [{**BY_HAND, "nat_cidr": "10.64.12.0/28"}]}
    ),
    "vpc.existing": (
        *_comes_and_goes({"lustre": None}, {"lustre": None, **_existing()}),
        *_comes_and_goes({}, _existing()),
    ),
    "vpc.existing.vpc_id": _changed(
        _existing(),
        _existing(
            vpc_id="{other_vpc}", subnets=[{"id": "{other_subnet}", "availability_zone": "us-west-2a"}]
        ),
    ),
    "vpc.existing.subnets": _comes_and_goes(_existing(), _existing(subnets=_BOTH)),
    "vpc.existing.subnets[].id": _changed(
        _existing(), _existing(subnets=[{"id": "{subnet_a2}", "availability_zone": "us-west-2a"}])
    ),
    "vpc.existing.subnets[].availability_zone": _changed(_existing(), _existing(subnets=[_SECOND])),
    "vpc.existing.new_subnets": _changed(_existing(), _added_subnets()),
    "vpc.existing.new_subnets.cidr": _in_added_subnets(cidr="10.8.160.0/20"),
    "vpc.existing.new_subnets.associate": _in_added_subnets(cidr="100.64.0.0/20", associate=True),
    "vpc.existing.new_subnets.nat_gateway_id": _in_added_subnets(nat_gateway_id="{other_nat}"),
    "vpc.existing.new_subnets.route_table_ids": _in_added_subnets(
        nat_gateway_id=None, route_table_ids=["{route_table}"]
    ),
    "vpc.existing.new_subnets.s3_endpoint": _in_added_subnets(s3_endpoint=False),
    "vpc.existing.security_group_id": _comes_and_goes(_existing(), _existing(security_group_id="{group}")),
    **{
        f"buckets.{name}": _comes_and_goes({}, {"buckets": {name: f"{name}-of-another-time"}})
        for name in ("code", "checkpoints", "output")
    },
    "buckets.checkpoint_versions": (
        *_comes_and_goes({}, {"buckets": {"checkpoint_versions": 3}}),
        *_top("buckets", {"checkpoint_versions": 3}, {"checkpoint_versions": 5}),
    ),
    "data_keys": _comes_and_goes(_CORPUS, {**_CORPUS, "data_keys": [_KEY]}),
    "remote_debug": _comes_and_goes({}, {"remote_debug": True}),
    "secrets": _comes_and_goes({}, {"secrets": ["team/hf"]}),
    "secret_keys": _comes_and_goes({"secrets": ["team/hf"]}, {"secrets": ["team/hf"], "secret_keys": [_KEY]}),
    "role": _comes_and_goes({}, {"role": {"existing": _role("jobs")}}),
    "role.existing": _top("role", {"existing": _role("jobs")}, {"existing": _role("other-jobs")}),
    "role.permissions_boundary": (
        *_comes_and_goes({}, {"role": _bounded("boundary")}),
        *_top("role", _bounded("boundary"), _bounded("other-boundary")),
        # The functions of the CDK have roles, too.
        *_comes_and_goes(_LOGS_KEPT, {**_LOGS_KEPT, "role": _bounded("boundary")}),
    ),
    "teams": (
        *_comes_and_goes({}, {"teams": {"research": {}}}),
        *_comes_and_goes({"teams": {"research": {}}}, {"teams": {"research": {}, "product": {}}}),
    ),
    "teams{}.launchers": _top("teams", {"research": {}}, {"research": {"launchers": [_role("researchers")]}}),
    "data_buckets": _comes_and_goes({}, {"data_buckets": ["corpus-of-dev"]}),
    "launchers": _comes_and_goes({}, {"launchers": ["arn:aws:iam::111122223333:role/researchers"]}),
    "encryption": (
        *_changed({}, {"encryption": "new-key"}),
        *_changed({"lustre": None}, {"lustre": None, "encryption": "new-key"}),
        *_changed({"lustre": None, "encryption": "new-key"}, {"lustre": None}),
    ),
    "queue": _comes_and_goes({}, {"queue": {}}),
    "queue.max_instances": _queue({}, {"max_instances": 9}),
    "queue.shares": (
        *_comes_and_goes({"queue": {}}, {"queue": {"shares": {"a": 1.0}}}),
        *_queue({"shares": {"a": 1.0}}, {"shares": {"a": 0.5}}),
    ),
    "observability": _comes_and_goes({}, {"observability": {}}),
    "observability.email": (
        *_comes_and_goes({"observability": {}}, {"observability": {"email": "a@example.com"}}),
        *_watch({"email": "a@example.com"}, {"email": "b@example.com"}),
    ),
    "observability.monthly_budget_usd": (
        *_comes_and_goes({"observability": {}}, {"observability": {"monthly_budget_usd": 100}}),
        *_watch({"monthly_budget_usd": 100}, {"monthly_budget_usd": 200}),
    ),
    "observability.idle_gpu_minutes": _watch({}, {"idle_gpu_minutes": 60}),
    "observability.free_capacity_percent": _watch({}, {"free_capacity_percent": 20}),
    "observability.job_log_days": (
        *_comes_and_goes({"observability": {}}, _LOGS_KEPT),
        *_watch({"job_log_days": 30}, {"job_log_days": 90}),
    ),
    "removal_policy": (
        *_top("removal_policy", "retain", "destroy"),
        *_top("removal_policy", "destroy", "retain"),
    ),
    "tags": _comes_and_goes({}, {"tags": {"project": "slipway"}}),
}
