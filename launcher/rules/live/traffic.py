"""Whether security groups let traffic pass, judged by every peer that a permission can name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from ipaddress import IPv4Network, collapse_addresses

from launcher.account.security_groups import ANY_IPV4, Direction, Permission, SecurityGroup

HTTPS = 443
_MOST_PEERS = 4


class Passage(IntEnum):
    """Whether traffic passes. UNKNOWN: it depends on addresses that were not looked into."""

    CLOSED = 0
    UNKNOWN = 1
    OPEN = 2


def passage(
    groups: Sequence[SecurityGroup],
    direction: Direction,
    ports: tuple[int, int],
    *,
    peer_groups: Iterable[str] = (),
    peer_ranges: Sequence[str] | None = None,
) -> Passage:
    """Whether these TCP ports pass between the members of the groups and a peer.

    A network interface obeys all of its groups together, so one permission of any of them is enough.
    The peer is known by its groups, and by the IPv4 ranges in which its address may lie (None: not
    known). A reference to one of its groups opens the way, and so do ranges that together hold all of
    the peer's. A prefix list, or a range that holds a part, may open it. IPv6 ranges never do: the
    hosts talk to each other, to FSx and to endpoints over IPv4.
    """
    first, last = ports
    groups_of_peer = frozenset(peer_groups)
    permissions = [each for group in groups for each in group.towards(direction)]
    return min(
        _port(
            [each for each in permissions if each.covers_tcp(port, port)],
            groups_of_peer,
            peer_ranges,
        )
        for port in range(first, last + 1)
    )


def reaches_any_address(groups: Sequence[SecurityGroup], port: int = HTTPS) -> bool:
    """Whether TCP traffic on a port gets out to every IPv4 address."""
    return passage(groups, "egress", (port, port), peer_ranges=[ANY_IPV4]) is Passage.OPEN


def reaches_a_prefix_list(groups: Sequence[SecurityGroup], port: int = HTTPS) -> bool:
    """Whether TCP traffic on a port gets out to a prefix list, as the one of a gateway endpoint."""
    return any(
        each.prefix_lists and each.covers_tcp(port, port)
        for group in groups
        for each in group.towards("egress")
    )


def in_words(group: SecurityGroup, direction: Direction) -> str:
    """What a group lets pass in a direction, such as `all traffic to 0.0.0.0/0; TCP 988 to sg-1`."""
    return "; ".join(map(permission_in_words, group.towards(direction))) or "nothing"


def permission_in_words(permission: Permission) -> str:
    """One permission: protocol, ports and peers."""
    peers = [*permission.groups, *permission.ipv4, *permission.ipv6, *permission.prefix_lists]
    more = f" and {len(peers) - _MOST_PEERS} more" if len(peers) > _MOST_PEERS else ""
    way = "from" if permission.direction == "ingress" else "to"
    return f"{_protocol(permission)} {way} {', '.join(peers[:_MOST_PEERS]) or 'nobody'}{more}"


def ports_in_words(ports: tuple[int, int]) -> str:
    """Such as `TCP 988` or `TCP 1018-1023`."""
    first, last = ports
    return f"TCP {first}" if first == last else f"TCP {first}-{last}"


def _port(
    permissions: Sequence[Permission], peer_groups: frozenset[str], peer_ranges: Sequence[str] | None
) -> Passage:
    if any(not peer_groups.isdisjoint(each.groups) for each in permissions):
        return Passage.OPEN
    allowed = [IPv4Network(cidr, strict=False) for each in permissions for cidr in each.ipv4]
    if _holds_all(allowed, peer_ranges):
        return Passage.OPEN
    if any(each.prefix_lists for each in permissions) or _may_hold_some(allowed, peer_ranges):
        return Passage.UNKNOWN
    return Passage.CLOSED


def _holds_all(allowed: Sequence[IPv4Network], wanted: Sequence[str] | None) -> bool:
    whole = list(collapse_addresses(allowed))
    if wanted is None:
        return IPv4Network(ANY_IPV4) in whole
    ranges = [IPv4Network(cidr, strict=False) for cidr in wanted]
    return bool(ranges) and all(any(each.subnet_of(one) for one in whole) for each in ranges)


def _may_hold_some(allowed: Sequence[IPv4Network], wanted: Sequence[str] | None) -> bool:
    if wanted is None:
        return bool(allowed)
    ranges = [IPv4Network(cidr, strict=False) for cidr in wanted]
    return any(each.overlaps(one) for each in ranges for one in allowed)


def _protocol(permission: Permission) -> str:
    if permission.all_traffic:
        return "all traffic"
    if permission.first_port is None:
        return permission.protocol.upper()
    last = permission.last_port
    same = last is None or last == permission.first_port
    span = str(permission.first_port) if same else f"{permission.first_port}-{last}"
    return f"{permission.protocol.upper()} {span}"
