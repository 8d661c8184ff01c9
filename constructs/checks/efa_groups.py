"""What the two rules on EFA groups have in common: which group lacks all traffic in one direction."""

from __future__ import annotations

from collections.abc import Iterator

from constructs.checks.app import App

from launcher.cluster.traffic import BOTH_WAYS, Direction, Passage, SecurityGroup, efa_passage


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
