"""EFA001: the group of the training hosts admits its own members."""

from __future__ import annotations

from collections.abc import Iterator

from constructs.checks.app import App, finding
from constructs.checks.efa_groups import described, groups_lacking_themselves

from launcher.failure_modes import network
from launcher.failure_modes.model import Finding


def efa_groups_admit_all_traffic_from_themselves(app: App) -> Iterator[Finding]:
    """Every group used for EFA has an ingress rule of all traffic whose source is the group itself."""
    for group in groups_lacking_themselves(app, "ingress"):
        what = f"no rule lets all traffic in from the group itself; ingress: {described(group, 'ingress')}"
        yield finding(network.NO_INGRESS_FROM_ITSELF, group.id, what)
