"""What a change of each field of the cluster file does to a cluster that is deployed: one table.

`POLICIES` has a row for every field of `ClusterSpec`, by its dotted path (`[]` for the items of a list,
`{}` for the values of a mapping with free names); the documentation, `launch cluster plan` and the check
at synthesis all read it. Most rows are constants; where the values decide, a function looks at them.

Sources: the CloudFormation template reference ("Update requires"), the FSx API reference
(UpdateFileSystem, UpdateFileSystemLustreMetadataConfiguration) and the AWS Batch API reference
(CreateJobQueue, UpdateJobQueue).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from launcher.cluster import update_decisions as decide
from launcher.cluster.update_effects import (
    Decided,
    Effect,
    FieldPolicy,
    Policy,
    fails,
    idle,
    in_place,
    replaces,
    replaces_data,
)

_ANOTHER_NETWORK: Final = Decided(
    "replaces the network; AWS refuses it while there is a file system, or NAT in a new VPC", decide.network
)
_FIXED_TYPE: Final = replaces_data("a file system keeps its deployment type")
_LINK: Final = fails(
    "the new link would be made while the old one is there, and FSx links a folder once: take the link out, "
    "deploy, and add it again"
)
_LINKS_GO: Final = replaces("the links go; the files stay")
_SLOTS: Final = Decided(
    "in place where the ranges stay; AWS refuses new ranges over old ones or under a file system",
    decide.slots,
)
_WAY_OUT: Final = idle("the way out changes under jobs that run")
_READ_CACHE: Final = Decided("in place; FSx does not shrink it", decide.read_cache)
_WRITTEN_DOWN: Final = in_place("only written into the manifest")

POLICIES: Final[Mapping[str, FieldPolicy]] = {
    "name": FieldPolicy(Effect(Policy.ANOTHER_CLUSTER, "the stacks are named by it")),
    "region": FieldPolicy(Effect(Policy.ANOTHER_CLUSTER, "stacks stand in one region")),
    "account": FieldPolicy(
        Effect(Policy.ANOTHER_CLUSTER, "stacks stand in one account"),
        added=in_place("the account where it is deployed"),
        removed=in_place(),
    ),
    "availability_zones": FieldPolicy(
        Decided("in place at the end of the list; AWS refuses it elsewhere", decide.zones)
    ),
    "hosts": FieldPolicy(in_place("checked against the addresses that there are")),
    "hosts[].instance_type": FieldPolicy(in_place()),
    "hosts[].count": FieldPolicy(in_place()),
    "max_hosts": FieldPolicy(_SLOTS),
    "lustre": FieldPolicy(
        Decided(
            "another file system takes its place: the cluster's own is kept with `removal_policy: retain`, "
            "and deleted with its data with `destroy`",
            decide.another_file_system,
        ),
        added=in_place(),
        removed=Decided(
            "kept with `removal_policy: retain`; with `destroy` it replaces data", decide.lustre_removed
        ),
    ),
    "lustre.deployment": FieldPolicy(_FIXED_TYPE),
    "lustre.throughput": FieldPolicy(
        replaces_data("CloudFormation replaces a file system whose throughput per TiB changes")
    ),
    "lustre.capacity_gib": FieldPolicy(
        Decided(
            "in place if it grows; FSx does not shrink a file system, nor grow SCRATCH_1", decide.capacity
        )
    ),
    "lustre.compression": FieldPolicy(in_place("files that are written from then on")),
    "lustre.metadata": FieldPolicy(Decided("FSx refuses it where a file system is", decide.metadata)),
    "lustre.metadata.iops": FieldPolicy(Decided("in place if it grows; FSx does not lower it", decide.iops)),
    "lustre.efa": FieldPolicy(replaces_data("the groups of a file system are fixed when it is created")),
    "lustre.backup": FieldPolicy(
        in_place(),
        added=replaces_data("whether backups get the tags is fixed when the file system is created"),
        removed=replaces_data("whether backups get the tags is fixed when the file system is created"),
    ),
    "lustre.backup.retention_days": FieldPolicy(in_place()),
    "lustre.backup.start": FieldPolicy(in_place()),
    "lustre.maintenance": FieldPolicy(in_place()),
    "lustre.intelligent_tiering": FieldPolicy(replaces_data("a file system keeps its kind of storage")),
    "lustre.intelligent_tiering.throughput_mbps": FieldPolicy(
        Decided("in place if it grows; FSx does not lower it", decide.tiering_throughput)
    ),
    "lustre.intelligent_tiering.read_cache.mode": FieldPolicy(_READ_CACHE),
    "lustre.intelligent_tiering.read_cache.gib": FieldPolicy(_READ_CACHE),
    "lustre.existing": FieldPolicy(idle("jobs mount another file system")),
    "lustre.existing.id": FieldPolicy(idle("jobs mount another file system; both stay as they are")),
    **{
        f"lustre.existing.{name}": FieldPolicy(_WRITTEN_DOWN)
        for name in ("mount_name", "subnet_id", "availability_zone", "security_group_id")
    },
    "lustre.associations": FieldPolicy(_LINK, added=in_place(), removed=_LINKS_GO),
    "lustre.associations[].path": FieldPolicy(_LINK),
    "lustre.associations[].s3_uri": FieldPolicy(_LINK),
    "lustre.associations[].import_on_create": FieldPolicy(_LINK),
    "lustre.associations[].auto_import": FieldPolicy(in_place()),
    "lustre.associations[].auto_export": FieldPolicy(in_place()),
    "vpc.cidr": FieldPolicy(_ANOTHER_NETWORK),
    "vpc.nat": FieldPolicy(idle("the way out changes under jobs that run")),
    "vpc.s3_prefix_list_id": FieldPolicy(idle("the rule that leads to S3 is made anew")),
    "vpc.subnets": FieldPolicy(_SLOTS),
    "vpc.subnets[].cidr": FieldPolicy(_SLOTS),
    "vpc.subnets[].nat_cidr": FieldPolicy(_SLOTS),
    "vpc.existing": FieldPolicy(_ANOTHER_NETWORK),
    "vpc.existing.vpc_id": FieldPolicy(_ANOTHER_NETWORK),
    "vpc.existing.subnets": FieldPolicy(
        Decided("in place; replaces data where the first one changes", decide.existing_subnet)
    ),
    "vpc.existing.subnets[].id": FieldPolicy(
        Decided("in place; replaces data where it is the first one", decide.existing_subnet)
    ),
    "vpc.existing.subnets[].availability_zone": FieldPolicy(_WRITTEN_DOWN),
    "vpc.existing.security_group_id": FieldPolicy(
        Decided(
            "needs an idle cluster; with a file system it is refused",
            decide.hosts_group,
        )
    ),
    "vpc.existing.new_subnets": FieldPolicy(_ANOTHER_NETWORK),
    "vpc.existing.new_subnets.cidr": FieldPolicy(_SLOTS),
    "vpc.existing.new_subnets.associate": FieldPolicy(
        fails("a range neither joins a VPC that has it, nor leaves it while subnets lie in it")
    ),
    "vpc.existing.new_subnets.nat_gateway_id": FieldPolicy(_WAY_OUT),
    "vpc.existing.new_subnets.route_table_ids": FieldPolicy(_WAY_OUT),
    "vpc.existing.new_subnets.s3_endpoint": FieldPolicy(idle("traffic with S3 changes its way")),
    "data_buckets": FieldPolicy(Decided("in place; jobs cannot read what goes", decide.data_buckets)),
    "data_keys": FieldPolicy(Decided("in place; jobs cannot read with a key that goes", decide.data_keys)),
    "secrets": FieldPolicy(Decided("in place; jobs cannot read what goes", decide.secrets)),
    "secret_keys": FieldPolicy(Decided("in place; jobs cannot read with a key that goes", decide.secrets)),
    "remote_debug": FieldPolicy(in_place("it counts at once, for jobs that run as well")),
    "launchers": FieldPolicy(in_place()),
    "role": FieldPolicy(Decided("needs an idle cluster where `existing` changes", decide.role)),
    "role.existing": FieldPolicy(idle("jobs that run keep the role that they were started with")),
    "role.permissions_boundary": FieldPolicy(in_place("it counts at once, for jobs that run as well")),
    "teams": FieldPolicy(
        in_place(),
        added=in_place(),
        removed=idle("the team's policy goes, which fails while it is attached: detach it before"),
    ),
    "teams{}.launchers": FieldPolicy(in_place()),
    "encryption": FieldPolicy(
        Decided(
            "in place for new objects; replaces data where there is a persistent file system, or where the "
            "cluster's own key goes with `removal_policy: destroy`",
            decide.encryption,
        )
    ),
    "queue": FieldPolicy(in_place(), added=in_place(), removed=idle("jobs that wait in it are lost")),
    "queue.max_instances": FieldPolicy(in_place()),
    "queue.shares": FieldPolicy(Decided("in place; not from no shares to some, nor back", decide.shares)),
    "observability": FieldPolicy(
        in_place(),
        added=in_place(),
        removed=replaces("topic, alarms and dashboard go, with what subscribed"),
    ),
    "observability.email": FieldPolicy(replaces("the subscription; the new address must confirm it")),
    "observability.monthly_budget_usd": FieldPolicy(in_place()),
    "observability.idle_gpu_minutes": FieldPolicy(in_place()),
    "observability.free_capacity_percent": FieldPolicy(in_place()),
    "observability.job_log_days": FieldPolicy(
        in_place("older logs of all jobs of the account in the region are deleted"),
        removed=in_place("the retention stays as it was set"),
    ),
    "removal_policy": FieldPolicy(in_place("counts for what a later deployment takes away")),
    "tags": FieldPolicy(in_place()),
    "buckets.checkpoint_versions": FieldPolicy(in_place("what is more than so many versions is deleted")),
    **{
        f"buckets.{name}": FieldPolicy(
            Decided("needs an idle cluster; with `destroy` a created bucket is deleted", decide.bucket_named)
        )
        for name in ("code", "checkpoints", "output")
    },
}
"""By field. A test holds that these are exactly the fields of the model that can change by themselves: not
the sections that are always there, `vpc` and `buckets`."""
