"""EFA002: the group of the training hosts lets traffic out to its own members."""

from __future__ import annotations

from collections.abc import Iterator

from constructs.checks.app import App, finding
from constructs.checks.efa_groups import described, groups_lacking_themselves

from launcher.failure_modes import network
from launcher.failure_modes.model import Finding


def efa_groups_let_all_traffic_out_to_themselves(app: App) -> Iterator[Finding]:
    """Every group used for EFA has an egress rule of all traffic whose destination is the group itself."""
    for group in groups_lacking_themselves(app, "egress"):
        what = f"no rule lets all traffic out to the group itself; egress: {described(group, 'egress')}"
        yield finding(network.NO_EGRESS_TO_ITSELF, group.id, what)
