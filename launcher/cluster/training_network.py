"""What training asks of a network, for the constructs that build one and for all that judge one.

EFA between the hosts, Lustre's ports between hosts and file system, a way to the services that a job
calls, and addresses for every interface of the hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from launcher.cluster.instances import instance_facts
from launcher.cluster.security_groups import Direction, Passage, PortRange, SecurityGroup, passage
from launcher.cluster.unknown import Unknown

LUSTRE_TCP_PORTS: Final[tuple[PortRange, ...]] = ((988, 988), (1018, 1023))
"""The ranges between clients and servers, and among servers, both ways: servers call clients as well
(FSx for Lustre user guide, limit-access-security-groups)."""

HTTPS_PORT: Final = 443
"""The port of every AWS service."""

S3: Final = "s3"
SERVICES: Final = (S3, "ecr.api", "ecr.dkr", "logs", "monitoring", "sts", "sagemaker.api")
"""What a training job calls, by the ends of the names of their VPC endpoints, which together stand in
for a NAT gateway (SageMaker developer guide, train-vpc; ECR user guide, vpc-endpoints). Without S3 no job
starts; without the others some jobs do."""

SECRETS: Final = "secretsmanager"
"""What a job with secrets calls besides."""

SHELL: Final = "ssmmessages"
"""What the agent calls that lets a shell into a container (Systems Manager user guide,
session-manager-getting-started-privatelink)."""

RESERVED_ADDRESSES: Final = 5
"""AWS keeps the first four addresses and the last of every subnet (VPC user guide, subnet-sizing)."""


def addresses_per_host(instance_type: str) -> int:
    """Private addresses that one training host takes: 2, or with EFA 5, or one per EFA interface.

    Source: SageMaker developer guide, train-vpc (5 per EFA instance, 2 per other). From p5 on a host
    has more than 5 EFA interfaces, each with an address of its own.

    Raises:
        KeyError: it is not a training instance type.
    """
    facts = instance_facts(instance_type)
    if facts is None:
        raise KeyError(instance_type)
    return max(5, facts.efa_interfaces) if facts.has_efa else 2


def efa_passage(group: SecurityGroup, direction: Direction) -> Passage:
    """Whether EFA traffic passes between the group's own members; it needs both directions.

    Only a rule of all traffic that names the group itself counts: EFA traffic is not IP traffic, so no
    range of addresses matches it, not even 0.0.0.0/0, and TCP on every port is not all traffic (EC2 user
    guide, create-efa).
    """
    judged = [Passage.CLOSED]
    for rule in group.towards(direction):
        itself = group.id in rule.groups
        if rule.all_traffic and itself:
            return Passage.OPEN
        may_be_itself = itself or any(isinstance(peer, Unknown) for peer in rule.groups)
        if may_be_itself and (rule.all_traffic or isinstance(rule.protocol, Unknown)):
            judged.append(Passage.UNKNOWN)
    return max(judged)


def lustre_ports(
    judged: Passage,
    groups: Iterable[SecurityGroup],
    direction: Direction,
    *,
    peer_groups: Iterable[str],
    peer_ranges: Sequence[str] | None,
) -> list[PortRange]:
    """Those of Lustre's port ranges that are judged so, between members of the groups and a peer.

    The peer is known as for `passage`. A range is as good as the worst of its ports.
    """
    groups, peer_groups = tuple(groups), tuple(peer_groups)
    return [
        ports
        for ports in LUSTRE_TCP_PORTS
        if passage(groups, direction, ports, peer_groups=peer_groups, peer_ranges=peer_ranges) is judged
    ]


def service_of(endpoint_service: str) -> str:
    """The end of an endpoint service's name: `ecr.api` of `com.amazonaws.us-west-2.ecr.api`.

    Services that are not AWS's keep their whole name.
    """
    _, _, region_and_service = endpoint_service.partition("amazonaws.")
    return region_and_service.partition(".")[2] or endpoint_service
