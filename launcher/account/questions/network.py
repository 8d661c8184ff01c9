"""The network's part of the live stage: what is asked, and what is made of the answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from launcher.account.facts import Fact
from launcher.account.network import (
    Endpoint,
    RouteTable,
    fetch_endpoints,
    fetch_main_route_tables,
    fetch_own_route_tables,
    fetch_subnets,
    serving,
    within,
)
from launcher.account.network_acls import fetch_network_acls
from launcher.account.questions.asking import Answers, Question
from launcher.account.questions.wanted import Wanted
from launcher.account.security_groups import fetch_security_groups, fetch_some_security_groups
from launcher.account.unverified import Unverified
from launcher.aws.clients import Clients
from launcher.cluster.security_groups import SecurityGroup


@dataclass(frozen=True, slots=True)
class NetworkQuestions:
    """What is asked about a job's network, and what comes of it.

    Nothing waits for the VPC to be known: tables and ACLs are asked for by subnet, the main tables and
    the endpoints for the whole region, to be sorted out afterwards. Nor do the groups of endpoints and
    file system, where the region has no more of them than one answer holds.
    """

    clients: Clients
    wanted: Wanted

    def questions(self, answers: Answers) -> dict[str, Question]:
        """All that can be asked, with the answers so far."""
        subnet_ids, group_ids = self.wanted.subnet_ids, self.wanted.group_ids
        if not subnet_ids:
            return {}
        ask = self._question
        asked = {
            "subnets": ask("the subnets", "DescribeSubnets", fetch_subnets, subnet_ids),
            "groups": ask("the security groups", "DescribeSecurityGroups", fetch_security_groups, group_ids),
            "own tables": ask("the route tables", "DescribeRouteTables", fetch_own_route_tables, subnet_ids),
            "main tables": ask("the route tables", "DescribeRouteTables", fetch_main_route_tables),
            "endpoints": ask("the VPC endpoints", "DescribeVpcEndpoints", fetch_endpoints),
            "acls": ask("the network ACLs", "DescribeNetworkAcls", fetch_network_acls, subnet_ids),
            "some groups": ask(
                "the security groups of the region", "DescribeSecurityGroups", fetch_some_security_groups
            ),
        }
        missing = missing_groups(self._endpoint_group_ids(answers), answers)
        if missing:
            asked["endpoint groups"] = self.groups_question("the endpoints", missing)
        return asked

    def groups_question(self, owner: str, ids: Iterable[str]) -> Question:
        """The question about security groups that were not among those of the region."""
        what = f"the security groups of {owner}"
        return self._question(what, "DescribeSecurityGroups", fetch_security_groups, tuple(ids))

    def route_tables(self, answers: Answers) -> Fact[tuple[RouteTable, ...]] | None:
        """The tables of the subnets and the main ones of their VPCs."""
        own, main, vpc_ids = answers.get("own tables"), answers.get("main tables"), self.vpc_ids(answers)
        if own is None or isinstance(own, Unverified):
            return own
        if main is None or isinstance(main, Unverified):
            return main
        if vpc_ids is None or isinstance(vpc_ids, Unverified):
            return vpc_ids
        return serving(own, main, vpc_ids)

    def endpoints(self, answers: Answers) -> Fact[tuple[Endpoint, ...]] | None:
        """The endpoints of the subnets' VPCs."""
        found, vpc_ids = answers.get("endpoints"), self.vpc_ids(answers)
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
        return groups_among(self._endpoint_group_ids(answers), answers, "endpoint groups")

    @staticmethod
    def vpc_ids(answers: Answers) -> Fact[frozenset[str]] | None:
        """The VPCs of the subnets, from whichever answer tells them; None while none is there."""
        for key in ("subnets", "acls", "groups"):
            found = answers.get(key)
            if found is None:
                return None
            if not isinstance(found, Unverified):
                return frozenset(each.vpc_id for each in found if each.vpc_id)
        unverified: Unverified = answers["subnets"]
        return unverified

    def _endpoint_group_ids(self, answers: Answers) -> tuple[str, ...]:
        endpoints = self.endpoints(answers)
        if endpoints is None or isinstance(endpoints, Unverified):
            return ()
        return tuple(dict.fromkeys(id_ for each in endpoints for id_ in each.security_group_ids))

    def _question(self, what: str, action: str, fetch: Any, *arguments: Any) -> Question:
        ask = lambda: fetch(self.clients("ec2", self.wanted.region), *arguments)  # noqa: E731
        return Question(what, f"ec2:{action}", ask)


def missing_groups(ids: Iterable[str], answers: Answers) -> tuple[str, ...]:
    """Those of the groups that no answer holds yet; none while the region's are still waited for."""
    if "some groups" not in answers or "groups" not in answers:
        return ()
    known = _known_groups(answers)
    return tuple(id_ for id_ in ids if id_ not in known)


def groups_among(ids: Iterable[str], answers: Answers, key: str) -> Fact[tuple[SecurityGroup, ...]] | None:
    """The groups with these ids, from the region's and from those asked for under `key`."""
    wanted = tuple(dict.fromkeys(ids))
    if not missing_groups(wanted, answers):
        known = _known_groups(answers)
        return tuple(known[id_] for id_ in wanted if id_ in known)
    rest = answers.get(key)
    if rest is None or isinstance(rest, Unverified):
        return rest
    known = _known_groups(answers) | {each.id: each for each in rest}
    return tuple(known[id_] for id_ in wanted if id_ in known)


def _known_groups(answers: Answers) -> dict[str, SecurityGroup]:
    found = [answers.get(key) for key in ("some groups", "groups")]
    return {
        each.id: each
        for groups in found
        if groups is not None and not isinstance(groups, Unverified)
        for each in groups
    }
