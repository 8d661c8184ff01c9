"""The network of the job in the account: groups, ACLs, addresses, and the ways to S3 and to each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from ipaddress import ip_network
from itertools import permutations

from launcher.account.facts import Unverified
from launcher.account.network import Endpoint, NetworkAcl, NetworkAclEntry, Subnet
from launcher.cluster.traffic import (
    ANY_IPV4,
    BOTH_WAYS,
    HTTPS_PORT,
    S3,
    SECRETS,
    SERVICES,
    SHELL,
    Direction,
    Passage,
    PortRange,
    SecurityGroup,
    addresses_per_host,
    efa_passage,
    passage,
)
from launcher.failure_modes import nccl, network
from launcher.failure_modes.model import FailureMode, Figure, Finding, Severity, Source, Stage
from launcher.rules.live.subject import LiveSubject, could_not_verify, known, live_rule


@live_rule(network.NO_INGRESS_FROM_ITSELF, "groups")
def groups_exist(subject: LiveSubject) -> Iterator[Finding]:
    """A group that is not there admits nobody, and the request is refused."""
    for group_id in subject.group_ids:
        if subject.network.group(group_id) is None:
            yield network.NO_INGRESS_FROM_ITSELF.at(
                ("network", "security_group_ids"),
                f"the security group {group_id} does not exist in {subject.account.region}: the job would "
                "be refused",
                remedy="Correct `network.security_group_ids`, or leave it out to use the cluster's.",
                stage=Stage.LIVE,
                subject=group_id,
            )


@live_rule(network.NO_INGRESS_FROM_ITSELF, "groups")
def hosts_admit_each_other(subject: LiveSubject) -> Iterator[Finding]:
    """A group of the hosts admits all traffic from its own members."""
    yield from _to_itself(subject, network.NO_INGRESS_FROM_ITSELF, "ingress")


@live_rule(network.NO_EGRESS_TO_ITSELF, "groups")
def hosts_may_send_to_each_other(subject: LiveSubject) -> Iterator[Finding]:
    """A group of the hosts lets all traffic out to its own members; 0.0.0.0/0 does not stand in for it."""
    yield from _to_itself(subject, network.NO_EGRESS_TO_ITSELF, "egress")


def carrier(groups: Sequence[SecurityGroup]) -> SecurityGroup | None:
    """The group by which the hosts talk: the first with both rules, else the nearest to it.

    Both rules must be in one group (EC2 user guide, create-efa); on the hosts of a job one such group
    is enough, whatever the others say.
    """
    return max(groups, key=_nearness, default=None)


def carries_efa(group: SecurityGroup, direction: Direction) -> bool:
    """Whether EFA traffic passes between the group's own members one way."""
    return efa_passage(group, direction) is Passage.OPEN


def _nearness(group: SecurityGroup) -> tuple[int, bool]:
    admits, sends = carries_efa(group, "ingress"), carries_efa(group, "egress")
    return admits + sends, admits


def _to_itself(subject: LiveSubject, mode: FailureMode, direction: Direction) -> Iterator[Finding]:
    groups = subject.network.groups
    chosen = carrier(groups)
    if chosen is None:
        return
    carried = _nearness(chosen)[0] == 2
    for group in groups:
        if carries_efa(group, direction) or (group is not chosen and not carried):
            continue
        yield _finding(subject, mode, direction, group, beside=chosen if carried else None)


def _finding(
    subject: LiveSubject,
    mode: FailureMode,
    direction: Direction,
    group: SecurityGroup,
    *,
    beside: SecurityGroup | None,
) -> Finding:
    way = "ingress from" if direction == "ingress" else "egress to"
    lack = f"{group.id} has no {way} itself for all traffic (its {direction}: {group.in_words(direction)})"
    others = [
        each.id for each in subject.network.groups if each.id != group.id and carries_efa(each, direction)
    ]
    if beside is not None:
        severity = Severity.WARNING if subject.hosts > 1 else Severity.INFO
        outcome = f"{beside.id} carries the traffic of this job, but {group.id} alone would not"
    elif subject.hosts > 1:
        severity = Severity.ERROR
        outcome = (
            f"the {subject.hosts} hosts would start, be billed, and stand still at NCCL initialisation"
            + (f" ({', '.join(others)} has this rule, but not its counterpart)" if others else "")
        )
    else:
        severity, outcome = Severity.INFO, "one host does not need it, several would stand still"
    return mode.at(
        ("network", "security_group_ids"),
        f"{lack}: {outcome}",
        severity=severity,
        stage=Stage.LIVE,
        subject=group.id,
    )


ANSWERS = (32768, 60999)
"""The ports on which Linux awaits the answers to its own calls (net.ipv4.ip_local_port_range)."""


def lets_pass(acl: NetworkAcl, direction: Direction, ports: tuple[int, int], cidr: str) -> bool | None:
    """Whether these TCP ports pass between the subnet and all addresses of an IPv4 range.

    `0.0.0.0/0` stands for the public addresses of AWS, about which entries for private ranges say
    nothing. None where it depends on the address. For each port the first entry that matches decides, so
    several entries may open a range together; without one the traffic is dropped.
    """
    entries = [each for each in acl.entries if each.direction == direction and _is_about(each, cidr)]
    verdicts = {_first_match(entries, span, cidr) for span in _spans(entries, ports)}
    return False if False in verdicts else None if None in verdicts else True


def _is_about(entry: NetworkAclEntry, cidr: str) -> bool:
    if ":" in entry.cidr:
        return False
    about = ip_network(entry.cidr, strict=False)
    is_elsewhere = cidr == ANY_IPV4 and entry.cidr != ANY_IPV4 and about.is_private
    return about.overlaps(ip_network(cidr, strict=False)) and not is_elsewhere


def _spans(entries: Sequence[NetworkAclEntry], ports: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """The ports in spans of which each entry holds all or none."""
    first, last = ports
    edges = {edge for each in entries for edge in (each.first_tcp, each.last_tcp + 1) if first < edge <= last}
    starts = sorted({first, *edges})
    yield from zip(starts, [*(start - 1 for start in starts[1:]), last], strict=True)


def _first_match(entries: Sequence[NetworkAclEntry], span: tuple[int, int], cidr: str) -> bool | None:
    depends = False
    for entry in entries:
        if not entry.touches_tcp(*span):
            continue
        if ip_network(entry.cidr, strict=False).prefixlen > ip_network(cidr, strict=False).prefixlen:
            depends = True
        else:
            return None if depends else entry.allows
    return None if depends else False


@live_rule(nccl.INITIALISATION_STALLED, "subnets", "groups")
def network_is_one(subject: LiveSubject) -> Iterator[Finding]:
    """Subnets and groups belong to one VPC; the request is refused otherwise."""
    subnets, groups = subject.network.subnets, subject.network.groups
    vpcs = dict.fromkeys(
        [*(each.vpc_id for each in subnets), *(each.vpc_id for each in groups if each.vpc_id is not None)]
    )
    if len(vpcs) < 2:
        return
    placed = [(each.vpc_id, each.id) for each in subnets] + [(each.vpc_id, each.id) for each in groups]
    members = "; ".join(f"{vpc}: {', '.join(id_ for at, id_ in placed if at == vpc)}" for vpc in vpcs)
    yield nccl.INITIALISATION_STALLED.at(
        ("network",),
        f"the job's subnets and security groups belong to different VPCs ({members}): hosts of one could "
        "not reach those of another, and the job would be refused",
        remedy="Name subnets and groups of one VPC in `network`.",
        stage=Stage.LIVE,
        subject="network",
    )


@live_rule(nccl.INITIALISATION_STALLED, "subnets")
def hosts_share_a_zone(subject: LiveSubject) -> Iterator[Finding]:
    """EFA does not cross zones; the service keeps a job in one, and only one subnet makes it sure."""
    zones = dict.fromkeys(each.availability_zone for each in subject.network.subnets)
    if len(zones) < 2 or subject.hosts < 2 or not subject.has_efa:
        return
    yield nccl.INITIALISATION_STALLED.at(
        ("network", "subnets"),
        f"the subnets are in several availability zones ({', '.join(zones)}), and EFA does not cross zones: "
        f"the {subject.hosts} hosts must all land in one of them",
        remedy="Name one subnet in `network.subnets` to decide which; give several for the capacity of "
        "either zone.",
        severity=Severity.INFO,
        stage=Stage.LIVE,
        subject="network.subnets",
    )


@live_rule(nccl.INITIALISATION_STALLED, "subnets", "acls")
def subnets_of_a_zone_are_connected(subject: LiveSubject) -> Iterator[Finding]:
    """Two subnets of one zone, between which an ACL closes the way.

    ACLs see only what crosses the border of a subnet, so hosts in one subnet always reach each other.
    """
    if subject.hosts < 2:
        return
    reported = set()
    for here, there in permutations(subject.network.subnets, 2):
        acl = subject.network.acl(here.id)
        if acl is None or acl.id in reported or not _neighbours(here, there):
            continue
        if False not in (lets_pass(acl, way, ANSWERS, there.cidr) for way in BOTH_WAYS):
            continue
        reported.add(acl.id)
        yield nccl.INITIALISATION_STALLED.at(
            ("network", "subnets"),
            f"the network ACL {acl.id} of {here.id} closes the way to {there.id} ({there.cidr}): hosts "
            "placed in both would stand still at NCCL initialisation",
            remedy="Let all traffic pass between the two ranges, or name one of the subnets in "
            "`network.subnets`.",
            severity=Severity.WARNING,
            stage=Stage.LIVE,
            subject=acl.id,
        )


def _neighbours(one: Subnet, other: Subnet) -> bool:
    return one.availability_zone == other.availability_zone


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


_ACL_GUIDE = Source("Amazon VPC user guide: custom-network-acl, ephemeral ports", date(2026, 11, 22))
FIGURES = (Figure("1024-65535", "ports on which a NAT gateway awaits answers", _ACL_GUIDE),)

_HTTPS: PortRange = (HTTPS_PORT, HTTPS_PORT)


@live_rule(network.NO_WAY_OUT, "subnets", "groups", "route_tables")
def hosts_reach_aws(subject: LiveSubject) -> Iterator[Finding]:
    """From each subnet, as the service may place the job in any: a route to every address, or endpoints.

    Without S3 the job fails before its script starts; without the other endpoints some of it may.
    """
    groups = subject.network.groups
    if not groups:
        return
    anywhere = _reach_any_address(groups)
    for subnet in subject.network.subnets:
        routes = _routes(subject, subnet)
        if routes and anywhere:
            if set(routes.values()) == {"internet"}:
                yield _only_internet(subnet, next(iter(routes)))
            continue
        unseen = _unseen(subject)
        if unseen:
            yield from (could_not_verify(network.NO_WAY_OUT, fact) for fact in unseen)
            return
        reached = _services_reached(subject, subnet)
        asked = {SECRETS: bool(subject.request.secrets), SHELL: subject.request.options.lets_a_shell_in}
        called = (*SERVICES, *(service for service, wanted in asked.items() if wanted))
        missing = [service for service in called if service not in reached]
        if S3 in missing:
            yield _no_way(subject, subnet, anywhere=anywhere, routes=routes)
        elif missing:
            yield _some_missing(subnet, missing)


@live_rule(network.NO_WAY_OUT, "subnets", "acls")
def acls_let_https_pass(subject: LiveSubject) -> Iterator[Finding]:
    """The way that routes and groups open can be closed at the border of the subnet, either way."""
    for subnet in subject.network.subnets:
        acl = subject.network.acl(subnet.id)
        if acl is None or _s3_is_in_the_vpc(subject, subnet):
            continue
        closed = []
        if lets_pass(acl, "egress", _HTTPS, ANY_IPV4) is False:
            closed.append(f"TCP {HTTPS_PORT} out")
        if lets_pass(acl, "ingress", ANSWERS, ANY_IPV4) is False:
            closed.append(f"the answers to it (TCP {ANSWERS[0]}-{ANSWERS[1]}) in")
        if closed:
            yield network.NO_WAY_OUT.at(
                ("network", "subnets"),
                f"the network ACL {acl.id} of {subnet.id} does not let {' nor '.join(closed)}: the hosts "
                "would not reach S3, and the job would fail after minutes of billing",
                remedy=f"Let TCP {HTTPS_PORT} out to 0.0.0.0/0 and TCP 1024-65535 in from there, as ACLs are "
                "stateless.",
                stage=Stage.LIVE,
                subject=acl.id,
            )


def _s3_is_in_the_vpc(subject: LiveSubject, subnet: Subnet) -> bool:
    """Whether an interface endpoint alone leads to S3, so that nothing goes to public addresses."""
    types = {endpoint.id: endpoint.type for endpoint in subject.network.endpoints}
    ways = subject.network.ways_out(subnet.id)
    return {types.get(way.through) for way in ways if way.reaches in ("any", S3)} == {"Interface"}


def _routes(subject: LiveSubject, subnet: Subnet) -> dict[str, str]:
    """The ways to any address: through what, and of which kind."""
    return {way.through: way.kind for way in subject.network.ways_out(subnet.id) if way.reaches == "any"}


def _unseen(subject: LiveSubject) -> list[Unverified]:
    """What is needed only where no route leads out."""
    facts = (subject.account.endpoints, subject.account.endpoint_groups)
    return [fact for fact in facts if isinstance(fact, Unverified)]


def _services_reached(subject: LiveSubject, subnet: Subnet) -> set[str]:
    ways = {way.through for way in subject.network.ways_out(subnet.id)}
    return {
        endpoint.service
        for endpoint in subject.network.endpoints
        if endpoint.id in ways and _admits(subject, subnet, endpoint)
    }


def _admits(subject: LiveSubject, subnet: Subnet, endpoint: Endpoint) -> bool:
    """Whether TCP 443 gets from the hosts to the endpoint, or may do so."""
    hosts = subject.network.groups
    if endpoint.type == "Gateway":
        # Its prefix list is AWS's own; which one a rule names is not looked into.
        return _reach_any_address(hosts) or _reach_a_prefix_list(hosts)
    ranges = [each.cidr for each in subject.network.subnets if each.id in endpoint.subnet_ids]
    out = passage(
        hosts,
        "egress",
        _HTTPS,
        peer_groups=endpoint.security_group_ids,
        peer_ranges=ranges or None,
    )
    described = known(subject.account.endpoint_groups) or ()
    fronts = [group for group in described if group.id in endpoint.security_group_ids]
    if out is Passage.CLOSED or not fronts:
        return out is not Passage.CLOSED
    admitted = passage(
        fronts,
        "ingress",
        _HTTPS,
        peer_groups=[group.id for group in hosts],
        peer_ranges=[subnet.cidr],
    )
    return admitted is not Passage.CLOSED


def _reach_any_address(hosts: Sequence[SecurityGroup]) -> bool:
    """Whether HTTPS gets out to every IPv4 address."""
    return passage(hosts, "egress", _HTTPS, peer_ranges=[ANY_IPV4]) is Passage.OPEN


def _reach_a_prefix_list(hosts: Sequence[SecurityGroup]) -> bool:
    """Whether HTTPS gets out to a prefix list, such as that of a gateway endpoint."""
    return any(
        rule.prefix_lists and rule.tcp_passage(*_HTTPS) is Passage.OPEN
        for group in hosts
        for rule in group.towards("egress")
    )


def _no_way(subject: LiveSubject, subnet: Subnet, *, anywhere: bool, routes: dict[str, str]) -> Finding:
    groups = subject.network.groups
    problems = []
    if not routes:
        table = subject.network.route_table(subnet.id)
        of = f"its route table {table.id}" if table else "the route table of its VPC"
        problems.append(f"{of} leads to no NAT gateway")
    if not anywhere:
        listed = ", ".join(f"{group.id} lets out {group.in_words('egress')}" for group in groups)
        problems.append(f"no group lets TCP {HTTPS_PORT} out to every address ({listed})")
    return network.NO_WAY_OUT.at(
        ("network", "subnets"),
        f"no way out of {subnet.id}: {', and '.join(problems)}, and no endpoint for S3 is open to the hosts "
        f"on TCP {HTTPS_PORT}; the job would fail after minutes of billing, without reading its data",
        stage=Stage.LIVE,
        subject=subnet.id if not routes else groups[0].id,
    )


def _some_missing(subnet: Subnet, missing: list[str]) -> Finding:
    return network.NO_WAY_OUT.finding(
        Stage.LIVE,
        f"from {subnet.id} S3 is reached through its endpoint, but nothing leads to {', '.join(missing)}: "
        + _without(missing),
        remedy="Create these endpoints and allow TCP 443 to them, or give the subnet a route to a NAT "
        "gateway.",
        severity=Severity.WARNING,
        subject=subnet.id,
    )


def _without(missing: list[str]) -> str:
    if SECRETS in missing:
        return "the job would end before its script starts, without its secrets"
    if missing == [SHELL]:
        return "no shell could be opened in the containers"
    return "images from the account's own registry, logs, metrics or credentials would be missing"


def _only_internet(subnet: Subnet, gateway: str) -> Finding:
    """Source: SageMaker developer guide, train-vpc (the hosts' interfaces have private addresses)."""
    return network.NO_WAY_OUT.finding(
        Stage.LIVE,
        f"the only route out of {subnet.id} is the internet gateway {gateway}, which serves public "
        "addresses, and the interfaces of training hosts have private ones",
        remedy="Give the subnet a route to a NAT gateway, or create the endpoints.",
        severity=Severity.WARNING,
        subject=subnet.id,
    )
