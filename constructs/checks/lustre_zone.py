"""FSX002: a Lustre file system stands in a zone in which jobs run."""

from __future__ import annotations

from collections.abc import Iterator

from constructs.checks.app import App, finding

from launcher.failure_modes import storage
from launcher.failure_modes.model import Finding


def lustre_stands_in_a_zone_of_the_jobs(app: App) -> Iterator[Finding]:
    """A file system has one subnet, in the zone of at least one training subnet.

    The zones are compared only where the author named the training subnets: else the file system's own
    subnet is taken for one.
    """
    training = app.declared.training_subnets
    zones = {app.subnets[id_].zone for id_ in training if id_ in app.subnets}
    settled = bool(training) and all(id_ in app.subnets for id_ in training)
    for file_system in app.lustre:
        ids = file_system.properties.get("SubnetIds")
        if not isinstance(ids, list):
            continue
        if len(ids) != 1:
            what = f"a Lustre file system stands in exactly one subnet, not in {len(ids)}"
            yield finding(storage.LUSTRE_IN_ANOTHER_ZONE, file_system.id, what)
            continue
        subnet = app.subnets.get(ids[0])
        if settled and subnet is not None and subnet.zone not in zones:
            jobs = ", ".join(sorted(map(str, zones)))
            what = f"the file system is in {subnet.zone}, but the training subnets are in {jobs}"
            yield finding(storage.LUSTRE_IN_ANOTHER_ZONE, file_system.id, what)
