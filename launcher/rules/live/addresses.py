"""Whether the subnets have an address for every interface of the hosts (EFA004)."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.cluster.training_network import addresses_per_host
from launcher.failure_modes import network
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.rules.live.rule import live_rule
from launcher.rules.live.subject import LiveSubject


@live_rule(network.TOO_FEW_ADDRESSES, "subnets")
def subnets_exist(subject: LiveSubject) -> Iterator[Finding]:
    """A subnet that is not there has no address for anybody, and the request is refused."""
    for subnet_id in subject.subnet_ids:
        if subject.network.subnet(subnet_id) is None:
            yield network.TOO_FEW_ADDRESSES.at(
                ("network", "subnets"),
                f"the subnet {subnet_id} does not exist in {subject.account.region}: the job would be "
                "refused",
                remedy="Correct `network.subnets`, or leave it out to use the cluster's.",
                stage=Stage.LIVE,
                subject=subnet_id,
            )


@live_rule(network.TOO_FEW_ADDRESSES, "subnets")
def hosts_find_their_addresses(subject: LiveSubject) -> Iterator[Finding]:
    """All hosts of a job go into one subnet; where another has room, a small one is a warning."""
    if subject.facts is None:
        return
    each = addresses_per_host(subject.instance_type)
    needed = subject.hosts_at_once * each
    subnets = subject.network.subnets
    some_fits = any(subnet.free_addresses >= needed for subnet in subnets)
    for subnet in subnets:
        if subnet.free_addresses >= needed:
            continue
        yield network.TOO_FEW_ADDRESSES.at(
            ("network", "subnets"),
            f"{subnet.id} has {subnet.free_addresses} free addresses, and {subject.hosts_at_once} hosts "
            f"of {subject.instance_type} take {needed} ({each} each): placed there, the job would fail while "
            "its hosts start",
            severity=Severity.WARNING if some_fits else Severity.ERROR,
            stage=Stage.LIVE,
            subject=subnet.id,
        )
