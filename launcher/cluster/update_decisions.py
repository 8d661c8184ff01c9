"""What a change of a field does where its values decide: a function for each such row of the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from launcher.cluster.address_slots import ZoneAddresses
from launcher.cluster.network_specification import VpcSpec
from launcher.cluster.update_effects import (
    Effect,
    File,
    Values,
    fails,
    idle,
    in_place,
    replaces,
    replaces_data,
)


def has_lustre(values: Values) -> bool:
    """Whether a file system of the cluster's own is there and is to stay."""
    return all(_own_lustre(file) is not None for file in (values.deployed, values.wanted))


def _own_lustre(file: File) -> Mapping[str, Any] | None:
    lustre: Mapping[str, Any] | None = file.get("lustre")
    return None if lustre is None or lustre.get("existing") is not None else lustre


_HELD = "the file system holds on to it: take `lustre` out, deploy, change this, and add `lustre` again"


def network(values: Values) -> Effect:
    """Another range, or another VPC."""
    if has_lustre(values):
        existing = (values.deployed.get("vpc") or {}).get("existing") or {}
        if existing.get("subnets"):  # they are named, not exported: nothing holds on to them
            return replaces_data("the file system stands in the first subnet and cannot move")
        return fails(f"the network is made anew, and {_HELD}")
    both = [file.get("vpc") or {} for file in (values.deployed, values.wanted)]
    if all(vpc.get("cidr") is not None and vpc.get("nat") for vpc in both):
        return fails(
            "the new network would want the internet gateway and the address that the old one still has: "
            "destroy the cluster and deploy it anew"
        )
    return replaces("the network is made anew; jobs that run keep the old one from being deleted")


def zones(values: Values) -> Effect:
    """The list of zones, whose subnets are numbered by their places in it."""
    before, after = list(values.before), list(values.after)
    if after[: len(before)] == before:
        return in_place("a zone at the end gets a subnet of its own; the others stay as they are")
    if before[: len(after)] == after:
        return idle("the subnets of the zones that go are deleted, which fails while a job runs in them")
    return fails(
        "the subnet of another zone would want the range that the old one still has: add zones at the end, "
        "and take them out there"
    )


def made_anew(values: Values) -> bool:
    """Whether another field of `lustre` makes a new file system in any case, of whatever size."""
    old, new = values.deployed.get("lustre") or {}, values.wanted.get("lustre") or {}
    fixed = any(old.get(name) != new.get(name) for name in ("deployment", "throughput", "efa"))
    either = any(
        (old.get(name) is None) != (new.get(name) is None) for name in ("backup", "intelligent_tiering")
    )
    return fixed or either


OF_THE_NEW_ONE: Final = in_place("the new file system has it")


def capacity(values: Values) -> Effect:
    """The size of a file system, which only grows."""
    if made_anew(values):
        return OF_THE_NEW_ONE
    if values.after < values.before:
        return fails("FSx does not shrink a file system")
    if (values.deployed.get("lustre") or {}).get("deployment") == "SCRATCH_1":
        return fails("FSx does not grow SCRATCH_1")
    return in_place("it grows while it serves, and not again for six hours; it rebalances for hours or days")


def metadata(values: Values) -> Effect:
    """The metadata configuration as a whole."""
    if made_anew(values):
        return OF_THE_NEW_ONE
    return fails("a file system gets a metadata configuration when it is created, or never, and keeps it")


def iops(values: Values) -> Effect:
    """Metadata IOPS, which only grow."""
    if made_anew(values):
        return OF_THE_NEW_ONE
    if values.before is None or values.after is None or values.after >= values.before:
        return in_place("FSx refuses it where it would be less than there is now")
    return fails("FSx does not lower metadata IOPS")


def lustre_removed(values: Values) -> Effect:
    """The cluster's own file system leaves the cluster file."""
    if values.deployed.get("removal_policy") == "destroy":
        return replaces_data("with `removal_policy: destroy` the file system is deleted with its data")
    return idle("with `removal_policy: retain` the file system stays in the account; jobs lose its mount")


def another_file_system(values: Values) -> Effect:
    """A file system of the cluster's own is exchanged for one that is there already, or the reverse."""
    if _own_lustre(values.deployed) is None:
        return idle("jobs mount the new, empty file system; the one that was there stays where it is")
    return lustre_removed(values)


def slots(values: Values) -> Effect:
    """The ranges of subnets, wherever in the file they are decided."""
    before, after = _addresses(values.deployed), _addresses(values.wanted)
    if before and after and before[0].training != after[0].training and has_lustre(values):
        return fails(f"the first subnet is made anew, and {_HELD}")
    taken = [each for one in before for each in (one.training, one.nat) if each is not None]
    if any(one.nat != other.nat for one, other in zip(before[:1], after, strict=False)):
        return fails("a new NAT gateway would want the address that the old one still has")
    changed = [
        other.training for one, other in zip(before, after, strict=False) if one.training != other.training
    ]
    if any(new.overlaps(old) for new in changed for old in taken):
        return fails("new subnets would overlap with the old ones, which are still there then")
    if changed:
        return replaces("subnets are made anew; the old ones cannot go while a job runs in them")
    return in_place("the ranges of the subnets stay what they are")


def _addresses(file: File) -> list[ZoneAddresses]:
    """The ranges of a file's new subnets; none where they are there already, or do not fit."""
    plan = VpcSpec.model_validate(file["vpc"]).address_plan(
        len(file.get("availability_zones") or ()), file.get("max_hosts")
    )
    try:
        return plan.by_zone() if plan else []
    except ValueError:  # by another version's rules it did
        return []


def tiering_throughput(values: Values) -> Effect:
    """The throughput of a file system on Intelligent-Tiering, which only grows."""
    if made_anew(values):
        return OF_THE_NEW_ONE
    if values.after >= values.before:
        return in_place()
    return fails("FSx does not lower the throughput of a file system on Intelligent-Tiering")


def read_cache(values: Values) -> Effect:
    """The cache of reads of a file system on Intelligent-Tiering."""
    return OF_THE_NEW_ONE if made_anew(values) else in_place("FSx refuses it where it would shrink")


def role(values: Values) -> Effect:
    """The section with the role, which is there or not."""
    existing = [(file.get("role") or {}).get("existing") for file in (values.deployed, values.wanted)]
    if existing[0] == existing[1]:
        return in_place()
    return idle("jobs that run keep the role that they were started with, which goes if the cluster made it")


def data_keys(values: Values) -> Effect:
    """Keys of buckets that jobs read."""
    gone = [key for key in values.before if key not in values.after]
    return idle("jobs cannot read what is encrypted with a key that goes") if gone else in_place()


def secrets(values: Values) -> Effect:
    """Secrets that jobs read, and the keys of these."""
    gone = [each for each in values.before if each not in values.after]
    return idle("jobs that start meanwhile cannot read what goes") if gone else in_place()


def hosts_group(values: Values) -> Effect:
    """The group of the hosts in an existing VPC."""
    if has_lustre(values) and values.before is None:
        return fails(f"the cluster's own group goes, and {_HELD}")
    if has_lustre(values) and values.deployed["lustre"].get("efa"):
        return replaces_data("with `efa` the file system stands in the hosts' group, which is fixed")
    return idle("jobs that run keep the old group, which the file system no longer lets in")


def existing_subnet(values: Values) -> Effect:
    """The subnets that are there already, the first of which holds the file system."""
    first = [
        (((file.get("vpc") or {}).get("existing") or {}).get("subnets") or [{}])[0].get("id")
        for file in (values.deployed, values.wanted)
    ]
    if first[0] != first[1] and has_lustre(values):
        return replaces_data("the file system stands in the first subnet and cannot move")
    return in_place("further jobs run in the subnets that are named")


def bucket_named(values: Values) -> Effect:
    """A bucket of the cluster's own gives way to one that exists, or the reverse."""
    if values.before is None and values.deployed.get("removal_policy") == "destroy":
        return replaces_data("with `removal_policy: destroy` the bucket that was created is deleted")
    return idle("objects stay where they are; what jobs resume from or read is looked for in the new bucket")


def data_buckets(values: Values) -> Effect:
    """Further buckets that jobs read."""
    gone = [name for name in values.before if name not in values.after]
    return idle(f"jobs that read {' or '.join(gone)} are denied") if gone else in_place()


def encryption(values: Values) -> Effect:
    """The key of everything."""
    lustre = values.deployed.get("lustre")
    if has_lustre(values) and str((lustre or {}).get("deployment")).startswith("PERSISTENT"):
        return replaces_data("the key of a file system is fixed when it is created")
    if values.before == "new-key" and values.deployed.get("removal_policy") == "destroy":
        return replaces_data("the cluster's own key is deleted, without which its objects cannot be read")
    return in_place("new objects get the new key; those that are there keep theirs")


def shares(values: Values) -> Effect:
    """Fair shares of a queue."""
    if bool(values.before) == bool(values.after):
        return in_place()
    return fails(
        "a queue stays first in, first out, or with shares; remove `queue`, deploy, and add it again"
    )
