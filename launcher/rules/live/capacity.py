"""Whether the account may use as many hosts, and the zone has the type (CAP002)."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.account.facts import Quota
from launcher.failure_modes import capacity
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.rules.live.rule import live_rule
from launcher.rules.live.subject import LiveSubject, known


@live_rule(capacity.QUOTA_TOO_SMALL, "quota")
def quota_has_room(subject: LiveSubject) -> Iterator[Finding]:
    """What is in use and what is wanted, against the quota of on-demand or spot hosts."""
    yield from _judged(subject, known(subject.account.quota), "the submission would be refused")


@live_rule(capacity.QUOTA_TOO_SMALL, "warm_pool_quota")
def warm_pool_has_room(subject: LiveSubject) -> Iterator[Finding]:
    """Hosts that are kept after the job count against a quota of their own, which begins at 0."""
    yield from _judged(subject, known(subject.account.warm_pool_quota), "its hosts could not be kept")


@live_rule(capacity.QUOTA_TOO_SMALL, "offered_in", "subnets")
def type_is_in_the_zone(subject: LiveSubject) -> Iterator[Finding]:
    """EC2 says which zones have a type; SageMaker may have it in others, so this is an information."""
    offered = known(subject.account.offered_in)
    zones = dict.fromkeys(each.availability_zone for each in subject.network.subnets)
    if offered is None or not zones or not offered.isdisjoint(zones):
        return
    elsewhere = f"it does in {', '.join(sorted(offered))}" if offered else "nor elsewhere in the region"
    yield capacity.QUOTA_TOO_SMALL.at(
        ("resources", "instance_type"),
        f"EC2 does not offer {subject.instance_type.removeprefix('ml.')} in {', '.join(zones)}, the zones of "
        f"the job's subnets ({elsewhere}): the job may wait for capacity that does not come",
        remedy="Name a subnet in a zone that has the type, or choose another type.",
        severity=Severity.INFO,
        stage=Stage.LIVE,
        subject=subject.instance_type,
    )


def _judged(subject: LiveSubject, quota: Quota | None, outcome: str) -> Iterator[Finding]:
    wanted = subject.hosts_at_once
    if quota is None or quota.in_use + wanted <= quota.limit:
        return
    used = f", of which {quota.in_use} are in use" if quota.in_use else ""
    yield capacity.QUOTA_TOO_SMALL.at(
        ("resources", "instance_count"),
        f"the quota '{quota.name}' ({quota.code}) is {quota.limit:g}{used}, and the job wants {wanted}: "
        f"{outcome}",
        stage=Stage.LIVE,
        subject=quota.name,
    )
