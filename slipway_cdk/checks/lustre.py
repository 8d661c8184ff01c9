"""Rules on Lustre file systems: open ports (FSX004), a zone of the jobs (FSX002), a size that FSx offers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from launcher.cluster.lustre import (
    Deployment,
    capacity_problem,
    efa_problem,
    metadata_problem,
    read_cache_problem,
    storage_type,
    throughput_problem,
    tiered_metadata_problem,
    tiered_throughput_problem,
)
from launcher.cluster.traffic import (
    ALL_TRAFFIC,
    BOTH_WAYS,
    LUSTRE_TCP_PORTS,
    Direction,
    Passage,
    SecurityGroup,
    SecurityGroupRule,
    lustre_ports,
    ports_in_words,
)
from launcher.failure_modes import sources, storage
from launcher.failure_modes.model import FailureMode, Finding
from slipway_cdk.checks.app import App, finding
from slipway_cdk.checks.templates import Resource

_FIRST, _LAST = LUSTRE_TCP_PORTS[0][0], LUSTRE_TCP_PORTS[-1][1]


def lustre_ports_are_open_both_ways(app: App) -> Iterator[Finding]:
    """TCP 988 and 1018-1023 pass in and out, between the servers' groups and with every client's group.

    The clients are the groups that the rules on these ports name; where there are none and no range of
    addresses either, the groups used for EFA in the same VPC. Of a group that is not the app's only the
    servers' side is judged, and nothing of a file system with such a group.
    """
    for file_system in app.lustre:
        servers = _groups(app, file_system.properties.get("SecurityGroupIds"))
        if servers:
            closed = list(_closed(app, servers, _network(app, file_system)))
            if closed:
                yield finding(storage.LUSTRE_PORTS_CLOSED, file_system.id, f"closed: {'; '.join(closed)}")


def _groups(app: App, ids: Any) -> list[SecurityGroup]:
    """The groups, if all of them are the app's."""
    if not isinstance(ids, list) or not all(id_ in app.groups for id_ in ids):
        return []
    return [app.groups[id_] for id_ in ids]


def _network(app: App, file_system: Resource) -> str | None:
    """The range of addresses that the servers stand in, if it is known."""
    ids = file_system.properties.get("SubnetIds")
    subnet = app.subnets.get(ids[0]) if isinstance(ids, list) and ids else None
    return subnet.cidr if subnet else None


def _closed(app: App, servers: Sequence[SecurityGroup], network: str | None) -> Iterator[str]:
    own = [group.id for group in servers]
    for direction in BOTH_WAYS:
        yield from _missing(servers, direction, own, network, ("the servers", "one another"))
    for client in _clients(app, servers):
        for direction in BOTH_WAYS:
            # The range of the clients' addresses is not known: any range may hold them.
            yield from _missing(servers, direction, [client], None, ("the servers", client))
            if client in app.groups:
                group = [app.groups[client]]
                yield from _missing(group, direction, own, network, (client, "the servers"))


def _clients(app: App, servers: Sequence[SecurityGroup]) -> list[str]:
    own = {group.id for group in servers}
    opened = [rule for group in servers for rule in group.rules if _concerns_lustre(rule)]
    named = {peer for rule in opened for peer in rule.groups}
    for group in app.groups.values():
        if any(_concerns_lustre(rule) and own & set(rule.groups) for rule in group.rules):
            named.add(group.id)
    reached_by_address = any(rule.direction == "ingress" and rule.may_name((), None) for rule in opened)
    if not named - own and not reached_by_address and not own & app.efa_groups:
        vpcs = {group.vpc_id for group in servers}
        named = {id_ for id_ in app.efa_groups if id_ in app.groups and app.groups[id_].vpc_id in vpcs}
    return sorted(named - own)


def _concerns_lustre(rule: SecurityGroupRule) -> bool:
    """Whether a rule is about Lustre's ports or those between them; one of an unknown protocol is not."""
    known = rule.protocol in (ALL_TRAFFIC, "tcp")
    return known and any(rule.tcp_passage(port, port) for port in range(_FIRST, _LAST + 1))


def _missing(
    groups: Sequence[SecurityGroup],
    direction: Direction,
    peers: Sequence[str],
    network: str | None,
    names: tuple[str, str],
) -> Iterator[str]:
    """The ports that do not pass between groups and their peers, or the peers' range of addresses."""
    ranges = None if network is None else (network,)
    into, source = ("into", "from") if direction == "ingress" else ("out of", "to")
    for ports in lustre_ports(Passage.CLOSED, groups, direction, peer_groups=peers, peer_ranges=ranges):
        yield f"{ports_in_words(ports)} {into} {names[0]} {source} {names[1]}"


# FSX002: a Lustre file system stands in a zone in which jobs run.


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


# A Lustre file system has a deployment type, throughput and capacity that FSx offers.


NO_SUCH_FILE_SYSTEM = FailureMode(
    code="LustreSize",
    title="FSx offers no such Lustre file system",
    cause=(
        "CloudFormation does not compare these properties with one another, so `cdk synth` succeeds, and "
        "the deployment fails and rolls back some minutes later, with all that was created beside it."
    ),
    remedy=(
        "Choose from the table of CreateFileSystem: SSD capacities of 1200 GiB or a multiple of 2400 on "
        "the types in use today, and a throughput on the persistent types only."
    ),
    sources=(sources.FILE_SYSTEM_API,),
)
"""No mode of the catalogue: no job ever meets it, as the file system never comes to be."""


def lustre_file_systems_have_a_size_that_exists(app: App) -> Iterator[Finding]:
    """The properties of every Lustre file system fit one another; what is not known fits."""
    for file_system in app.lustre:
        for problem in _problems(file_system.properties):
            yield finding(NO_SUCH_FILE_SYSTEM, file_system.id, problem)


def _problems(properties: Mapping[str, Any]) -> Iterator[str]:
    lustre = properties.get("LustreConfiguration", {})
    # FSx makes the oldest type where none is given (FSx API reference).
    deployment = lustre.get("DeploymentType", "SCRATCH_1")
    known = deployment in get_args(Deployment) and isinstance(lustre.get("PerUnitStorageThroughput", 0), int)
    if not known:
        return
    if properties.get("StorageType") == "INTELLIGENT_TIERING":
        yield from _tiered_problems(properties, lustre, deployment)
        return
    throughput: int | None = lustre.get("PerUnitStorageThroughput")
    if problem := throughput_problem(deployment, throughput):
        yield problem
        return
    stored_on, written = storage_type(deployment, throughput), properties.get("StorageType", "SSD")
    if written in ("SSD", "HDD") and written != stored_on:
        at = f" at {throughput} MB/s per TiB" if throughput is not None else ""
        yield f"{deployment}{at} is stored on {stored_on}, not on {written}"
    metadata = lustre.get("MetadataConfiguration")
    iops = metadata.get("Iops") if isinstance(metadata, Mapping) else None
    if metadata is not None and isinstance(iops or 0, int):
        problem = metadata_problem(deployment, iops)
        if problem:
            yield problem
    efa = lustre.get("EfaEnabled") is True
    if efa and metadata is None and deployment == "PERSISTENT_2":
        yield "a file system with EFA needs a MetadataConfiguration"
    capacity = properties.get("StorageCapacity")
    if isinstance(capacity, int):
        problem = capacity_problem(deployment, throughput, capacity)
        if problem is None and efa:
            problem = efa_problem(deployment, throughput, capacity, metadata=True)
        if problem:
            yield problem


def _tiered_problems(
    properties: Mapping[str, Any], lustre: Mapping[str, Any], deployment: str
) -> Iterator[str]:
    if deployment != "PERSISTENT_2":
        yield f"{deployment} has no Intelligent-Tiering; only PERSISTENT_2 has"
    for name, has in (("StorageCapacity", properties), ("PerUnitStorageThroughput", lustre)):
        if name in has:
            yield f"Intelligent-Tiering has no {name}"
    cache, metadata = lustre.get("DataReadCacheConfiguration"), lustre.get("MetadataConfiguration")
    throughput = lustre.get("ThroughputCapacity")
    if throughput is None or cache is None:
        yield "Intelligent-Tiering needs a ThroughputCapacity and a DataReadCacheConfiguration"
        return
    if not isinstance(throughput, int):
        return
    if problem := tiered_throughput_problem(throughput):
        yield problem
    size = cache.get("SizeGiB") if isinstance(cache, Mapping) else None
    if isinstance(size, int) and (problem := read_cache_problem(throughput, size)):
        yield problem
    iops = metadata.get("Iops") if isinstance(metadata, Mapping) else metadata
    if isinstance(iops, int | None) and (problem := tiered_metadata_problem(iops)):
        yield problem
