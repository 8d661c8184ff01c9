"""FSX004: the ports of Lustre are open between clients and servers, and among the servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from constructs.checks.app import App, finding
from constructs.checks.templates import Resource

from launcher.cluster.traffic import (
    ALL_TRAFFIC,
    BOTH_WAYS,
    LUSTRE_TCP_PORTS,
    Direction,
    Passage,
    SecurityGroup,
    SecurityGroupRule,
    lustre_ports,
    ports_in_words,
)
from launcher.failure_modes import storage
from launcher.failure_modes.model import Finding

_FIRST, _LAST = LUSTRE_TCP_PORTS[0][0], LUSTRE_TCP_PORTS[-1][1]


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
                yield finding(storage.LUSTRE_PORTS_CLOSED, file_system.id, f"closed: {'; '.join(closed)}")


def _groups(app: App, ids: Any) -> list[SecurityGroup]:
    """The groups, if all of them are the app's."""
    if not isinstance(ids, list) or not all(id_ in app.groups for id_ in ids):
        return []
    return [app.groups[id_] for id_ in ids]


def _network(app: App, file_system: Resource) -> str | None:
    """The range of addresses that the servers stand in, if it is known."""
    ids = file_system.properties.get("SubnetIds")
    subnet = app.subnets.get(ids[0]) if isinstance(ids, list) and ids else None
    return subnet.cidr if subnet else None


def _closed(app: App, servers: Sequence[SecurityGroup], network: str | None) -> Iterator[str]:
    own = [group.id for group in servers]
    for direction in BOTH_WAYS:
        yield from _missing(servers, direction, own, network, ("the servers", "one another"))
    for client in _clients(app, servers):
        for direction in BOTH_WAYS:
            # The range of the clients' addresses is not known: any range may hold them.
            yield from _missing(servers, direction, [client], None, ("the servers", client))
            if client in app.groups:
                group = [app.groups[client]]
                yield from _missing(group, direction, own, network, (client, "the servers"))


def _clients(app: App, servers: Sequence[SecurityGroup]) -> list[str]:
    own = {group.id for group in servers}
    opened = [rule for group in servers for rule in group.rules if _concerns_lustre(rule)]
    named = {peer for rule in opened for peer in rule.groups}
    for group in app.groups.values():
        if any(_concerns_lustre(rule) and own & set(rule.groups) for rule in group.rules):
            named.add(group.id)
    reached_by_address = any(rule.direction == "ingress" and rule.may_name((), None) for rule in opened)
    if not named - own and not reached_by_address and not own & app.efa_groups:
        vpcs = {group.vpc_id for group in servers}
        named = {id_ for id_ in app.efa_groups if id_ in app.groups and app.groups[id_].vpc_id in vpcs}
    return sorted(named - own)


def _concerns_lustre(rule: SecurityGroupRule) -> bool:
    """Whether a rule is about Lustre's ports or those between them; one of an unknown protocol is not."""
    known = rule.protocol in (ALL_TRAFFIC, "tcp")
    return known and any(rule.tcp_passage(port, port) for port in range(_FIRST, _LAST + 1))


def _missing(
    groups: Sequence[SecurityGroup],
    direction: Direction,
    peers: Sequence[str],
    network: str | None,
    names: tuple[str, str],
) -> Iterator[str]:
    """The ports that do not pass between groups and their peers, or the peers' range of addresses."""
    ranges = None if network is None else (network,)
    into, source = ("into", "from") if direction == "ingress" else ("out of", "to")
    for ports in lustre_ports(Passage.CLOSED, groups, direction, peer_groups=peers, peer_ranges=ranges):
        yield f"{ports_in_words(ports)} {into} {names[0]} {source} {names[1]}"
