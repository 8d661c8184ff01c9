"""What a change of each field of the cluster file does to a cluster that is deployed: one table, and who
reads it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel

from launcher.cluster.address_slots import ZoneAddresses
from launcher.cluster.hyperpod_section import DEFAULT_CONTROLLER
from launcher.cluster.network_section import VpcSpec
from launcher.cluster.specification import ClusterSpec
from launcher.failure_modes.model import Path as FieldPath
from launcher.failure_modes.model import dotted
from launcher.frozen import frozen

File = Mapping[str, Any]
"""A cluster file as plain JSON data with all defaults, as `ClusterSpec.model_dump(mode="json")` gives it."""


class Policy(StrEnum):
    """What happens to what is deployed when a field changes, from the lightest to the heaviest."""

    IN_PLACE = "in place"
    """Nothing that runs is hit."""
    IDLE = "needs an idle cluster"
    """Jobs that run would be hit, or jobs that wait would be lost."""
    REPLACES = "replaces a resource"
    """Something without data is deleted and made anew."""
    ANOTHER_CLUSTER = "another cluster"
    """A second cluster would be built, and this one stays as it is."""
    UNKNOWN = "not known"
    """The cluster was deployed with a field that this version does not know."""
    REPLACES_DATA = "replaces data"
    """Something with data in it is deleted or left behind; refused unless asked for."""
    FAILS = "refused by AWS"
    """The deployment would fail and roll back."""


@frozen
class Effect:
    """What one change does, and why."""

    policy: Policy
    reason: str = ""

    @property
    def words(self) -> str:
        """The effect in the documentation."""
        return f"{self.policy.value}: {self.reason}" if self.reason else self.policy.value


@frozen
class Values:
    """A field before and after, with the whole files around it."""

    before: Any
    after: Any
    deployed: File
    wanted: File


@frozen
class Decided:
    """An effect that depends on the values; `words` say in the documentation how."""

    words: str
    effect: Callable[[Values], Effect]


@frozen
class FieldPolicy:
    """The effects of one field; what is added or removed has that of a change unless it says otherwise.

    Added is what the deployed file had not (null, or an empty list or mapping), removed what it alone has.
    """

    changed: Effect | Decided
    added: Effect | Decided | None = None
    removed: Effect | Decided | None = None

    @property
    def words(self) -> str:
        """The row in the documentation."""
        kinds = {"added": self.added, "removed": self.removed}
        own = [f"{kind}: {effect.words}" for kind, effect in kinds.items() if effect is not None]
        if not own:
            return self.changed.words
        return "; ".join([f"changed: {self.changed.words}", *own] if len(own) < len(kinds) else own)


def in_place(reason: str = "") -> Effect:
    """Nothing that runs is hit."""
    return Effect(Policy.IN_PLACE, reason)


def idle(reason: str) -> Effect:
    """Jobs that run, or wait, would be hit."""
    return Effect(Policy.IDLE, reason)


def replaces(reason: str) -> Effect:
    """Something without data is made anew."""
    return Effect(Policy.REPLACES, reason)


def replaces_data(reason: str) -> Effect:
    """Something with data is deleted or left behind."""
    return Effect(Policy.REPLACES_DATA, reason)


def fails(reason: str) -> Effect:
    """AWS refuses it."""
    return Effect(Policy.FAILS, reason)


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


def managed(values: Values) -> Effect:
    """The controller of managed runs, which is there or not."""
    if values.after:
        return in_place()
    return idle("runs that were handed over to the controller are not gone on with when a job of theirs ends")


def _node_groups(file: File) -> dict[str, Mapping[str, Any]]:
    """The groups of HyperPod's nodes by their names, the controller's first."""
    groups = (file.get("hyperpod") or {}).get("groups") or []
    controllers = [each for each in groups if each.get("role") == "controller"]
    first = controllers or [DEFAULT_CONTROLLER.model_dump(mode="json")]
    return {str(each.get("name")): each for each in [*first, *groups]}


def node_groups(values: Values) -> Effect:
    """Groups of HyperPod's nodes, which are known by their names, wherever they stand in the list."""
    before, after = _node_groups(values.deployed), _node_groups(values.wanted)
    if next(iter(before)) != next(iter(after)):
        return fails("the controller is fixed: take `hyperpod` out, deploy, and add it again")
    for name in before.keys() & after.keys():
        if any(before[name].get(field) != after[name].get(field) for field in ("role", "instance_type")):
            return fails(f"{name} keeps its role and type: add another group, and take this one out later")
    gone = [name for name in before if name not in after]
    return idle(f"the nodes of {' and '.join(gone)} go, with what they run") if gone else in_place()


def node_count(values: Values) -> Effect:
    """How many nodes the groups have that stay."""
    before, after = _node_groups(values.deployed), _node_groups(values.wanted)
    fewer = [
        name
        for name in before
        if name in after and after[name].get("count", 1) < before[name].get("count", 1)
    ]
    return idle(f"nodes of {' and '.join(fewer)} go, with what they run") if fewer else in_place()


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


_DECIDED_BY: Final[Mapping[str, Callable[[Values], Effect]]] = {
    each.__name__: each
    for each in (
        network, zones, capacity, metadata, iops, lustre_removed, another_file_system, slots,
        tiering_throughput, read_cache, role, data_keys, secrets, hosts_group, existing_subnet, bucket_named,
        data_buckets, encryption, shares, managed, node_groups, node_count,
    )
}  # fmt: skip


def _effect(written: str | Mapping[str, str]) -> Effect | Decided:
    if isinstance(written, str):
        policy, _, reason = written.partition(": ")
        return Effect(Policy(policy), reason)
    return Decided(written["words"], _DECIDED_BY[written["decided_by"]])


POLICIES: Final[Mapping[str, FieldPolicy]] = {
    field: FieldPolicy(**{kind: _effect(written) for kind, written in row.items() if kind != "fields"})
    for row in tomllib.loads(Path(__file__).with_name("field_policies.toml").read_text("utf-8"))["row"]
    for field in row["fields"]
}
"""By field, from `field_policies.toml`. A test holds that these are exactly the fields of the model that can
change by themselves: not the sections that are always there, `vpc` and `buckets`."""


Kind = Literal["changed", "added", "removed"]

CLUSTER_FILE_METADATA = "slipway:cluster-file"
"""Where the manifest's parameter has the cluster file that was deployed, as JSON, in its metadata.

Not in the metadata of the template itself: CloudFormation updates those only together with a resource, so
that they would tell of an earlier file (CloudFormation user guide, metadata-section-structure).
"""


@frozen
class FieldChange:
    """One field that differs: where it stands, what it was and is to be, and what the change does.

    A list with more or fewer items, and a section that comes or goes, is one change with all of it.
    """

    path: FieldPath
    kind: Kind
    before: Any
    after: Any
    effect: Effect

    @property
    def field(self) -> str:
        """The field as messages name it, such as `vpc.existing.subnets.0.id`."""
        return str(dotted(self.path))

    @property
    def policy(self) -> Policy:
        """What the change does."""
        return self.effect.policy

    def obstacle(self, *, replace_data: bool) -> str | None:
        """Why the change is not to be deployed, in a sentence; None where it may be.

        `replace_data` says that data may be deleted, or left behind. What AWS refuses stays refused.
        """
        if self.policy is Policy.FAILS:
            return f"`{self.field}`: AWS refuses the change: {self.effect.reason}."
        if self.policy is Policy.REPLACES_DATA and not replace_data:
            return f"`{self.field}` replaces data: {self.effect.reason}."
        return None

    def to_json(self) -> dict[str, Any]:
        """The change in the shape that `--output json` prints."""
        return {
            "field": self.field,
            "kind": self.kind,
            "before": self.before,
            "after": self.after,
            "policy": self.policy.name.lower().replace("_", "-"),
            "reason": self.effect.reason,
        }


_LATER = ("secrets", "secret_keys", "remote_debug", "managed", "hyperpod")
"""The fields that earlier versions do not know."""


def cluster_file_data(spec: ClusterSpec) -> dict[str, Any]:
    """A cluster file as plain JSON data, with all defaults."""
    return spec.model_dump(mode="json")


def kept_cluster_file(spec: ClusterSpec) -> dict[str, Any]:
    """What is kept of a cluster file with a deployment: all of it, but for `_LATER` where there are none.

    Versions that do not know the fields read the others then, and templates stay as they were.
    """
    kept = cluster_file_data(spec)
    return {name: value for name, value in kept.items() if value or name not in _LATER}


def deployed_cluster_file(template: Mapping[str, Any]) -> dict[str, Any] | None:
    """The cluster file in the template of a deployed manifest stack; None where an earlier version made it.

    Raises ValueError where what stands there is not the JSON of a mapping.
    """
    for resource in template.get("Resources", {}).values():
        text = resource.get("Metadata", {}).get(CLUSTER_FILE_METADATA)
        if text is not None:
            found = json.loads(text) if isinstance(text, str) else text
            if not isinstance(found, dict):
                raise ValueError(f"{CLUSTER_FILE_METADATA} holds no mapping")
            return found
    return None


def changes(deployed: ClusterSpec | File, wanted: ClusterSpec) -> list[FieldChange]:
    """What differs between the file that was deployed and the one that is wanted, in the file's order.

    A field that the deployed file does not have, because an earlier version wrote it, has its default.
    """
    before = cluster_file_data(deployed) if isinstance(deployed, ClusterSpec) else dict(deployed)
    after = cluster_file_data(wanted)
    return list(_in_section(ClusterSpec, before, after, (), "", (before, after)))


def fields_of(model: type[BaseModel] = ClusterSpec, prefix: str = "") -> Iterator[str]:
    """Every field of the model that can change by itself, as `POLICIES` writes its path."""
    for name, info in model.model_fields.items():
        path = f"{prefix}{name}"
        part, mark = _part(info.annotation)
        if part is None or mark or (not info.is_required() and info.default is None):
            yield path
        if part is not None:
            yield from fields_of(part, f"{path}{mark}.")


def _in_section(
    model: type[BaseModel],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    path: FieldPath,
    prefix: str,
    files: tuple[File, File],
) -> Iterator[FieldChange]:
    for name, info in model.model_fields.items():
        old = before[name] if name in before else _default(info)
        new = after[name]
        part, mark = _part(info.annotation)
        yield from _in_field((*path, name), f"{prefix}{name}", old, new, part, mark, files)
    for name in before.keys() - model.model_fields.keys():
        unknown = Effect(Policy.UNKNOWN, "this version of Slipway does not know the field")
        yield FieldChange((*path, name), "removed", before[name], None, unknown)


def _in_field(
    path: FieldPath,
    row: str,
    old: Any,
    new: Any,
    part: type[BaseModel] | None,
    mark: str,
    files: tuple[File, File],
) -> Iterator[FieldChange]:
    if old == new:
        return
    # A file system of the cluster's own and one that is there already have no field in common.
    exchanged = row == "lustre" and _exists(old) is not _exists(new)
    if part is None or not _comparable(old, new) or exchanged:
        yield _change(path, POLICIES[row], old, new, files)
    elif mark == "[]":
        if len(old) != len(new):
            yield _change(path, POLICIES[row], old, new, files)
        # The resources of a list are numbered: the first of the old ones becomes the first of the new ones.
        for position, (one, other) in enumerate(zip(old, new, strict=False)):
            yield from _in_section(part, one, other, (*path, position), f"{row}[].", files)
    elif mark == "{}":
        for name in {**old, **new}:
            if name in old and name in new:
                yield from _in_section(part, old[name], new[name], (*path, name), f"{row}{{}}.", files)
            else:
                yield _change((*path, name), POLICIES[row], old.get(name), new.get(name), files)
    else:
        yield from _in_section(part, old, new, path, f"{row}.", files)


def _exists(lustre: Any) -> bool:
    """Whether the section `lustre` names a file system that is there already."""
    return lustre is not None and lustre.get("existing") is not None


def _comparable(old: Any, new: Any) -> bool:
    return old is not None and new is not None and type(old) is type(new)


def _change(path: FieldPath, row: FieldPolicy, old: Any, new: Any, files: tuple[File, File]) -> FieldChange:
    kind: Kind = "changed"
    if old in (None, [], {}) or (_lists(old, new) and len(old) < len(new)):
        kind = "added"
    elif new in (None, [], {}) or (_lists(old, new) and len(old) > len(new)):
        kind = "removed"
    effect = {"added": row.added, "removed": row.removed}.get(kind) or row.changed
    if isinstance(effect, Decided):
        effect = effect.effect(Values(old, new, *files))
    return FieldChange(path, kind, old, new, effect)


def _lists(old: Any, new: Any) -> bool:
    return isinstance(old, list) and isinstance(new, list)


def _default(info: Any) -> Any:
    """A field's default as the file's data would have it."""
    value = info.get_default(call_default_factory=True)
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value


def _part(annotation: Any) -> tuple[type[BaseModel] | None, str]:
    """The model inside of a field's annotation, and how a path marks that there are many: `[]` or `{}`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, ""
    mark = {list: "[]", dict: "{}"}.get(get_origin(annotation), "")
    for inner in reversed(get_args(annotation)):
        part, within = _part(inner)
        if part is not None:
            return part, mark or within
    return None, ""
