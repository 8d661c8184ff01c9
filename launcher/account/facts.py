"""A fact that could not be had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from launcher.account.capacity import Image, Quota, RunningJob
from launcher.account.identities import Permissions, Role
from launcher.account.network import Endpoint, NetworkAcl, RouteTable, Subnet
from launcher.account.storage import Bucket, BucketEncryption, DataRepositoryAssociation, FileSystem, Prefix
from launcher.cluster.traffic import SecurityGroup


@dataclass(frozen=True, slots=True)
class Unverified:
    """A fact that could not be had.

    `what` names it for a person (`the subnets`), `permission` the IAM action that it needs
    (`ec2:DescribeSubnets`), `reason` what came instead: AWS's refusal, or no answer in time.
    """

    what: str
    permission: str
    reason: str


__all__ = [
    "AccountFacts",
    "Fact",
    "Image",
    "Permissions",
    "Prefix",
    "Quota",
    "RunningJob",
    "Unverified",
]


T = TypeVar("T")
Fact: TypeAlias = T | Unverified
"""What was found, or why it could not be looked at."""


@dataclass(frozen=True, slots=True)
class AccountFacts:
    """All that the live rules look at.

    A fact that the job does not need is None: no VPC, no file system, an image outside of ECR. What was
    asked for by id and does not exist is missing from its tuple, or None where it is a single thing.
    `permissions` says what the policies of `role` amount to, `caller` whether the caller may pass the role.
    The job itself is not among `running_jobs`. `warm_pool_quota` is there where the job keeps its hosts.
    `offered_in` holds the availability zones that offer the instance type.
    """

    region: str
    subnets: Fact[tuple[Subnet, ...]] | None = None
    groups: Fact[tuple[SecurityGroup, ...]] | None = None
    route_tables: Fact[tuple[RouteTable, ...]] | None = None
    endpoints: Fact[tuple[Endpoint, ...]] | None = None
    endpoint_groups: Fact[tuple[SecurityGroup, ...]] | None = None
    acls: Fact[tuple[NetworkAcl, ...]] | None = None
    file_system: Fact[FileSystem | None] | None = None
    associations: Fact[tuple[DataRepositoryAssociation, ...]] | None = None
    file_system_groups: Fact[tuple[SecurityGroup, ...]] | None = None
    buckets: Mapping[str, Fact[Bucket | None]] = field(default_factory=dict)
    encryption: Mapping[str, Fact[BucketEncryption]] = field(default_factory=dict)
    prefixes: Mapping[str, Fact[Prefix]] = field(default_factory=dict)
    role: Fact[Role | None] | None = None
    permissions: Fact[Permissions] | None = None
    caller: Fact[Permissions] | None = None
    image: Fact[Image] | None = None
    quota: Fact[Quota | None] | None = None
    warm_pool_quota: Fact[Quota | None] | None = None
    running_jobs: Fact[tuple[RunningJob, ...]] | None = None
    offered_in: Fact[frozenset[str]] | None = None
