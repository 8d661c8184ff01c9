"""The network's part of the live stage: what is asked, what is made of the answers, and the one repair."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from launcher.account.facts import Fact, Unverified
from launcher.account.network import (
    Endpoint,
    NetworkAcl,
    RouteTable,
    Subnet,
    parse_endpoint,
    parse_network_acl,
    parse_route_table,
    parse_security_group,
    parse_subnet,
    serving,
    within,
)
from launcher.account.questions.ask import Answers, Question, Service, Wanted, described
from launcher.aws.errors import aws_errors
from launcher.cluster.traffic import Direction, SecurityGroup, SecurityGroupRule


class NetworkQuestions:
    """What is asked about a job's network, and what comes of it.

    Nothing waits for the VPC to be known: tables and ACLs are asked for by subnet, the main tables and
    the endpoints for the whole region, to be sorted out afterwards. Nor do the groups of endpoints and
    file system, where the region has no more of them than one answer holds.
    """

    def __init__(self, wanted: Wanted) -> None:
        self._needed = bool(wanted.subnet_ids)
        self._ec2 = ec2 = Service("ec2", wanted.region)
        subnet_ids, group_ids = wanted.subnet_ids, wanted.group_ids
        see_groups, see_tables = "ec2:DescribeSecurityGroups", "ec2:DescribeRouteTables"
        self._subnets: Question[tuple[Subnet, ...]] = ec2.question(
            "the subnets", "ec2:DescribeSubnets", fetch_subnets, subnet_ids
        )
        self._groups: Question[tuple[SecurityGroup, ...]] = ec2.question(
            "the security groups", see_groups, fetch_security_groups, group_ids
        )
        self._own_tables: Question[tuple[RouteTable, ...]] = ec2.question(
            "the route tables", see_tables, fetch_own_route_tables, subnet_ids
        )
        self._main_tables: Question[tuple[RouteTable, ...]] = ec2.question(
            "the route tables", see_tables, fetch_main_route_tables
        )
        self._endpoints: Question[tuple[Endpoint, ...]] = ec2.question(
            "the VPC endpoints", "ec2:DescribeVpcEndpoints", fetch_endpoints
        )
        self._acls: Question[tuple[NetworkAcl, ...]] = ec2.question(
            "the network ACLs", "ec2:DescribeNetworkAcls", fetch_network_acls, subnet_ids
        )
        self._some_groups: Question[tuple[SecurityGroup, ...]] = ec2.question(
            "the security groups of the region", see_groups, fetch_some_security_groups
        )

    def questions(self, answers: Answers) -> list[Question[Any]]:
        """All that can be asked, with the answers so far."""
        if not self._needed:
            return []
        asked: list[Question[Any]] = [
            self._subnets,
            self._groups,
            self._own_tables,
            self._main_tables,
            self._endpoints,
            self._acls,
            self._some_groups,
        ]
        missing = self.missing_groups(self._endpoint_group_ids(answers), answers)
        if missing:
            asked.append(self.groups_question("the endpoints", missing))
        return asked

    def groups_question(self, owner: str, ids: tuple[str, ...]) -> Question[tuple[SecurityGroup, ...]]:
        """The question about security groups that were not among those of the region."""
        return self._ec2.question(
            f"the security groups of {owner}", "ec2:DescribeSecurityGroups", fetch_security_groups, ids
        )

    def subnets(self, answers: Answers) -> Fact[tuple[Subnet, ...]] | None:
        """The subnets of the job; None outside of a VPC, and while they are waited for."""
        return answers.get(self._subnets)

    def groups(self, answers: Answers) -> Fact[tuple[SecurityGroup, ...]] | None:
        """The security groups of the job."""
        return answers.get(self._groups)

    def acls(self, answers: Answers) -> Fact[tuple[NetworkAcl, ...]] | None:
        """The network ACLs of the subnets."""
        return answers.get(self._acls)

    def route_tables(self, answers: Answers) -> Fact[tuple[RouteTable, ...]] | None:
        """The tables of the subnets and the main ones of their VPCs."""
        own, main = answers.get(self._own_tables), answers.get(self._main_tables)
        vpc_ids = self._vpc_ids(answers)
        if own is None or isinstance(own, Unverified):
            return own
        if main is None or isinstance(main, Unverified):
            return main
        if vpc_ids is None or isinstance(vpc_ids, Unverified):
            return vpc_ids
        return serving(own, main, vpc_ids)

    def endpoints(self, answers: Answers) -> Fact[tuple[Endpoint, ...]] | None:
        """The endpoints of the subnets' VPCs."""
        found, vpc_ids = answers.get(self._endpoints), self._vpc_ids(answers)
        if found is None or isinstance(found, Unverified):
            return found
        if vpc_ids is None or isinstance(vpc_ids, Unverified):
            return vpc_ids
        return within(found, vpc_ids)

    def endpoint_groups(self, answers: Answers) -> Fact[tuple[SecurityGroup, ...]] | None:
        """The groups of those endpoints."""
        endpoints = self.endpoints(answers)
        if endpoints is None or isinstance(endpoints, Unverified):
            return endpoints
        return self.groups_among(self._endpoint_group_ids(answers), answers, "the endpoints")

    def missing_groups(self, ids: Iterable[str], answers: Answers) -> tuple[str, ...]:
        """Those of the groups that no answer holds yet; none while the region's are still waited for."""
        if self._some_groups not in answers or self._groups not in answers:
            return ()
        known = self._known_groups(answers)
        return tuple(id_ for id_ in ids if id_ not in known)

    def groups_among(
        self, ids: Iterable[str], answers: Answers, owner: str
    ) -> Fact[tuple[SecurityGroup, ...]] | None:
        """The groups with these ids, from the region's and from those asked for because of their owner."""
        wanted = tuple(dict.fromkeys(ids))
        known = self._known_groups(answers)
        missing = self.missing_groups(wanted, answers)
        if missing:
            rest = answers.get(self.groups_question(owner, missing))
            if rest is None or isinstance(rest, Unverified):
                return rest
            known |= {each.id: each for each in rest}
        return tuple(known[id_] for id_ in wanted if id_ in known)

    def _vpc_ids(self, answers: Answers) -> Fact[frozenset[str]] | None:
        """The VPCs of the subnets, from whichever answer has them; None while there is none."""
        questions: tuple[Question[Any], ...] = (self._subnets, self._acls, self._groups)
        for question in questions:
            found = answers.get(question)
            if found is None:
                return None
            if not isinstance(found, Unverified):
                return frozenset(each.vpc_id for each in found if each.vpc_id)
        subnets = answers.get(self._subnets)
        return subnets if isinstance(subnets, Unverified) else None

    def _endpoint_group_ids(self, answers: Answers) -> tuple[str, ...]:
        endpoints = self.endpoints(answers)
        if endpoints is None or isinstance(endpoints, Unverified):
            return ()
        return tuple(dict.fromkeys(id_ for each in endpoints for id_ in each.security_group_ids))

    def _known_groups(self, answers: Answers) -> dict[str, SecurityGroup]:
        found = [answers.get(question) for question in (self._some_groups, self._groups)]
        return {
            each.id: each
            for groups in found
            if groups is not None and not isinstance(groups, Unverified)
            for each in groups
        }


def fetch_subnets(ec2: Any, ids: Iterable[str]) -> tuple[Subnet, ...]:
    """The subnets with these ids, in their order; those that do not exist are left out."""
    wanted = list(dict.fromkeys(ids))
    with aws_errors("describe the subnets (ec2:DescribeSubnets)"):
        subnets = described(ec2, "describe_subnets", "Subnets", "subnet-id", wanted)
        found = {each["SubnetId"]: parse_subnet(each) for each in subnets}
    return tuple(found[id_] for id_ in wanted if id_ in found)


def fetch_own_route_tables(ec2: Any, subnet_ids: Iterable[str]) -> tuple[RouteTable, ...]:
    """The route tables that name one of these subnets."""
    return _route_tables(ec2, "association.subnet-id", subnet_ids)


def fetch_main_route_tables(ec2: Any) -> tuple[RouteTable, ...]:
    """The main route tables of all VPCs of the region: one each, five unless the quota was raised."""
    return _route_tables(ec2, "association.main", ["true"])


def fetch_endpoints(ec2: Any) -> tuple[Endpoint, ...]:
    """All VPC endpoints of the region, whatever their state.

    Those of one VPC could be asked for only once the VPC is known, which takes a call before.
    """
    with aws_errors("describe the VPC endpoints (ec2:DescribeVpcEndpoints)"):
        return tuple(
            parse_endpoint(each)
            for page in ec2.get_paginator("describe_vpc_endpoints").paginate()
            for each in page["VpcEndpoints"]
        )


def fetch_network_acls(ec2: Any, subnet_ids: Iterable[str]) -> tuple[NetworkAcl, ...]:
    """The network ACLs of these subnets: each has exactly one, the VPC's default if no other.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors("describe the network ACLs (ec2:DescribeNetworkAcls)"):
        acls = described(ec2, "describe_network_acls", "NetworkAcls", "association.subnet-id", subnet_ids)
        return tuple(map(parse_network_acl, acls))


def _route_tables(ec2: Any, filter_: str, values: Iterable[str]) -> tuple[RouteTable, ...]:
    with aws_errors("describe the route tables (ec2:DescribeRouteTables)"):
        tables = described(ec2, "describe_route_tables", "RouteTables", filter_, values)
        return tuple(map(parse_route_table, tables))


MOST_GROUPS_UNASKED = 200
"""One answer that is still small: EC2 would send up to 1000 groups at once, some megabytes of XML."""


def fetch_security_groups(ec2: Any, ids: Iterable[str]) -> tuple[SecurityGroup, ...]:
    """The groups with these ids, in their order; those that do not exist are left out.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    wanted = list(dict.fromkeys(ids))
    with aws_errors("describe the security groups (ec2:DescribeSecurityGroups)"):
        groups = described(ec2, "describe_security_groups", "SecurityGroups", "group-id", wanted)
        found = {each["GroupId"]: parse_security_group(each) for each in groups}
    return tuple(found[id_] for id_ in wanted if id_ in found)


def fetch_some_security_groups(ec2: Any) -> tuple[SecurityGroup, ...]:
    """Security groups of the region, all of them where there are no more than MOST_GROUPS_UNASKED.

    For groups whose ids another call will tell: in most accounts they are among these, and need no
    call after that one. Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors("describe the security groups (ec2:DescribeSecurityGroups)"):
        answer = ec2.describe_security_groups(MaxResults=MOST_GROUPS_UNASKED)
    return tuple(map(parse_security_group, answer["SecurityGroups"]))


_ACTIONS: dict[Direction, tuple[str, str]] = {
    "ingress": ("authorize_security_group_ingress", "ec2:AuthorizeSecurityGroupIngress"),
    "egress": ("authorize_security_group_egress", "ec2:AuthorizeSecurityGroupEgress"),
}
_THERE_ALREADY = "InvalidPermission.Duplicate"


def authorize(ec2: Any, group_id: str, rule: SecurityGroupRule) -> bool:
    """Add a rule whose peers are groups; False where the group has it already.

    Raises AwsRefusal where AWS refuses or cannot be reached; the message names the IAM action.
    """
    method, action = _ACTIONS[rule.direction]
    with aws_errors(f"add a rule to the security group {group_id} ({action})"):
        try:
            getattr(ec2, method)(GroupId=group_id, IpPermissions=[_described(rule)])
        except ec2.exceptions.ClientError as error:
            if error.response["Error"]["Code"] == _THERE_ALREADY:
                return False
            raise
    return True


def _described(rule: SecurityGroupRule) -> dict[str, Any]:
    ports = {"FromPort": rule.first_port, "ToPort": rule.last_port}
    return {
        "IpProtocol": rule.protocol,
        **{name: port for name, port in ports.items() if port is not None},
        "UserIdGroupPairs": [{"GroupId": peer, "Description": "launch check"} for peer in rule.groups],
    }
