"""The facts of the live stage: all that a job names is asked for at once, then put together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from launcher.account.facts import AccountFacts, Fact, ServiceQuota, quota_name
from launcher.account.questions.ask import BOUND_SECONDS, Answers, OnAnswer, Question, Wanted, ask_all
from launcher.account.questions.ask_capacity import InstanceQuestions, QuotaQuestions, ServiceQuotaQuestions
from launcher.account.questions.ask_identities import IdentityQuestions
from launcher.account.questions.ask_network import NetworkQuestions
from launcher.account.questions.ask_storage import FileSystemQuestions, StorageQuestions
from launcher.aws.clients import Clients


def gather(
    clients: Clients,
    wanted: Wanted,
    *,
    caller: str | None = None,
    on_answer: OnAnswer | None = None,
    bound: float = BOUND_SECONDS,
) -> AccountFacts:
    """All facts about what a job names, in about the time of the slowest answer.

    Args:
        clients: the command's AWS clients.
        wanted: what the job names.
        caller: the ARN of who asks, where it is known already; else STS is asked first, and what the
            caller may do is the only thing that waits for it.
        on_answer: called with (answers, questions, what is still waited for) after each answer.
        bound: seconds after which a question that was not answered becomes Unverified.

    Raises:
        UnusableSession: without credentials or a region, or where AWS does not take the credentials.
        Unreachable: not one question was answered.
    """
    identities, storage, quotas = (
        IdentityQuestions(wanted, caller),
        StorageQuestions(wanted),
        QuotaQuestions(wanted),
    )
    network, instances = NetworkQuestions(wanted), InstanceQuestions(wanted)
    file_system = FileSystemQuestions(wanted, network)

    def questions(answers: Answers) -> list[Question[Any]]:
        # The order is that in which clients are made: the small ones first, whose calls then are under
        # way while the large ones (EC2's and SageMaker's) are read from the disk.
        return [
            *identities.questions(answers),
            *storage.questions(),
            *quotas.questions(answers),
            *file_system.questions(answers),
            *instances.questions(),
            *network.questions(answers),
        ]

    answers = ask_all(clients, questions, bound=bound, on_answer=on_answer)
    return replace(
        _network_facts(wanted.region, network, file_system, answers),
        associations=file_system.associations(answers),
        buckets=storage.buckets(answers),
        encryption=storage.encryption(answers),
        prefixes=storage.prefixes(answers),
        role=identities.role(answers),
        permissions=identities.permissions(answers),
        caller=identities.caller(answers),
        image=instances.image(answers),
        quota=quotas.quota(answers),
        warm_pool_quota=quotas.warm_pool_quota(answers),
        running_jobs=quotas.running_jobs(answers),
        offered_in=instances.offered_in(answers),
    )


def gather_network(clients: Clients, wanted: Wanted) -> AccountFacts:
    """The facts about network and file system alone, for what is not a job yet; the others are None.

    Raises as `gather`.
    """
    network = NetworkQuestions(wanted)
    file_system = FileSystemQuestions(wanted, network)

    def questions(answers: Answers) -> list[Question[Any]]:
        return [*file_system.questions(answers), *network.questions(answers)]

    return _network_facts(wanted.region, network, file_system, ask_all(clients, questions))


def gather_quotas(
    clients: Clients, region: str, instance_types: Iterable[str], *, spot: bool
) -> dict[str, Fact[ServiceQuota | None]]:
    """How many hosts of each type the account may use in training jobs, on demand or on spot capacity.

    None where there is no such quota in the region. Raises as `gather`.
    """
    names = {
        each: quota_name(each, "spot training job" if spot else "training job") for each in instance_types
    }
    quotas = ServiceQuotaQuestions(region, names.values())
    answers = ask_all(clients, quotas.questions)
    return {each: quotas.quota(name, answers) for each, name in names.items()}


def _network_facts(
    region: str, network: NetworkQuestions, file_system: FileSystemQuestions, answers: Answers
) -> AccountFacts:
    return AccountFacts(
        region=region,
        subnets=network.subnets(answers),
        groups=network.groups(answers),
        route_tables=network.route_tables(answers),
        endpoints=network.endpoints(answers),
        endpoint_groups=network.endpoint_groups(answers),
        acls=network.acls(answers),
        file_system=file_system.file_system(answers),
        file_system_groups=file_system.groups(answers),
    )
