"""Whether the hosts reach S3 and the other services from their subnet (EFA003)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

from launcher.account.facts import Unverified
from launcher.account.network import Endpoint, Subnet
from launcher.cluster.security_groups import ANY_IPV4, Passage, PortRange, SecurityGroup, passage
from launcher.cluster.training_network import HTTPS_PORT, S3, SECRETS, SERVICES, SHELL
from launcher.failure_modes import network
from launcher.failure_modes.model import Figure, Finding, Severity, Source, Stage
from launcher.rules.live.acls import ANSWERS, lets_pass
from launcher.rules.live.rule import could_not_verify, live_rule
from launcher.rules.live.subject import LiveSubject, known

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
