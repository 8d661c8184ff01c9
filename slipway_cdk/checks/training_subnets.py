"""Rules on training subnets: they have a way out (EFA003), and hold the hosts that are planned (EFA004)."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network

from launcher.cluster.traffic import (
    HTTPS_PORT,
    RESERVED_ADDRESSES,
    S3,
    SERVICES,
    Passage,
    SecurityGroupRule,
    addresses_per_host,
)
from launcher.failure_modes import network
from launcher.failure_modes.model import Finding, Severity
from slipway_cdk.checks.app import App, EfaUse, finding
from slipway_cdk.checks.efa_groups import described
from slipway_cdk.checks.subnets import TemplateEndpoint, TemplateSubnet


def training_hosts_have_a_way_out(app: App) -> Iterator[Finding]:
    """Training subnets lead to a NAT gateway or have the endpoints, and the groups let HTTPS out.

    Without S3 no job starts: an error. With S3, but without some of the others, a warning: jobs of
    which SageMaker pulls the image may do without.
    """
    yield from _subnets_without(app)
    for use in app.efa_uses:
        if not _lets_https_out(app, use):
            group = app.groups[use.groups[0]]
            what = f"no rule lets TCP {HTTPS_PORT} out to anything else; egress: {described(group, 'egress')}"
            yield finding(network.NO_WAY_OUT, group.id, what)


def _subnets_without(app: App) -> Iterator[Finding]:
    found: dict[str, Finding] = {}
    for placement in app.placements:
        missing = {subnet: _missing(app, subnet) for subnet in placement.subnets}
        if not placement.each and not all(missing.values()):
            continue  # Jobs may run in the subnets that are well.
        for subnet, services in missing.items():
            if services:
                severity = Severity.ERROR if S3 in services else Severity.WARNING
                what = f"no route leads out of this subnet, nor do endpoints to {', '.join(services)}"
                found[subnet.id] = finding(network.NO_WAY_OUT, subnet.id, what, severity=severity)
    yield from found.values()


def _missing(app: App, subnet: TemplateSubnet) -> list[str]:
    """The services that cannot be reached from a subnet."""
    if subnet.leads_out or not subnet.settled:
        return []
    served = {each.service for each in app.endpoints if _serves(app, each, subnet)}
    return [service for service in SERVICES if service not in served]


def _serves(app: App, endpoint: TemplateEndpoint, subnet: TemplateSubnet) -> bool:
    if endpoint.vpc_id != subnet.vpc_id:
        return False
    if endpoint.gateway:
        return subnet.route_table is not None and subnet.route_table in endpoint.route_tables
    # Without private names a client must be told the endpoint's own; for S3 alone that is usual.
    return (endpoint.private_dns or endpoint.service == S3) and _admits_https(app, endpoint)


def _admits_https(app: App, endpoint: TemplateEndpoint) -> bool:
    groups = [app.groups[id_] for id_ in endpoint.security_groups if id_ in app.groups]
    return len(groups) < len(endpoint.security_groups or ("default",)) or any(
        _may_pass_https(rule) for group in groups for rule in group.towards("ingress")
    )


def _lets_https_out(app: App, use: EfaUse) -> bool:
    """Whether one of the groups has egress of HTTPS to more than the groups themselves."""
    groups = [app.groups[id_] for id_ in use.groups if id_ in app.groups]
    return len(groups) < len(use.groups) or any(
        _may_pass_https(rule)
        and (rule.ipv4 or rule.ipv6 or rule.prefix_lists or set(rule.groups) - set(use.groups))
        for group in groups
        for rule in group.towards("egress")
    )


def _may_pass_https(rule: SecurityGroupRule) -> bool:
    return rule.tcp_passage(HTTPS_PORT, HTTPS_PORT) is not Passage.CLOSED


# EFA004: training subnets hold the hosts that are planned.


def training_subnets_hold_the_planned_hosts(app: App) -> Iterator[Finding]:
    """Each training subnet has addresses for all the hosts that the author of the app plans for.

    A job runs in one zone and so in one subnet. Nothing is judged where no hosts are planned.
    """
    hosts = app.declared.hosts
    needed = sum(count * addresses_per_host(instance_type) for instance_type, count in hosts.items())
    planned = ", ".join(f"{count} of {instance_type}" for instance_type, count in hosts.items())
    found: dict[str, Finding] = {}
    for placement in app.placements:
        small = [subnet for subnet in placement.subnets if _addresses(subnet) < needed]
        if placement.each or len(small) == len(placement.subnets):
            for subnet in small:
                room = f"{_addresses(subnet):.0f} addresses for hosts"
                what = f"{subnet.cidr} has {room}, but {planned} need {needed}"
                found[subnet.id] = finding(network.TOO_FEW_ADDRESSES, subnet.id, what)
    yield from found.values()


def _addresses(subnet: TemplateSubnet) -> float:
    """How many addresses a subnet has for hosts; without end where its range is not known."""
    if subnet.cidr is None:
        return float("inf")
    return IPv4Network(subnet.cidr).num_addresses - RESERVED_ADDRESSES
