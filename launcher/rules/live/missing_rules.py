"""The security group rules whose lack was found, as data: what `--fix` shows and adds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from launcher.account.facts import Unverified
from launcher.cluster.security_groups import (
    ALL_TRAFFIC,
    Direction,
    Passage,
    SecurityGroupRule,
    ports_in_words,
)
from launcher.failure_modes import network, storage
from launcher.rules.live.groups import carrier, carries_efa
from launcher.rules.live.lustre_ports import sides
from launcher.rules.live.subject import LiveSubject

_DIRECTIONS: tuple[tuple[Direction, str], ...] = (
    ("ingress", network.NO_INGRESS_FROM_ITSELF.code),
    ("egress", network.NO_EGRESS_TO_ITSELF.code),
)


@dataclass(frozen=True, slots=True)
class MissingRule:
    """A rule to add to a security group: what passes between its members and those of `peer`.

    `protocol` is `tcp`, or `-1` for all traffic, which has no `ports`; `code` is the failure mode that
    the rule fixes.
    """

    group_id: str
    direction: Direction
    protocol: str
    ports: tuple[int, int] | None
    peer: str
    code: str

    @property
    def rule(self) -> SecurityGroupRule:
        """The rule as the account holds it."""
        first, last = self.ports or (None, None)
        return SecurityGroupRule(self.direction, self.protocol, first, last, groups=(self.peer,))

    def __str__(self) -> str:
        traffic = ports_in_words(self.ports) if self.ports else "all traffic"
        way = "from" if self.direction == "ingress" else "to"
        peer = f"{self.peer} (itself)" if self.peer == self.group_id else self.peer
        return f"{self.direction}: {traffic} {way} {peer}"


def missing_rules(subject: LiveSubject) -> tuple[MissingRule, ...]:
    """The rules without which EFA001, EFA002 and FSX004 are found; none where a fact is not known.

    They name groups as peers, never ranges. EFA's go to the one group that is nearest to carrying the
    traffic, Lustre's to the first group of either side.
    """
    to_itself = tuple(_to_itself(subject))
    opened = {(each.group_id, each.direction, each.peer) for each in to_itself}
    lustre = (each for each in _lustre(subject) if (each.group_id, each.direction, each.peer) not in opened)
    return tuple(dict.fromkeys((*to_itself, *lustre)))


def _to_itself(subject: LiveSubject) -> Iterator[MissingRule]:
    group = carrier(subject.network.groups)
    if group is None:
        return
    for direction, code in _DIRECTIONS:
        if not carries_efa(group, direction):
            yield MissingRule(group.id, direction, ALL_TRAFFIC, None, group.id, code)


def _lustre(subject: LiveSubject) -> Iterator[MissingRule]:
    account = subject.account
    if isinstance(account.file_system_groups, Unverified) or isinstance(account.subnets, Unverified):
        return
    for side in sides(subject):
        for ports in side.ports(Passage.CLOSED):
            yield MissingRule(
                side.groups[0].id,
                side.direction,
                "tcp",
                ports,
                side.peers[0].id,
                storage.LUSTRE_PORTS_CLOSED.code,
            )
