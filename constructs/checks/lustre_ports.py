"""FSX004: the ports of Lustre are open between clients and servers, and among the servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from constructs.checks.app import App, finding
from constructs.checks.security_groups import Direction, Group, Rule
from constructs.checks.templates import Resource

from launcher.cluster.lustre import LUSTRE_TCP_PORTS
from launcher.failure_modes.model import Finding
from launcher.failure_modes.storage import LUSTRE_PORTS_CLOSED

_FIRST, _LAST = LUSTRE_TCP_PORTS[0][0], LUSTRE_TCP_PORTS[-1][1]
_BOTH: tuple[Direction, Direction] = ("ingress", "egress")


def lustre_ports_are_open_both_ways(app: App) -> Iterator[Finding]:
    """TCP 988 and 1018-1023 pass in and out, between the servers' groups and with every client's group.

    The clients are the groups that the rules on these ports name; where there are none and no range of
    addresses either, the groups used for EFA in the same VPC. Of a group that is not the app's only the
    servers' side is judged, and nothing of a file system with such a group.
    """
    for file_system in app.lustre:
        servers = _groups(app, file_system.properties.get("SecurityGroupIds"))
        if servers:
            closed = list(_closed(app, servers, _network(app, file_system)))
            if closed:
                yield finding(LUSTRE_PORTS_CLOSED, file_system, f"closed: {'; '.join(closed)}")


def _groups(app: App, ids: Any) -> list[Group]:
    """The groups, if all of them are the app's."""
    if not isinstance(ids, list) or not all(id_ in app.groups for id_ in ids):
        return []
    return [app.groups[id_] for id_ in ids]


def _network(app: App, file_system: Resource) -> str | None:
    """The range of addresses that the servers stand in, if it is known."""
    ids = file_system.properties.get("SubnetIds")
    subnet = app.subnets.get(ids[0]) if isinstance(ids, list) and ids else None
    return subnet.cidr if subnet else None


def _closed(app: App, servers: Sequence[Group], network: str | None) -> Iterator[str]:
    own = [group.id for group in servers]
    for direction in _BOTH:
        yield from _missing(servers, direction, own, network, ("the servers", "one another"))
    for client in _clients(app, servers):
        for direction in _BOTH:
            # The range of the clients' addresses is not known: any range may hold them.
            yield from _missing(servers, direction, [client], None, ("the servers", client))
            if client in app.groups:
                group = [app.groups[client]]
                yield from _missing(group, direction, own, network, (client, "the servers"))


def _clients(app: App, servers: Sequence[Group]) -> list[str]:
    own = {group.id for group in servers}
    opened = [rule for group in servers for rule in group.rules if _concerns_lustre(rule)]
    named = {peer for rule in opened for peer in rule.groups}
    for group in app.groups.values():
        if any(_concerns_lustre(rule) and own & set(rule.groups) for rule in group.rules):
            named.add(group.id)
    reached_by_address = any(rule.direction == "ingress" and rule.touches(None) for rule in opened)
    if not named - own and not reached_by_address and not own & app.efa_groups:
        vpcs = {group.vpc for group in servers}
        named = {id_ for id_ in app.efa_groups if id_ in app.groups and app.groups[id_].vpc in vpcs}
    return sorted(named - own)


def _concerns_lustre(rule: Rule) -> bool:
    if rule.all_traffic:
        return True
    return rule.protocol == "tcp" and rule.first <= _LAST and rule.last >= _FIRST


def _missing(
    groups: Sequence[Group],
    direction: Direction,
    peers: Sequence[str],
    network: str | None,
    names: tuple[str, str],
) -> Iterator[str]:
    """The ports that do not pass between groups and their peers, or the peers' range of addresses."""
    rules = [rule for group in groups for rule in group.towards(direction)]
    passing = [rule for rule in rules if any(map(rule.names, peers)) or rule.touches(network)]
    into, source = ("into", "from") if direction == "ingress" else ("out of", "to")
    for first, last in LUSTRE_TCP_PORTS:
        if not any(rule.covers_tcp(first, last) for rule in passing):
            ports = f"{first}" if first == last else f"{first}-{last}"
            yield f"TCP {ports} {into} {names[0]} {source} {names[1]}"
