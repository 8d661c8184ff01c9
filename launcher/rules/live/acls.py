"""Whether a network ACL lets traffic across the border of its subnet.

ACLs do not see traffic that stays within a subnet (VPC user guide, vpc-network-acls).
"""

from __future__ import annotations

from ipaddress import ip_network

from launcher.account.network_acls import NetworkAcl
from launcher.cluster.security_groups import ANY_IPV4, Direction

ANSWERS = (32768, 60999)
"""The ports on which Linux awaits the answers to its own calls (net.ipv4.ip_local_port_range)."""


def lets_pass(acl: NetworkAcl, direction: Direction, ports: tuple[int, int], cidr: str) -> bool | None:
    """Whether these TCP ports pass between the subnet and all addresses of an IPv4 range.

    `0.0.0.0/0` stands for the public addresses of AWS, about which entries for private ranges say
    nothing. None where it depends on the address. The first entry that matches decides; without one
    the traffic is dropped.
    """
    wanted, first, last = ip_network(cidr, strict=False), *ports
    depends = False
    for entry in acl.entries:
        if entry.direction != direction or ":" in entry.cidr or not entry.touches_tcp(first, last):
            continue
        about = ip_network(entry.cidr, strict=False)
        if not about.overlaps(wanted) or (cidr == ANY_IPV4 and entry.cidr != ANY_IPV4 and about.is_private):
            continue
        if about.prefixlen > wanted.prefixlen:
            depends = True
        elif not entry.allows:
            return None if depends else False
        elif entry.covers_tcp(first, last):
            return None if depends else True
    return None if depends else False
