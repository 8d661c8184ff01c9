"""A file system that outlives its cluster, and what a cluster file says to use it again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.account.file_system import parse_file_system
from launcher.account.questions.file_system import describe_file_system
from launcher.account.questions.network import fetch_subnets
from launcher.aws.clients import Clients
from launcher.aws.stacks import StackResource
from launcher.cluster.manifest import Lustre

_GROUP = "AWS::EC2::SecurityGroup"


@dataclass(frozen=True, slots=True)
class KeptLustre:
    """A file system that stays, in full, and the VPC and the hosts' group that stay with it.

    Both are empty where the VPC was there before the cluster: its file names it already.
    """

    lustre: Lustre
    vpc_id: str
    hosts_group_id: str

    @property
    def sections(self) -> dict[str, Any]:
        """The sections of a cluster file with which it is used again."""
        found: dict[str, Any] = {"lustre": {"existing": self.lustre.model_dump()}}
        if self.vpc_id:
            subnet = {"id": self.lustre.subnet_id, "availability_zone": self.lustre.availability_zone}
            existing = {"vpc_id": self.vpc_id, "subnets": [subnet], "security_group_id": self.hosts_group_id}
            found["vpc"] = {"existing": existing}
        return found

    @property
    def lines(self) -> tuple[str, ...]:
        """The same as YAML, a line for each section."""
        return tuple(f"{name}: {_flow(value)}" for name, value in self.sections.items())


def fetch_kept_lustre(
    storage: Iterable[StackResource], network: Iterable[StackResource], clients: Clients, region: str
) -> KeptLustre | None:
    """The file system among what outlives the storage stack; None where none does, or it is gone since.

    `network` is what outlives the network stack. Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    kept = {each.type: each.physical_id for each in storage}
    around = {each.type: each.physical_id for each in network}
    file_system, group = kept.get("AWS::FSx::FileSystem"), kept.get(_GROUP)
    described = describe_file_system(clients("fsx", region), file_system) if file_system else None
    if described is None or group is None:
        return None
    found = parse_file_system(described)
    subnets = fetch_subnets(clients("ec2", region), [found.subnet_id] if found.subnet_id else [])
    if not found.mount_name or not subnets:
        return None
    lustre = Lustre(
        id=found.id,
        mount_name=found.mount_name,
        subnet_id=subnets[0].id,
        availability_zone=subnets[0].availability_zone,
        security_group_id=group,
    )
    return KeptLustre(lustre, around.get("AWS::EC2::VPC", ""), around.get(_GROUP, ""))


def _flow(value: Any) -> str:
    """A value in one line of YAML, with all texts quoted: a mount name such as 12e45678 would be a number."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_flow(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return json.dumps(value)
