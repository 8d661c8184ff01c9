"""What a change of each field of the cluster file does to a cluster that is deployed: one table.

`POLICIES` has a row for every field of `ClusterSpec`, by its dotted path (`[]` for the items of a list,
`{}` for the values of a mapping with free names); the documentation, `launch cluster plan` and the check
at synthesis all read it. Most rows are constants; where the values decide, a function looks at them.

Sources: the CloudFormation template reference ("Update requires"), the FSx API reference
(UpdateFileSystem, UpdateFileSystemLustreMetadataConfiguration) and the AWS Batch API reference
(CreateJobQueue, UpdateJobQueue).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

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


@dataclass(frozen=True, slots=True)
class Effect:
    """What one change does, and why."""

    policy: Policy
    reason: str = ""

    @property
    def words(self) -> str:
        """The effect in the documentation."""
        return f"{self.policy.value}: {self.reason}" if self.reason else self.policy.value


@dataclass(frozen=True, slots=True)
class Values:
    """A field before and after, with the whole files around it."""

    before: Any
    after: Any
    deployed: File
    wanted: File


@dataclass(frozen=True, slots=True)
class Decided:
    """An effect that depends on the values; `words` say in the documentation how."""

    words: str
    effect: Callable[[Values], Effect]


@dataclass(frozen=True, slots=True)
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


def _in_place(reason: str = "") -> Effect:
    return Effect(Policy.IN_PLACE, reason)


def _idle(reason: str) -> Effect:
    return Effect(Policy.IDLE, reason)


def _replaces(reason: str) -> Effect:
    return Effect(Policy.REPLACES, reason)


def _replaces_data(reason: str) -> Effect:
    return Effect(Policy.REPLACES_DATA, reason)


def _fails(reason: str) -> Effect:
    return Effect(Policy.FAILS, reason)


def _has_lustre(values: Values) -> bool:
    """Whether a file system of the cluster's own is there and is to stay."""
    return all(file.get("lustre") is not None for file in (values.deployed, values.wanted))


def _network(values: Values) -> Effect:
    if _has_lustre(values):
        return _replaces_data("the network is made anew, and a file system cannot move to another subnet")
    return _replaces("the network is made anew; jobs that run keep the old one from being deleted")


_ANOTHER_NETWORK: Final = Decided("replaces the network, and with it the file system and its data", _network)


def _zones(values: Values) -> Effect:
    before, after = list(values.before), list(values.after)
    if after[: len(before)] == before:
        return _in_place("a zone at the end gets a subnet of its own; the others stay as they are")
    if before[: len(after)] == after:
        return _idle("the subnets of the zones that go are deleted, which fails while a job runs in them")
    if before[:1] == after[:1] or not _has_lustre(values):
        return _replaces("zones that move get other subnets; the old ones cannot go while a job runs there")
    return _replaces_data("the file system stands in the first zone's subnet, which is made anew")


def _made_anew(values: Values) -> bool:
    """Whether another field of `lustre` makes a new file system in any case, of whatever size."""
    old, new = values.deployed.get("lustre") or {}, values.wanted.get("lustre") or {}
    fixed = any(old.get(name) != new.get(name) for name in ("deployment", "throughput", "efa"))
    return fixed or (old.get("backup") is None) != (new.get("backup") is None)


_OF_THE_NEW_ONE: Final = _in_place("the new file system has it")


def _capacity(values: Values) -> Effect:
    if _made_anew(values):
        return _OF_THE_NEW_ONE
    if values.after < values.before:
        return _fails("FSx does not shrink a file system")
    if (values.deployed.get("lustre") or {}).get("deployment") == "SCRATCH_1":
        return _fails("FSx does not grow SCRATCH_1")
    return _in_place("it grows while it serves, and not again for six hours; it rebalances for hours or days")


def _metadata(values: Values) -> Effect:
    if _made_anew(values):
        return _OF_THE_NEW_ONE
    return _fails("a file system gets a metadata configuration when it is created, or never, and keeps it")


def _iops(values: Values) -> Effect:
    if _made_anew(values):
        return _OF_THE_NEW_ONE
    if values.before is None or values.after is None or values.after >= values.before:
        return _in_place("FSx refuses it where it would be less than there is now")
    return _fails("FSx does not lower metadata IOPS")


def _lustre_removed(values: Values) -> Effect:
    if values.deployed.get("removal_policy") == "destroy":
        return _replaces_data("with `removal_policy: destroy` the file system is deleted with its data")
    return _idle("with `removal_policy: retain` the file system stays in the account; jobs lose its mount")


def _hosts_group(values: Values) -> Effect:
    if _has_lustre(values) and values.deployed["lustre"].get("efa"):
        return _replaces_data("with `efa` the file system stands in the hosts' group, which is fixed")
    return _idle("jobs that run keep the old group, which the file system no longer lets in")


def _existing_subnet(values: Values) -> Effect:
    first = [
        (((file.get("vpc") or {}).get("existing") or {}).get("subnets") or [{}])[0].get("id")
        for file in (values.deployed, values.wanted)
    ]
    if first[0] != first[1] and _has_lustre(values):
        return _replaces_data("the file system stands in the first subnet and cannot move")
    return _in_place("further jobs run in the subnets that are named")


def _bucket_named(values: Values) -> Effect:
    if values.before is None and values.deployed.get("removal_policy") == "destroy":
        return _replaces_data("with `removal_policy: destroy` the bucket that was created is deleted")
    return _idle("objects stay where they are; what jobs resume from or read is looked for in the new bucket")


def _data_buckets(values: Values) -> Effect:
    gone = [name for name in values.before if name not in values.after]
    return _idle(f"jobs that read {' or '.join(gone)} are denied") if gone else _in_place()


def _encryption(values: Values) -> Effect:
    lustre = values.deployed.get("lustre")
    if _has_lustre(values) and str((lustre or {}).get("deployment")).startswith("PERSISTENT"):
        return _replaces_data("the key of a file system is fixed when it is created")
    if values.before == "new-key" and values.deployed.get("removal_policy") == "destroy":
        return _replaces_data("the cluster's own key is deleted, without which its objects cannot be read")
    return _in_place("new objects get the new key; those that are there keep theirs")


def _shares(values: Values) -> Effect:
    if bool(values.before) == bool(values.after):
        return _in_place()
    return _fails(
        "a queue stays first in, first out, or with shares; remove `queue`, deploy, and add it again"
    )


_FIXED_TYPE: Final = _replaces_data("a file system keeps its deployment type")
_LINK: Final = _replaces("the link to S3 is made anew; files stay, what was not exported yet is not in S3")
_LINKS_GO: Final = _replaces("the links go; the files stay")
_WRITTEN_DOWN: Final = _in_place("only written into the manifest")

POLICIES: Final[Mapping[str, FieldPolicy]] = {
    "name": FieldPolicy(Effect(Policy.ANOTHER_CLUSTER, "the stacks are named by it")),
    "region": FieldPolicy(Effect(Policy.ANOTHER_CLUSTER, "stacks stand in one region")),
    "availability_zones": FieldPolicy(
        Decided("in place at the end of the list; replaces data where the first one changes", _zones)
    ),
    "hosts": FieldPolicy(_in_place("checked against the addresses that there are")),
    "hosts[].instance_type": FieldPolicy(_in_place()),
    "hosts[].count": FieldPolicy(_in_place()),
    "lustre": FieldPolicy(
        _in_place(),
        added=_in_place(),
        removed=Decided(
            "kept with `removal_policy: retain`; with `destroy` it replaces data", _lustre_removed
        ),
    ),
    "lustre.deployment": FieldPolicy(_FIXED_TYPE),
    "lustre.throughput": FieldPolicy(
        _replaces_data("CloudFormation replaces a file system whose throughput per TiB changes")
    ),
    "lustre.capacity_gib": FieldPolicy(
        Decided("in place if it grows; FSx does not shrink a file system, nor grow SCRATCH_1", _capacity)
    ),
    "lustre.compression": FieldPolicy(_in_place("files that are written from then on")),
    "lustre.metadata": FieldPolicy(Decided("FSx refuses it for a file system that is there", _metadata)),
    "lustre.metadata.iops": FieldPolicy(Decided("in place if it grows; FSx does not lower it", _iops)),
    "lustre.efa": FieldPolicy(_replaces_data("the groups of a file system are fixed when it is created")),
    "lustre.backup": FieldPolicy(
        _in_place(),
        added=_replaces_data("whether backups get the tags is fixed when the file system is created"),
        removed=_replaces_data("whether backups get the tags is fixed when the file system is created"),
    ),
    "lustre.backup.retention_days": FieldPolicy(_in_place()),
    "lustre.associations": FieldPolicy(_LINK, added=_in_place(), removed=_LINKS_GO),
    "lustre.associations[].path": FieldPolicy(_LINK),
    "lustre.associations[].s3_uri": FieldPolicy(_LINK),
    "lustre.associations[].import_on_create": FieldPolicy(_LINK),
    "lustre.associations[].auto_import": FieldPolicy(_in_place()),
    "lustre.associations[].auto_export": FieldPolicy(_in_place()),
    "vpc.cidr": FieldPolicy(_ANOTHER_NETWORK),
    "vpc.nat": FieldPolicy(_idle("the way out changes under jobs that run")),
    "vpc.s3_prefix_list_id": FieldPolicy(_idle("the rule that leads to S3 is made anew")),
    "vpc.existing": FieldPolicy(_ANOTHER_NETWORK),
    "vpc.existing.vpc_id": FieldPolicy(_ANOTHER_NETWORK),
    "vpc.existing.subnets": FieldPolicy(
        Decided("in place; replaces data where the first one changes", _existing_subnet)
    ),
    "vpc.existing.subnets[].id": FieldPolicy(
        Decided("in place; replaces data where it is the first one", _existing_subnet)
    ),
    "vpc.existing.subnets[].availability_zone": FieldPolicy(_WRITTEN_DOWN),
    "vpc.existing.security_group_id": FieldPolicy(
        Decided("needs an idle cluster; replaces data with `lustre.efa`", _hosts_group)
    ),
    "data_buckets": FieldPolicy(Decided("in place; jobs cannot read a bucket that goes", _data_buckets)),
    "launchers": FieldPolicy(_in_place()),
    "encryption": FieldPolicy(
        Decided(
            "in place for new objects; replaces data where there is a persistent file system, or where the "
            "cluster's own key goes with `removal_policy: destroy`",
            _encryption,
        )
    ),
    "queue": FieldPolicy(_in_place(), added=_in_place(), removed=_idle("jobs that wait in it are lost")),
    "queue.max_instances": FieldPolicy(_in_place()),
    "queue.shares": FieldPolicy(Decided("in place; not from no shares to some, nor back", _shares)),
    "observability": FieldPolicy(
        _in_place(),
        added=_in_place(),
        removed=_replaces("topic, alarms and dashboard go, with what subscribed"),
    ),
    "observability.email": FieldPolicy(_replaces("the subscription; the new address must confirm it")),
    "observability.monthly_budget_usd": FieldPolicy(_in_place()),
    "observability.idle_gpu_minutes": FieldPolicy(_in_place()),
    "observability.free_capacity_percent": FieldPolicy(_in_place()),
    "removal_policy": FieldPolicy(_in_place("counts for what a later deployment takes away")),
    "tags": FieldPolicy(_in_place()),
    **{
        f"buckets.{name}": FieldPolicy(
            Decided("needs an idle cluster; with `destroy` a created bucket is deleted", _bucket_named)
        )
        for name in ("code", "checkpoints", "output")
    },
}
"""By field. A test holds that these are exactly the fields of the model that can change by themselves: not
the sections that are always there, `vpc` and `buckets`."""
