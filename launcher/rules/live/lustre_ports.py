"""Whether Lustre's traffic passes between the hosts and the file system's servers (FSX004)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from launcher.cluster.security_groups import Direction, Passage, PortRange, SecurityGroup, ports_in_words
from launcher.cluster.training_network import lustre_ports
from launcher.failure_modes import storage
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.rules.live.rule import live_rule
from launcher.rules.live.subject import LiveSubject, known


@dataclass(frozen=True, slots=True)
class Side:
    """One end of the traffic in one direction: the groups there, and the groups at the other end."""

    groups: tuple[SecurityGroup, ...]
    direction: Direction
    peers: tuple[SecurityGroup, ...]
    peer_ranges: tuple[str, ...] | None
    who: str

    def ports(self, judged: Passage) -> list[PortRange]:
        """The ranges of Lustre's ports that are judged so."""
        return lustre_ports(
            judged,
            self.groups,
            self.direction,
            peer_groups=[each.id for each in self.peers],
            peer_ranges=self.peer_ranges,
        )


@live_rule(storage.LUSTRE_PORTS_CLOSED, "file_system", "file_system_groups", "groups", "subnets")
def lustre_ports_are_open(subject: LiveSubject) -> Iterator[Finding]:
    """All of the ports pass out of one side and into the other, both ways: servers call clients as well."""
    for side in sides(subject):
        closed, unknown = side.ports(Passage.CLOSED), side.ports(Passage.UNKNOWN)
        if closed:
            yield _finding(side, closed)
        elif unknown:
            yield _unknown(side, unknown)


def sides(subject: LiveSubject) -> list[Side]:
    """Both ends in both directions; none where the groups of one end are not known.

    Nor where they are of different VPCs, which is a finding of its own.
    """
    hosts, servers = subject.network.groups, subject.file_system_groups
    file_system = known(subject.account.file_system)
    if not hosts or not servers or file_system is None:
        return []
    home = file_system.vpc_id
    if home is not None and any(subnet.vpc_id != home for subnet in subject.network.subnets):
        return []
    subnets = {each.id: each.cidr for each in subject.network.subnets}
    own = subnets.get(file_system.subnet_id or "")
    of_servers, of_hosts = (None if own is None else (own,)), tuple(subnets.values())
    return [
        Side(hosts, "egress", servers, of_servers, "the hosts"),
        Side(servers, "ingress", hosts, of_hosts, "the file system"),
        Side(servers, "egress", hosts, of_hosts, "the file system"),
        Side(hosts, "ingress", servers, of_servers, "the hosts"),
    ]


def _finding(side: Side, closed: list[PortRange]) -> Finding:
    return storage.LUSTRE_PORTS_CLOSED.at(
        ("network", "security_group_ids"),
        f"{_what(side, closed)} do not pass ({_held(side)}): the mount would hang or time out, on billed "
        "hosts",
        stage=Stage.LIVE,
        subject=side.groups[0].id,
    )


def _unknown(side: Side, unknown: list[PortRange]) -> Finding:
    return storage.LUSTRE_PORTS_CLOSED.at(
        ("network", "security_group_ids"),
        f"could not verify that {_what(side, unknown)} pass ({_held(side)}): it depends on prefix lists or "
        "on ranges that hold only a part of the addresses",
        remedy="Check whether they hold the addresses of both sides, or add rules that name the groups.",
        severity=Severity.WARNING,
        stage=Stage.LIVE,
        subject=side.groups[0].id,
        verified=False,
    )


def _what(side: Side, ports: list[PortRange]) -> str:
    listed = " and ".join(map(ports_in_words, ports))
    peers = ", ".join(each.id for each in side.peers)
    way = f"into {side.who} from {peers}" if side.direction == "ingress" else f"out of {side.who} to {peers}"
    return f"{listed} {way}"


def _held(side: Side) -> str:
    return ", ".join(
        f"{each.id} has {side.direction} {each.in_words(side.direction)}" for each in side.groups
    )
