"""What the AWS account really holds for one job: plain data, gathered before anything judges it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from launcher.account.buckets import Bucket
from launcher.account.file_system import FileSystem
from launcher.account.network import Endpoint, RouteTable, Subnet
from launcher.account.network_acls import NetworkAcl
from launcher.account.role import Role
from launcher.account.security_groups import SecurityGroup


@dataclass(frozen=True, slots=True)
class Unverified:
    """A fact that could not be had.

    `what` names it for a person (`the subnets`), `permission` the IAM action that it needs
    (`ec2:DescribeSubnets`), `reason` what came instead: AWS's refusal, or no answer in time.
    """

    what: str
    permission: str
    reason: str


T = TypeVar("T")
Fact: TypeAlias = T | Unverified
"""What was found, or why it could not be looked at."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """A place in S3 that the job reads; `objects` counts at most two of what lies there."""

    uri: str
    objects: int


@dataclass(frozen=True, slots=True)
class Image:
    """A training image in a registry; `exists` is false where the registry has no such tag or digest."""

    uri: str
    exists: bool


@dataclass(frozen=True, slots=True)
class Quota:
    """How many hosts of a type the account may use in training jobs at the same time.

    `name` is the quota's in Service Quotas, `code` its code there; `in_use` counts the hosts of running
    training jobs of the region.
    """

    name: str
    code: str
    limit: float
    in_use: int


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A training job that has not ended; `checkpoints` is its prefix on S3, None without one."""

    name: str
    status: str
    checkpoints: str | None


@dataclass(frozen=True, slots=True)
class Permissions:
    """What IAM's simulation says a principal may not do: (action, resource) pairs."""

    principal: str
    denied: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class AccountFacts:
    """All that the live rules look at.

    A fact that the job does not need is None: no VPC, no file system, an image outside of ECR. What was
    asked for by id and does not exist is missing from its tuple, or None where it is a single thing.
    `offered_in` holds the availability zones that offer the instance type; `caller` says whether the
    caller may pass the role, `permissions` what the role itself lacks.
    """

    region: str
    subnets: Fact[tuple[Subnet, ...]] | None = None
    groups: Fact[tuple[SecurityGroup, ...]] | None = None
    route_tables: Fact[tuple[RouteTable, ...]] | None = None
    endpoints: Fact[tuple[Endpoint, ...]] | None = None
    endpoint_groups: Fact[tuple[SecurityGroup, ...]] | None = None
    acls: Fact[tuple[NetworkAcl, ...]] | None = None
    file_system: Fact[FileSystem | None] | None = None
    file_system_groups: Fact[tuple[SecurityGroup, ...]] | None = None
    buckets: Mapping[str, Fact[Bucket | None]] = field(default_factory=dict)
    prefixes: Mapping[str, Fact[Prefix]] = field(default_factory=dict)
    role: Fact[Role | None] | None = None
    permissions: Fact[Permissions] | None = None
    caller: Fact[Permissions] | None = None
    image: Fact[Image] | None = None
    quota: Fact[Quota | None] | None = None
    running_jobs: Fact[tuple[RunningJob, ...]] | None = None
    offered_in: Fact[frozenset[str]] | None = None
