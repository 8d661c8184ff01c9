"""The HyperPod cluster of a cluster file: groups of nodes on which Slurm runs jobs.

HyperPod's image sets a node up by itself, with Slurm and the file system (SageMaker developer guide,
smcluster-getting-started-slurm-cli: AMI-based configuration); ours runs after that (OnInitComplete).
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from launcher.cluster.instances import hyperpod_instance_types, instance_facts
from launcher.cluster.names import WITHOUT_HYPERPOD
from launcher.cluster.storage_section import LustreSpec
from launcher.documents import FilePart, refuse
from launcher.text.values import nearest

_HYPERPOD_NAME = r"[a-zA-Z0-9](-*[a-zA-Z0-9])*"
"""Of groups and partitions (SageMaker API reference, ClusterInstanceGroupName, ClusterPartitionName)."""

TRAINING_PLAN = re.compile(
    r"arn:aws[a-z-]*:sagemaker:(?P<region>[a-z0-9-]+):(?P<account>[0-9]{12}):training-plan/[A-Za-z0-9-]+"
)

_SSH_KEY = (
    r"^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) "
    r"[A-Za-z0-9+/]{40,1400}={0,2}( [A-Za-z0-9_.@+-]{1,100})?$"
)
"""A public key as OpenSSH writes it, with a comment or without, and without options (sshd(8))."""

_EVERYWHERE = "dev"
"""A partition that HyperPod adds, with all nodes in it (SageMaker developer guide,
sagemaker-hyperpod-ref)."""


class HyperPodGroup(FilePart):
    """Nodes of one type that do the same in a HyperPod cluster."""

    name: str = Field(pattern=rf"^{_HYPERPOD_NAME}$", max_length=63, description="Names the group.")
    role: Literal["controller", "login", "compute"] = Field(
        default="compute",
        description="compute: nodes that run jobs. controller: the one that runs slurmctld. login: where "
        "people log in, instead of on the controller.",
    )
    instance_type: str = Field(description="A type that HyperPod has, such as ml.p5.48xlarge.")
    count: int = Field(default=1, ge=0, le=6758, description="Nodes of the group.")
    partition: str | None = Field(
        default=None,
        pattern=rf"^{_HYPERPOD_NAME}$",
        max_length=63,
        description="Slurm's partition of a compute group: its name when left out. Groups can share one. All "
        "nodes are in the partition dev as well, which HyperPod adds.",
    )
    training_plan: str | None = Field(
        default=None,
        description="ARN of a training plan whose capacity the nodes take, in the zone of the file system. "
        "On demand when left out.",
    )
    deep_health_checks: list[Literal["InstanceStress", "InstanceConnectivity"]] = Field(
        default_factory=list,
        description="What a node must pass before it takes jobs, where it has accelerators; they take up to "
        "hours.",
    )
    threads_per_core: int | None = Field(default=None, ge=1, le=2, description="AWS's default when left out.")
    volume_gib: int | None = Field(
        default=None,
        ge=1,
        le=16384,
        description="Size of a second volume, at /opt/sagemaker, encrypted with the cluster's key. None when "
        "left out.",
    )

    @field_validator("instance_type")
    @classmethod
    def _is_one_of_hyperpod(cls, instance_type: str) -> str:
        known = hyperpod_instance_types()
        if instance_type not in known:
            refuse(
                f"HyperPod has no nodes of {instance_type!r}: SageMaker would refuse the cluster",
                remedy=f"The nearest are {', '.join(nearest(instance_type, known, most=3)) or known[0]}.",
            )
        return instance_type

    @field_validator("training_plan")
    @classmethod
    def _is_a_training_plan(cls, plan: str | None) -> str | None:
        if plan is not None and TRAINING_PLAN.fullmatch(plan) is None:
            refuse(
                f"{plan!r} is not the ARN of a training plan",
                remedy="An ARN looks like arn:aws:sagemaker:us-west-2:123456789012:training-plan/p5-in-may.",
            )
        return plan

    @model_validator(mode="after")
    def _says_what_its_role_takes(self) -> HyperPodGroup:
        facts = instance_facts(self.instance_type)
        if self.role != "compute":
            for field in ("partition", "training_plan", "deep_health_checks"):
                if getattr(self, field):
                    refuse(
                        f"a group of the role {self.role} has no `{field}`: it runs no jobs",
                        remedy="Leave it out, or let the role be compute.",
                        below=(field,),
                    )
        elif self.deep_health_checks and facts is not None and facts.accelerator is None:
            refuse(
                f"{self.instance_type} has no accelerators, which is what deep health checks are of",
                remedy="Leave them out.",
                below=("deep_health_checks",),
            )
        if self.role == "controller" and self.count != 1:
            refuse(
                f"{self.count} controllers: Slurm has one here",
                remedy="Leave out `count`.",
                below=("count",),
            )
        if self.role == "compute" and self.slurm_partition == _EVERYWHERE:
            refuse(
                f"the partition {_EVERYWHERE} is HyperPod's own, which has all nodes in it",
                remedy="Call the group, or its `partition`, another name.",
                below=("partition" if self.partition else "name",),
            )
        return self

    @property
    def slurm_partition(self) -> str:
        """The partition of a compute group."""
        return self.partition or self.name


class HyperPodSpec(FilePart):
    """A HyperPod cluster with Slurm, in the subnet of the file system, which every node has at /fsx."""

    groups: list[HyperPodGroup] = Field(
        min_length=1,
        max_length=99,
        description="The nodes. Where no group is the controller, there is one called controller, an "
        "ml.m5.xlarge.",
    )
    recovery: Literal["automatic", "none"] = Field(
        default="automatic",
        description="Whether HyperPod reboots and replaces faulty nodes by itself.",
    )
    continuous: bool = Field(
        default=False,
        description="Whether the cluster is there as soon as its controller is, and nodes join as there is "
        "capacity; else a deployment waits for all of them, and fails where one is missing.",
    )
    ssh_keys: list[Annotated[str, StringConstraints(pattern=_SSH_KEY)]] = Field(
        default_factory=list,
        max_length=50,
        description="Public keys of those who log in as ubuntu, through Systems Manager: what "
        "`launch --slurm` does.",
    )

    @field_validator("groups")
    @classmethod
    def _make_a_cluster(cls, groups: list[HyperPodGroup]) -> list[HyperPodGroup]:
        for position, group in enumerate(groups):
            before = groups[:position]
            if group.name in [each.name for each in before]:
                refuse(f"{group.name!r} is there twice", remedy="Rename one.", below=(position, "name"))
            if group.role != "compute" and group.role in [each.role for each in before]:
                refuse(
                    f"a second group of the role {group.role}: HyperPod takes one",
                    remedy="Leave out one of the two, or give `count` to a group of login nodes.",
                    below=(position, "role"),
                )
        roles = {each.role: each for each in groups}
        if "compute" not in roles:
            refuse("no group is of the role compute: nothing would run jobs", remedy="Add one.")
        if "controller" not in roles and DEFAULT_CONTROLLER.name in [each.name for each in groups]:
            refuse(
                f"a group is called {DEFAULT_CONTROLLER.name}, and is not of that role",
                remedy="Rename it, or add a group of the role controller.",
            )
        return groups

    @property
    def all_groups(self) -> list[HyperPodGroup]:
        """The groups with the controller's, which may not be among `groups`; it is the first."""
        given = [each for each in self.groups if each.role == "controller"]
        return [
            *(given or [DEFAULT_CONTROLLER]),
            *(each for each in self.groups if each.role != "controller"),
        ]

    @property
    def entry_group(self) -> HyperPodGroup:
        """The group on whose nodes people log in: the login nodes, or the controller."""
        return next((each for each in self.groups if each.role == "login"), self.all_groups[0])


DEFAULT_CONTROLLER = HyperPodGroup(name="controller", role="controller", instance_type="ml.m5.xlarge")
"""Slurm's controller where the cluster file names none; HyperPod's image keeps the accounting's database on
it as well."""


def check_hyperpod(
    hyperpod: HyperPodSpec, *, region: str | None, account: str | None, lustre: LustreSpec | None
) -> None:
    """Refuse a HyperPod cluster where there can be none, or whose nodes could not work together."""
    if region in WITHOUT_HYPERPOD:
        refuse(f"CloudFormation has no HyperPod clusters in {region}", remedy="Leave out `hyperpod`.")
    if lustre is None:
        refuse(
            "there is no `lustre`: the nodes would share no folder, in which runs and their checkpoints lie",
            remedy="Add `lustre`.",
        )
    for position, group in enumerate(hyperpod.groups):
        plan = TRAINING_PLAN.fullmatch(group.training_plan or "")
        where = {"region": region, "account": account}
        for word, ours in where.items():
            if plan is not None and ours is not None and plan[word] != ours:
                refuse(
                    f"the training plan is of the {word} {plan[word]}, the cluster of {ours}",
                    remedy=f"Name a plan of the {word} {ours}.",
                    below=("groups", position, "training_plan"),
                )
