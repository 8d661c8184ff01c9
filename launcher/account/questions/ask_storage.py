"""The storage's part of the live stage: the file system, the buckets that a job names, and what lies in
them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from launcher.account.facts import (
    MOST_LISTED,
    Bucket,
    BucketEncryption,
    DataRepositoryAssociation,
    Fact,
    FileSystem,
    Prefix,
    Unverified,
    parse_association,
    parse_bucket_encryption,
    parse_file_system,
)
from launcher.account.network import Subnet
from launcher.account.questions.ask import Answers, Question, Service, Wanted, described
from launcher.account.questions.ask_network import NetworkQuestions, fetch_subnets
from launcher.aws.errors import aws_errors
from launcher.aws.lookups import naming_owners
from launcher.cluster.traffic import SecurityGroup
from launcher.text.values import split_uri

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
        return None if self._associations is None else answers.get(self._associations)

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
        return None if self._described is None else answers.get(self._described)

    def _interfaces(self, described: Described, answers: Answers) -> Fact[tuple[Described, ...]]:
        """The file system's own interfaces; Unverified where EC2 did not tell."""
        ids = set(_interface_ids(described))
        own = tuple(each for each in self._some(answers) if each["NetworkInterfaceId"] in ids)
        if len(own) == len(ids):
            return own
        return answers.get(self._interfaces_question(described)) or ()

    def _some(self, answers: Answers) -> tuple[Described, ...]:
        found = answers.get(self._some_interfaces)
        return () if found is None or isinstance(found, Unverified) else found

    def _subnet(self, described: Described, answers: Answers) -> Subnet | None:
        question = self._subnet_question(described)
        if question is None:
            return None
        for found in (self._network.subnets(answers), answers.get(question)):
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


_ABSENT = frozenset({"404", "NoSuchBucket"})
_ELSEWHERE = frozenset(
    {"301", "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
)
_NOT_SET = "ServerSideEncryptionConfigurationNotFoundError"


class StorageQuestions:
    """What is asked about a job's buckets and places on S3, and what comes of it.

    A bucket of another region is found as well: S3 tells where it is, and the SDK asks there.
    """

    def __init__(self, wanted: Wanted) -> None:
        s3, owners = Service("s3", wanted.region), wanted.bucket_owners
        self._buckets: dict[str, Question[Bucket | None]] = {
            name: s3.question(f"the bucket {name}", "s3:ListBucket", fetch_bucket, name, owners.get(name))
            for name in wanted.buckets
        }
        self._encryption: dict[str, Question[BucketEncryption]] = {
            name: s3.question(
                f"the encryption of the bucket {name}",
                "s3:GetEncryptionConfiguration",
                fetch_bucket_encryption,
                name,
                owners.get(name),
            )
            for name in wanted.buckets
        }
        self._prefixes: dict[str, Question[Prefix]] = {
            uri: s3.question(
                f"what lies at {uri}", "s3:ListBucket", fetch_prefix, uri, owners.get(split_uri(uri)[0])
            )
            for uri in wanted.looked_into
        }

    def questions(self) -> list[Question[Any]]:
        """All that is asked; nothing waits for an answer."""
        return [*self._buckets.values(), *self._encryption.values(), *self._prefixes.values()]

    def buckets(self, answers: Answers) -> dict[str, Fact[Bucket | None]]:
        """The buckets by their names; None for one that does not exist."""
        return {name: answers.get(question) for name, question in self._buckets.items()}

    def encryption(self, answers: Answers) -> dict[str, Fact[BucketEncryption]]:
        """The encryption of the buckets which exist, as far as is known."""
        found = {name: answers.get(question) for name, question in self._encryption.items()}
        return {
            name: each
            for name, each in found.items()
            if each is not None and answers.get(self._buckets[name]) is not None
        }

    def prefixes(self, answers: Answers) -> dict[str, Fact[Prefix]]:
        """What lies at each of the job's places."""
        found = {uri: answers.get(question) for uri, question in self._prefixes.items()}
        return {uri: each for uri, each in found.items() if each is not None}


def fetch_bucket(s3: Any, name: str, owner: str | None = None) -> Bucket | None:
    """The bucket of that name with its region, also if it is another than the client's; None if none.

    Raises AwsRefusal where AWS refuses, as it does for the buckets of others and of others than the `owner`
    (an account, where it is known), or cannot be reached.
    """
    with _naming(name, owner), aws_errors(f"look at the bucket {name} (s3:ListBucket)"):
        try:
            answer = s3.head_bucket(Bucket=name, **_expected(owner))
        except s3.exceptions.ClientError as error:
            code, region = error.response["Error"]["Code"], _region(error.response)
            if code in _ABSENT:
                return None
            if code in _ELSEWHERE and region is not None:
                return Bucket(name, region)
            raise
    return Bucket(name, _region(answer) or s3.meta.region_name)


def fetch_bucket_encryption(s3: Any, name: str, owner: str | None = None) -> BucketEncryption:
    """The default encryption of a bucket that exists, and belongs to the account `owner` if one is known.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    action = f"look at the encryption of the bucket {name} (s3:GetEncryptionConfiguration)"
    with _naming(name, owner), aws_errors(action):
        try:
            return parse_bucket_encryption(s3.get_bucket_encryption(Bucket=name, **_expected(owner)))
        except s3.exceptions.ClientError as error:
            if error.response["Error"]["Code"] != _NOT_SET:
                raise
    return BucketEncryption(None, None)


def fetch_prefix(s3: Any, uri: str, owner: str | None = None) -> Prefix:
    """What lies at a place, by one call; nothing where there is no such bucket.

    `owner` is the account of the bucket, where it is known. Raises AwsRefusal where AWS refuses or cannot
    be reached.
    """
    bucket, key = split_uri(uri)
    with _naming(bucket, owner), aws_errors(f"look at {uri} (s3:ListBucket)"):
        try:
            answer = s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=MOST_LISTED, **_expected(owner))
        except s3.exceptions.NoSuchBucket:
            return Prefix(uri, 0)
    listed = answer.get("Contents", ())
    return Prefix(uri, len(listed), sum(each["Size"] for each in listed), answer.get("IsTruncated", False))


def _naming(bucket: str, owner: str | None) -> AbstractContextManager[None]:
    return naming_owners({bucket: owner} if owner else {})


def _expected(owner: str | None) -> dict[str, str]:
    return {"ExpectedBucketOwner": owner} if owner else {}


def _region(answer: Mapping[str, Any]) -> str | None:
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    region: str | None = answer.get("BucketRegion") or headers.get("x-amz-bucket-region")
    return region
