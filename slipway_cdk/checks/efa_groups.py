"""EFA001 and EFA002: the group of the training hosts lets all traffic in from and out to its own members."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.cluster.traffic import BOTH_WAYS, Direction, Passage, SecurityGroup, efa_passage
from launcher.failure_modes import network
from launcher.failure_modes.model import Finding
from slipway_cdk.checks.app import App, finding


def efa_groups_admit_all_traffic_from_themselves(app: App) -> Iterator[Finding]:
    """Every group used for EFA has an ingress rule of all traffic whose source is the group itself."""
    for group in groups_lacking_themselves(app, "ingress"):
        what = f"no rule lets all traffic in from the group itself; ingress: {described(group, 'ingress')}"
        yield finding(network.NO_INGRESS_FROM_ITSELF, group.id, what)


def efa_groups_let_all_traffic_out_to_themselves(app: App) -> Iterator[Finding]:
    """Every group used for EFA has an egress rule of all traffic whose destination is the group itself."""
    for group in groups_lacking_themselves(app, "egress"):
        what = f"no rule lets all traffic out to the group itself; egress: {described(group, 'egress')}"
        yield finding(network.NO_EGRESS_TO_ITSELF, group.id, what)


# What both rules have in common: which group lacks all traffic in one direction.


def groups_lacking_themselves(app: App, direction: Direction) -> Iterator[SecurityGroup]:
    """The groups used for EFA that do not let all traffic pass between their members one way.

    Where several groups stand on one interface and one of them is enough, it must be good in both
    directions; a group that is not the app's may be the good one.
    """
    found: dict[str, SecurityGroup] = {}
    for use in app.efa_uses:
        known = [app.groups[id_] for id_ in use.groups if id_ in app.groups]
        if not use.each and (len(known) < len(use.groups) or any(map(_is_good, known))):
            continue
        found |= {group.id: group for group in known if _closed(group, direction)}
    yield from found.values()


def described(group: SecurityGroup, direction: Direction) -> str:
    """What the group lets pass in one direction, in words, with the group called `itself`."""
    return group.in_words(direction).replace(group.id, "itself")


def _is_good(group: SecurityGroup) -> bool:
    return not any(_closed(group, direction) for direction in BOTH_WAYS)


def _closed(group: SecurityGroup, direction: Direction) -> bool:
    return efa_passage(group, direction) is Passage.CLOSED
