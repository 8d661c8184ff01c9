"""What the two rules on EFA groups have in common: which group lacks all traffic in one direction."""

from __future__ import annotations

from collections.abc import Iterator

from constructs.checks.app import App
from constructs.checks.security_groups import Direction, Group


def groups_lacking_themselves(app: App, direction: Direction) -> Iterator[Group]:
    """The groups used for EFA that do not let all traffic pass between their members one way.

    Where several groups stand on one interface and one of them is enough, it must be good in both
    directions; a group that is not the app's may be the good one.
    """
    found: dict[str, Group] = {}
    for use in app.efa_uses:
        known = [app.groups[id_] for id_ in use.groups if id_ in app.groups]
        if not use.each and (len(known) < len(use.groups) or any(map(_is_good, known))):
            continue
        found |= {group.id: group for group in known if not group.allows_all_to_itself(direction)}
    yield from found.values()


def _is_good(group: Group) -> bool:
    return group.allows_all_to_itself("ingress") and group.allows_all_to_itself("egress")
