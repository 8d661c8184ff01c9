"""Whether the hosts can meet at all, though the rules of their group are right (NCCL007)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from launcher.account.network import Subnet
from launcher.cluster.security_groups import BOTH_WAYS
from launcher.failure_modes import nccl
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.rules.live.acls import ANSWERS, lets_pass
from launcher.rules.live.rule import live_rule
from launcher.rules.live.subject import LiveSubject


@live_rule(nccl.INITIALISATION_STALLED, "subnets", "groups")
def network_is_one(subject: LiveSubject) -> Iterator[Finding]:
    """Subnets and groups belong to one VPC; the request is refused otherwise."""
    subnets, groups = subject.network.subnets, subject.network.groups
    vpcs = dict.fromkeys(
        [*(each.vpc_id for each in subnets), *(each.vpc_id for each in groups if each.vpc_id is not None)]
    )
    if len(vpcs) < 2:
        return
    placed = [(each.vpc_id, each.id) for each in subnets] + [(each.vpc_id, each.id) for each in groups]
    members = "; ".join(f"{vpc}: {', '.join(id_ for at, id_ in placed if at == vpc)}" for vpc in vpcs)
    yield nccl.INITIALISATION_STALLED.at(
        ("network",),
        f"the job's subnets and security groups belong to different VPCs ({members}): hosts of one could "
        "not reach those of another, and the job would be refused",
        remedy="Name subnets and groups of one VPC in `network`.",
        stage=Stage.LIVE,
        subject="network",
    )


@live_rule(nccl.INITIALISATION_STALLED, "subnets")
def hosts_share_a_zone(subject: LiveSubject) -> Iterator[Finding]:
    """EFA does not cross zones; the service keeps a job in one, and only one subnet makes it sure."""
    zones = dict.fromkeys(each.availability_zone for each in subject.network.subnets)
    if len(zones) < 2 or subject.hosts < 2 or not subject.has_efa:
        return
    yield nccl.INITIALISATION_STALLED.at(
        ("network", "subnets"),
        f"the subnets are in several availability zones ({', '.join(zones)}), and EFA does not cross zones: "
        f"the {subject.hosts} hosts must all land in one of them",
        remedy="Name one subnet in `network.subnets` to decide which; give several for the capacity of "
        "either zone.",
        severity=Severity.INFO,
        stage=Stage.LIVE,
        subject="network.subnets",
    )


@live_rule(nccl.INITIALISATION_STALLED, "subnets", "acls")
def subnets_of_a_zone_are_connected(subject: LiveSubject) -> Iterator[Finding]:
    """Two subnets of one zone, between which an ACL closes the way.

    ACLs see only what crosses the border of a subnet, so hosts in one subnet always reach each other.
    """
    if subject.hosts < 2:
        return
    reported = set()
    for here, there in permutations(subject.network.subnets, 2):
        acl = subject.network.acl(here.id)
        if acl is None or acl.id in reported or not _neighbours(here, there):
            continue
        if False not in (lets_pass(acl, way, ANSWERS, there.cidr) for way in BOTH_WAYS):
            continue
        reported.add(acl.id)
        yield nccl.INITIALISATION_STALLED.at(
            ("network", "subnets"),
            f"the network ACL {acl.id} of {here.id} closes the way to {there.id} ({there.cidr}): hosts "
            "placed in both would stand still at NCCL initialisation",
            remedy="Let all traffic pass between the two ranges, or name one of the subnets in "
            "`network.subnets`.",
            severity=Severity.WARNING,
            stage=Stage.LIVE,
            subject=acl.id,
        )


def _neighbours(one: Subnet, other: Subnet) -> bool:
    return one.availability_zone == other.availability_zone
