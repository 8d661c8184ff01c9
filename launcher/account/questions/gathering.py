"""The facts of the live stage: all that a job names is asked for at once, then put together."""

from __future__ import annotations

from typing import Any

from launcher.account.buckets import BucketEncryption, fetch_bucket, fetch_bucket_encryption
from launcher.account.facts import AccountFacts, Fact
from launcher.account.images import fetch_image, parse_image_uri
from launcher.account.offerings import fetch_offering_zones
from launcher.account.prefixes import fetch_prefix
from launcher.account.questions.asking import BOUND_SECONDS, Answers, Progress, Question, ask_all
from launcher.account.questions.file_system import FileSystemQuestions
from launcher.account.questions.identities import IdentityQuestions
from launcher.account.questions.network import NetworkQuestions
from launcher.account.questions.quotas import QuotaQuestions
from launcher.account.questions.wanted import Wanted
from launcher.aws.clients import Clients


def gather(
    clients: Clients,
    wanted: Wanted,
    *,
    caller: str | None = None,
    on_progress: Progress | None = None,
    bound: float = BOUND_SECONDS,
) -> AccountFacts:
    """All facts about what a job names, in about the time of the slowest answer.

    Args:
        clients: gives clients; `SharedClients()` in earnest.
        wanted: what the job names.
        caller: the ARN of who asks, where it is known already; else STS is asked first, and what the
            caller may do is the only thing that waits for it.
        on_progress: told (answers, questions, what is still waited for) after each answer.
        bound: seconds after which a question that was not answered becomes Unverified.

    Raises:
        UnusableSession: without credentials or a region, or where AWS does not take the credentials.
        Unreachable: not one question was answered.
    """
    network = NetworkQuestions(clients, wanted)
    file_system = FileSystemQuestions(network)
    identities = IdentityQuestions(clients, wanted, caller)
    quotas = QuotaQuestions(clients, wanted)

    def questions(answers: Answers) -> dict[str, Question]:
        # The order is that in which clients are made: the small ones first, whose calls then are under
        # way while the large ones (EC2's and SageMaker's) are read from the disk.
        return (
            identities.questions(answers)
            | _storage_questions(clients, wanted)
            | quotas.questions(answers)
            | file_system.questions(answers)
            | _instance_questions(clients, wanted)
            | network.questions(answers)
        )

    answers = ask_all(questions, bound=bound, on_progress=on_progress)
    return AccountFacts(
        region=wanted.region,
        subnets=answers.get("subnets"),
        groups=answers.get("groups"),
        route_tables=network.route_tables(answers),
        endpoints=network.endpoints(answers),
        endpoint_groups=network.endpoint_groups(answers),
        acls=answers.get("acls"),
        file_system=file_system.file_system(answers),
        associations=answers.get("associations"),
        file_system_groups=file_system.groups(answers),
        buckets={name: answers[_bucket(name)] for name in wanted.buckets},
        encryption=_encryption(wanted, answers),
        prefixes={uri: answers[_prefix(uri)] for uri in wanted.looked_into},
        role=identities.role(answers),
        permissions=identities.permissions(answers),
        caller=identities.caller(answers),
        image=answers.get("image"),
        quota=quotas.quota(answers),
        warm_pool_quota=quotas.warm_pool_quota(answers),
        running_jobs=quotas.running_jobs(answers),
        offered_in=answers.get("offered in"),
    )


def _storage_questions(clients: Clients, wanted: Wanted) -> dict[str, Question]:
    """A bucket of another region is found as well: S3 tells where, and the SDK asks there."""

    def bucket(name: str) -> Question:
        return Question(
            f"the bucket {name}",
            "s3:ListBucket",
            lambda: fetch_bucket(clients("s3", wanted.region), name),
        )

    def encryption(name: str) -> Question:
        return Question(
            f"the encryption of the bucket {name}",
            "s3:GetEncryptionConfiguration",
            lambda: fetch_bucket_encryption(clients("s3", wanted.region), name),
        )

    def prefix(uri: str) -> Question:
        return Question(
            f"what lies at {uri}", "s3:ListBucket", lambda: fetch_prefix(clients("s3", wanted.region), uri)
        )

    return (
        {_bucket(name): bucket(name) for name in wanted.buckets}
        | {_encryption_of(name): encryption(name) for name in wanted.buckets}
        | {_prefix(uri): prefix(uri) for uri in wanted.looked_into}
    )


def _instance_questions(clients: Clients, wanted: Wanted) -> dict[str, Question]:
    asked: dict[str, Question] = {}
    image = parse_image_uri(wanted.image) if wanted.image else None
    if image is not None:
        # Asked in the registry's own region, so that it is found also where the job's is another.
        asked["image"] = Question(
            f"the image {image.uri}",
            "ecr:BatchGetImage",
            lambda: fetch_image(clients("ecr", image.region), image),
        )
    if wanted.instance_type:
        asked["offered in"] = Question(
            f"where {wanted.instance_type} is offered",
            "ec2:DescribeInstanceTypeOfferings",
            lambda: fetch_offering_zones(clients("ec2", wanted.region), wanted.instance_type),
        )
    return asked


def _encryption(wanted: Wanted, answers: Answers) -> dict[str, Fact[BucketEncryption]]:
    """That of the buckets which exist, as far as is known."""
    found: dict[str, Any] = {name: answers[_encryption_of(name)] for name in wanted.buckets}
    return {name: each for name, each in found.items() if answers[_bucket(name)] is not None}


def _bucket(name: str) -> str:
    return f"bucket {name}"


def _encryption_of(name: str) -> str:
    return f"encryption {name}"


def _prefix(uri: str) -> str:
    return f"prefix {uri}"
