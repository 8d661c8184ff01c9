"""The file system's part of the live stage: what is asked, and what is made of the answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from launcher.account.facts import Fact
from launcher.account.file_system import (
    DataRepositoryAssociation,
    FileSystem,
    parse_association,
    parse_file_system,
)
from launcher.account.network import Subnet
from launcher.account.questions.asking import Answers, Question, Service
from launcher.account.questions.described import described
from launcher.account.questions.network import NetworkQuestions, fetch_subnets
from launcher.account.questions.wanted import Wanted
from launcher.account.unverified import Unverified
from launcher.aws.errors import aws_errors
from launcher.cluster.security_groups import SecurityGroup

MOST_INTERFACES_UNASKED = 200
"""One answer that is still small: EC2 would send up to 1000 interfaces at once."""

_MOST_FILTER_VALUES = 200
"""EC2 user guide: a filter takes at most 200 values."""

_OWNER = "the file system"
_SEE_INTERFACES = "ec2:DescribeNetworkInterfaces"
_INTERFACES = "describe the file system's network interfaces (ec2:DescribeNetworkInterfaces)"

Described = Mapping[str, Any]
"""What FSx or EC2 says of one file system or interface, with the key names of the API."""


class FileSystemQuestions:
    """What is asked about a job's file system, and what comes of it.

    One that stands in the subnets of the job, with fewer interfaces there than one answer holds, takes
    no call after the first ones.
    """

    def __init__(self, wanted: Wanted, network: NetworkQuestions) -> None:
        self._network = network
        self._in_vpc = bool(wanted.subnet_ids)
        self._ec2 = Service("ec2", wanted.region)
        self._some_interfaces: Question[tuple[Described, ...]] = self._ec2.question(
            "the network interfaces of the subnets",
            _SEE_INTERFACES,
            fetch_some_interfaces,
            wanted.subnet_ids,
        )
        self._described: Question[Described | None] | None = None
        self._associations: Question[tuple[DataRepositoryAssociation, ...]] | None = None
        if wanted.file_system_id is not None:
            fsx = Service("fsx", wanted.region)
            self._described = fsx.question(
                f"the file system {wanted.file_system_id}",
                "fsx:DescribeFileSystems",
                describe_file_system,
                wanted.file_system_id,
            )
            self._associations = fsx.question(
                "the file system's links to S3",
                "fsx:DescribeDataRepositoryAssociations",
                fetch_associations,
                wanted.file_system_id,
            )

    def questions(self, answers: Answers) -> list[Question[Any]]:
        """All that can be asked, with the answers so far."""
        if self._described is None or self._associations is None:
            return []
        asked: list[Question[Any]] = [self._described, self._associations]
        if self._in_vpc:
            asked.append(self._some_interfaces)
        return [*asked, *self._following(answers)]

    def file_system(self, answers: Answers) -> Fact[FileSystem | None] | None:
        """The file system with its zone and groups, as far as they could be had."""
        described = self._description(answers)
        if described is None or isinstance(described, Unverified):
            return described
        interfaces = self._interfaces(described, answers)
        return parse_file_system(
            described,
            subnet=self._subnet(described, answers),
            interfaces=() if isinstance(interfaces, Unverified) else interfaces,
        )

    def associations(self, answers: Answers) -> Fact[tuple[DataRepositoryAssociation, ...]] | None:
        """The links between the file system and S3."""
        return None if self._associations is None else answers.of(self._associations)

    def groups(self, answers: Answers) -> Fact[tuple[SecurityGroup, ...]] | None:
        """The security groups of the file system's interfaces; None for a job outside of a VPC."""
        described = self._description(answers) if self._in_vpc else None
        if described is None or isinstance(described, Unverified):
            return described
        interfaces = self._interfaces(described, answers)
        if isinstance(interfaces, Unverified):
            return interfaces
        return self._network.groups_among(_group_ids(interfaces), answers, _OWNER)

    def _following(self, answers: Answers) -> Iterator[Question[Any]]:
        """What only FSx's answer tells to ask for."""
        described = self._description(answers)
        if described is None or isinstance(described, Unverified):
            return
        waits = self._in_vpc and self._some_interfaces not in answers
        own = {each["NetworkInterfaceId"] for each in self._some(answers)}
        if not waits and not set(_interface_ids(described)) <= own:
            yield self._interfaces_question(described)
        interfaces = self._interfaces(described, answers)
        if not isinstance(interfaces, Unverified):
            missing = self._network.missing_groups(_group_ids(interfaces), answers)
            if missing:
                yield self._network.groups_question(_OWNER, missing)
        subnet = self._subnet_question(described)
        known = self._network.subnets(answers) is not None
        if subnet is not None and known and self._subnet(described, answers) is None:
            yield subnet

    def _description(self, answers: Answers) -> Fact[Described | None]:
        """FSx's answer; None where there is no such file system, and while it is waited for."""
        return None if self._described is None else answers.of(self._described)

    def _interfaces(self, described: Described, answers: Answers) -> Fact[tuple[Described, ...]]:
        """The file system's own interfaces; Unverified where EC2 did not tell."""
        ids = set(_interface_ids(described))
        own = tuple(each for each in self._some(answers) if each["NetworkInterfaceId"] in ids)
        if len(own) == len(ids):
            return own
        return answers.of(self._interfaces_question(described)) or ()

    def _some(self, answers: Answers) -> tuple[Described, ...]:
        found = answers.of(self._some_interfaces)
        return () if found is None or isinstance(found, Unverified) else found

    def _subnet(self, described: Described, answers: Answers) -> Subnet | None:
        question = self._subnet_question(described)
        if question is None:
            return None
        for found in (self._network.subnets(answers), answers.of(question)):
            if found is not None and not isinstance(found, Unverified):
                for subnet in found:
                    if subnet.id in _subnet_ids(described):
                        return subnet
        return None

    def _interfaces_question(self, described: Described) -> Question[tuple[Described, ...]]:
        return self._ec2.question(
            "the file system's network interfaces",
            _SEE_INTERFACES,
            fetch_interfaces,
            _interface_ids(described),
        )

    def _subnet_question(self, described: Described) -> Question[tuple[Subnet, ...]] | None:
        ids = _subnet_ids(described)
        if not ids:
            return None
        return self._ec2.question("the file system's subnet", "ec2:DescribeSubnets", fetch_subnets, ids)


def describe_file_system(fsx: Any, file_system_id: str) -> Mapping[str, Any] | None:
    """What FSx says of a file system, for `parse_file_system`; None if there is none of that id.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors(f"describe the file system {file_system_id} (fsx:DescribeFileSystems)"):
        try:
            answer = fsx.describe_file_systems(FileSystemIds=[file_system_id])
        except fsx.exceptions.FileSystemNotFound:
            return None
    found: list[Mapping[str, Any]] = answer["FileSystems"]
    return found[0] if found else None


def fetch_interfaces(ec2: Any, ids: Sequence[str]) -> tuple[Mapping[str, Any], ...]:
    """The network interfaces with these ids, as EC2 describes them: a file system may have hundreds.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors(_INTERFACES):
        return tuple(
            each
            for start in range(0, len(ids), _MOST_FILTER_VALUES)
            for each in described(
                ec2,
                "describe_network_interfaces",
                "NetworkInterfaces",
                "network-interface-id",
                ids[start : start + _MOST_FILTER_VALUES],
            )
        )


def fetch_some_interfaces(ec2: Any, subnet_ids: Sequence[str]) -> tuple[Mapping[str, Any], ...]:
    """Interfaces in these subnets, all of them where there are no more than MOST_INTERFACES_UNASKED.

    A file system that is where it should be has its interfaces in the subnets of the job; so most of
    the time no call is needed after FSx told their ids. Raises AwsRefusal as the others do.
    """
    with aws_errors(_INTERFACES):
        answer = ec2.describe_network_interfaces(
            Filters=[{"Name": "subnet-id", "Values": list(subnet_ids)}], MaxResults=MOST_INTERFACES_UNASKED
        )
    return tuple(answer["NetworkInterfaces"])


def fetch_associations(fsx: Any, file_system_id: str) -> tuple[DataRepositoryAssociation, ...]:
    """The links of a file system to S3, whatever their state; the oldest type, SCRATCH_1, has none.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors("describe the data repository associations (fsx:DescribeDataRepositoryAssociations)"):
        return tuple(parse_association(each) for page in _pages(fsx, file_system_id) for each in page)


def _pages(fsx: Any, file_system_id: str) -> Iterator[list[Mapping[str, Any]]]:
    """The pages of associations; the SDK has no paginator for them."""
    token: dict[str, str] = {}
    while True:
        answer = fsx.describe_data_repository_associations(
            Filters=[{"Name": "file-system-id", "Values": [file_system_id]}], **token
        )
        yield answer["Associations"]
        if not answer.get("NextToken"):
            return
        token = {"NextToken": answer["NextToken"]}


def _interface_ids(described: Described) -> tuple[str, ...]:
    return tuple(described.get("NetworkInterfaceIds", ()))


def _subnet_ids(described: Described) -> tuple[str, ...]:
    """The subnet where the file system stands: of several the first, as FSx prefers it."""
    return tuple(described.get("SubnetIds", ())[:1])


def _group_ids(interfaces: tuple[Described, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(group["GroupId"] for each in interfaces for group in each.get("Groups", ())))
