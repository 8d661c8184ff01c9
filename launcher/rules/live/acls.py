"""Whether a network ACL lets traffic across the border of its subnet.

ACLs do not see traffic that stays within a subnet (VPC user guide, vpc-network-acls).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_network

from launcher.account.network_acls import NetworkAcl, NetworkAclEntry
from launcher.cluster.security_groups import ANY_IPV4, Direction

ANSWERS = (32768, 60999)
"""The ports on which Linux awaits the answers to its own calls (net.ipv4.ip_local_port_range)."""


def lets_pass(acl: NetworkAcl, direction: Direction, ports: tuple[int, int], cidr: str) -> bool | None:
    """Whether these TCP ports pass between the subnet and all addresses of an IPv4 range.

    `0.0.0.0/0` stands for the public addresses of AWS, about which entries for private ranges say
    nothing. None where it depends on the address. For each port the first entry that matches decides, so
    several entries may open a range together; without one the traffic is dropped.
    """
    entries = [each for each in acl.entries if each.direction == direction and _is_about(each, cidr)]
    verdicts = {_first_match(entries, span, cidr) for span in _spans(entries, ports)}
    return False if False in verdicts else None if None in verdicts else True


def _is_about(entry: NetworkAclEntry, cidr: str) -> bool:
    if ":" in entry.cidr:
        return False
    about = ip_network(entry.cidr, strict=False)
    is_elsewhere = cidr == ANY_IPV4 and entry.cidr != ANY_IPV4 and about.is_private
    return about.overlaps(ip_network(cidr, strict=False)) and not is_elsewhere


def _spans(entries: Sequence[NetworkAclEntry], ports: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """The ports in spans of which each entry holds all or none."""
    first, last = ports
    edges = {edge for each in entries for edge in (each.first_tcp, each.last_tcp + 1) if first < edge <= last}
    starts = sorted({first, *edges})
    yield from zip(starts, [*(start - 1 for start in starts[1:]), last], strict=True)


def _first_match(entries: Sequence[NetworkAclEntry], span: tuple[int, int], cidr: str) -> bool | None:
    depends = False
    for entry in entries:
        if not entry.touches_tcp(*span):
            continue
        if ip_network(entry.cidr, strict=False).prefixlen > ip_network(cidr, strict=False).prefixlen:
            depends = True
        else:
            return None if depends else entry.allows
    return None if depends else False
