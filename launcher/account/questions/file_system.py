"""The file system's part of the live stage: what is asked, and what is made of the answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launcher.account.facts import Fact
from launcher.account.file_system import (
    FileSystem,
    describe_file_system,
    fetch_associations,
    fetch_interfaces,
    fetch_some_interfaces,
    parse_file_system,
)
from launcher.account.network import Subnet, fetch_subnets
from launcher.account.questions.asking import Answers, Question
from launcher.account.questions.network import NetworkQuestions, groups_among, missing_groups
from launcher.account.questions.wanted import Wanted
from launcher.account.unverified import Unverified
from launcher.cluster.security_groups import SecurityGroup

_SEE_INTERFACES = "ec2:DescribeNetworkInterfaces"


@dataclass(frozen=True, slots=True)
class FileSystemQuestions:
    """What is asked about a job's file system, and what comes of it.

    One that stands in the subnets of the job, with fewer interfaces there than one answer holds, takes
    no call after the first ones.
    """

    network: NetworkQuestions

    @property
    def wanted(self) -> Wanted:
        """What the job names."""
        return self.network.wanted

    def questions(self, answers: Answers) -> dict[str, Question]:
        """All that can be asked, with the answers so far."""
        id_ = self.wanted.file_system_id
        if id_ is None:
            return {}
        asked = {
            "file system": Question(
                f"the file system {id_}",
                "fsx:DescribeFileSystems",
                lambda: Described(describe_file_system(self._client("fsx"), id_)),
            ),
            "associations": Question(
                "the file system's links to S3",
                "fsx:DescribeDataRepositoryAssociations",
                lambda: fetch_associations(self._client("fsx"), id_),
            ),
        }
        if self.wanted.subnet_ids:
            asked["some interfaces"] = Question(
                "the network interfaces of the subnets",
                _SEE_INTERFACES,
                lambda: fetch_some_interfaces(self._client("ec2"), self.wanted.subnet_ids),
            )
        return asked | self._following(answers)

    def file_system(self, answers: Answers) -> Fact[FileSystem | None] | None:
        """The file system with its zone and groups, as far as they could be had."""
        described = answers.get("file system")
        if not isinstance(described, Described):
            return described
        if described.answer is None:
            return None
        interfaces = self._interfaces(described.answer, answers)
        return parse_file_system(
            described.answer,
            subnet=self._subnet(described.answer, answers),
            interfaces=() if isinstance(interfaces, Unverified) else interfaces,
        )

    def groups(self, answers: Answers) -> Fact[tuple[SecurityGroup, ...]] | None:
        """The security groups of the file system's interfaces; None for a job outside of a VPC."""
        described = answers.get("file system")
        if not self.wanted.subnet_ids:
            return None
        if not isinstance(described, Described):
            return described
        if described.answer is None:
            return None
        interfaces = self._interfaces(described.answer, answers)
        if isinstance(interfaces, Unverified):
            return interfaces
        return groups_among(_group_ids(interfaces), answers, "file system groups")

    def _following(self, answers: Answers) -> dict[str, Question]:
        """What only FSx's answer tells to ask for."""
        described = answers.get("file system")
        if not isinstance(described, Described) or described.answer is None:
            return {}
        asked: dict[str, Question] = {}
        ids = tuple(described.answer.get("NetworkInterfaceIds", ()))
        waits = "some interfaces" not in answers and bool(self.wanted.subnet_ids)
        if not waits and not set(ids) <= {each["NetworkInterfaceId"] for each in _some(answers)}:
            asked["interfaces"] = Question(
                "the file system's network interfaces",
                _SEE_INTERFACES,
                lambda: fetch_interfaces(self._client("ec2"), ids),
            )
        interfaces = self._interfaces(described.answer, answers)
        if not isinstance(interfaces, Unverified):
            missing = missing_groups(_group_ids(interfaces), answers)
            if missing:
                asked["file system groups"] = self.network.groups_question("the file system", missing)
        subnet_ids = tuple(described.answer.get("SubnetIds", ())[:1])
        if subnet_ids and "subnets" in answers and self._subnet(described.answer, answers) is None:
            asked["file system subnet"] = Question(
                "the file system's subnet",
                "ec2:DescribeSubnets",
                lambda: fetch_subnets(self._client("ec2"), subnet_ids),
            )
        return asked

    def _interfaces(
        self, described: Mapping[str, Any], answers: Answers
    ) -> tuple[Mapping[str, Any], ...] | Unverified:
        """The file system's own interfaces; Unverified where EC2 did not tell."""
        ids = set(described.get("NetworkInterfaceIds", ()))
        own = tuple(each for each in _some(answers) if each["NetworkInterfaceId"] in ids)
        if len(own) == len(ids):
            return own
        asked: tuple[Mapping[str, Any], ...] | Unverified = answers.get("interfaces", ())
        return asked

    def _subnet(self, described: Mapping[str, Any], answers: Answers) -> Subnet | None:
        id_ = next(iter(described.get("SubnetIds", ())), None)
        for key in ("subnets", "file system subnet"):
            found = answers.get(key)
            if found is not None and not isinstance(found, Unverified):
                subnet: Subnet
                for subnet in found:
                    if subnet.id == id_:
                        return subnet
        return None

    def _client(self, service: str) -> Any:
        return self.network.clients(service, self.wanted.region)


@dataclass(frozen=True, slots=True)
class Described:
    """FSx's answer: None where there is no such file system, which is an answer too."""

    answer: Mapping[str, Any] | None


def _some(answers: Answers) -> tuple[Mapping[str, Any], ...]:
    found: tuple[Mapping[str, Any], ...] | Unverified = answers.get("some interfaces", ())
    return () if isinstance(found, Unverified) else found


def _group_ids(interfaces: tuple[Mapping[str, Any], ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(group["GroupId"] for each in interfaces for group in each.get("Groups", ())))
