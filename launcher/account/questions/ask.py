"""Questions to AWS, all at once: what a job names, and a thread and a bound for each question, so that none
hangs the rest."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import field
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar

from launcher.account.facts import Unverified
from launcher.aws.clients import BRISK, Clients
from launcher.failure_modes.model import AwsRefusal, Unreachable, UnusableSession
from launcher.frozen import frozen
from launcher.text.values import split_uri


@frozen
class Wanted:
    """What one job names; of a tuning job, what each of its training jobs names.

    The service may take one of `other_types` instead of `instance_type`. `shell` says that one may be
    opened in the containers.

    `reads` and `writes` are the S3 URIs that the job's role reads and writes, `looked_into` those that
    should hold something, or nothing, before it starts: the inputs and the checkpoints, not the code
    that is not yet uploaded. `image` is None where an algorithm is named instead. `bucket_owners` are the
    accounts that own the cluster's buckets, by their names; whose the others are is not known. `tags` are
    the job's own, `secrets` the names or ARNs of those that the role reads.
    """

    region: str
    job_name: str
    role_arn: str
    instance_type: str
    instance_count: int
    spot: bool
    warm_pool: bool
    training_plan: bool
    image: str | None
    subnet_ids: tuple[str, ...]
    group_ids: tuple[str, ...]
    file_system_id: str | None
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    looked_into: tuple[str, ...]
    output_keys: tuple[str, ...]
    volume_keys: tuple[str, ...]
    bucket_owners: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    other_types: tuple[str, ...] = ()
    shell: bool = False

    @property
    def buckets(self) -> tuple[str, ...]:
        """The names of all buckets that the job names."""
        return tuple(dict.fromkeys(split_uri(uri)[0] for uri in (*self.reads, *self.writes)))

    @property
    def partition(self) -> str:
        """The part of AWS that the role's ARN names, such as `aws` or `aws-cn`."""
        return self.role_arn.split(":")[1]

    @property
    def account(self) -> str:
        """The id of the role's account, which must be the job's."""
        return self.role_arn.split(":")[4]


BOUND_SECONDS = 10.0
"""How long a question may take, retries and pages included."""

_ROUNDS = 3
"""How many bounds all questions together may take, those that follow from answers included."""

OnAnswer: TypeAlias = Callable[[int, int, str], None]
"""Called with (answers, questions, what is still waited for), by the thread that gathers."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
P = ParamSpec("P")


@frozen
class Question(Generic[T_co]):
    """One thing to ask AWS, whose answer is a `T_co`.

    `what` names it for a person, `permission` is the IAM action that it needs; `fetch` is called with the
    client of the service in the region, and the arguments. Two questions that ask the same are equal, so
    whoever puts a question together again finds the answer to the first.
    """

    what: str
    permission: str
    service: str
    region: str
    fetch: Callable[..., T_co]
    arguments: tuple[Hashable, ...] = ()

    def ask(self, clients: Clients) -> T_co:
        """Ask AWS now; raises what the fetching function raises."""
        return self.fetch(clients(self.service, self.region, BRISK), *self.arguments)


@frozen
class Service:
    """A service in a region, as boto3 names both; puts together the questions to it."""

    name: str
    region: str

    def question(
        self,
        what: str,
        permission: str,
        fetch: Callable[Concatenate[Any, P], T],
        *arguments: P.args,
        **options: P.kwargs,
    ) -> Question[T]:
        """The question that `fetch` asks with these arguments, which must be hashable.

        Raises ValueError for arguments by keyword: a question holds positions only.
        """
        if options:
            raise ValueError(f"give {', '.join(options)} by position")
        return Question(what, permission, self.name, self.region, fetch, arguments)


@frozen
class Answers:
    """What came of the questions so far, read by the question itself."""

    found: Mapping[Question[Any], Any]

    def get(self, question: Question[T | None]) -> T | Unverified | None:
        """The answer, Unverified where there is none to be had, None where it is not there yet.

        Where None is an answer as well, `in` tells whether it is there.
        """
        answer: T | Unverified | None = self.found.get(question)
        return answer

    def __contains__(self, question: Question[Any]) -> bool:
        return question in self.found


def ask_all(
    clients: Clients,
    questions: Callable[[Answers], Iterable[Question[Any]]],
    *,
    bound: float = BOUND_SECONDS,
    on_answer: OnAnswer | None = None,
) -> Answers:
    """Ask everything at once, and what follows from an answer as soon as it is there.

    `questions` tells, from the answers so far, all that can be asked now; what was asked before is not
    asked again. A refusal becomes Unverified, and so does silence after `bound` seconds; the thread of
    such a call is left to itself and does not keep the process from ending.

    Raises UnusableSession at once where no call can succeed, Unreachable where not one was answered.
    """
    last = monotonic() + _ROUNDS * bound
    asked: dict[Question[Any], float] = {}
    found: dict[Question[Any], Any] = {}
    silent: dict[Question[Any], AwsRefusal] = {}
    inbox: SimpleQueue[tuple[Question[Any], Any]] = SimpleQueue()
    while True:
        for question in questions(Answers(found)):
            if question not in asked:
                asked[question] = min(monotonic() + bound, last)
                # No pool of the standard library: at the exit it waits for calls that hang.
                thread = Thread(target=_ask, args=(question, clients, inbox), name=question.what, daemon=True)
                thread.start()
        waiting = {question: deadline for question, deadline in asked.items() if question not in found}
        if on_answer is not None:
            on_answer(len(found), len(asked), next(iter(waiting)).what if waiting else "")
        if not waiting:
            break
        try:
            question, answer = inbox.get(timeout=max(0.0, min(waiting.values()) - monotonic()))
        except Empty:
            for question in [each for each, deadline in waiting.items() if deadline <= monotonic()]:
                silent[question] = _no_answer_in_time(question, bound)
                found[question] = _unverified(question, silent[question])
            continue
        if question not in waiting:
            continue  # an answer that came after its bound
        if isinstance(answer, Unreachable):
            silent[question] = answer
        if isinstance(answer, AwsRefusal) and not isinstance(answer, UnusableSession):
            answer = _unverified(question, answer)
        if isinstance(answer, BaseException):
            raise answer
        found[question] = answer
    if silent and len(silent) == len(found):
        raise next(iter(silent.values()))
    return Answers(found)


def _ask(question: Question[Any], clients: Clients, inbox: SimpleQueue[tuple[Question[Any], Any]]) -> None:
    try:
        inbox.put((question, question.ask(clients)))
    except ValueError as error:
        # A text in the answer that has not its form, such as half a policy.
        odd = Unreachable(
            f"AWS's answer about {question.what} cannot be understood: {error}.",
            "Check the network (a proxy that answers in AWS's place), then try again.",
        )
        inbox.put((question, odd))
    except BaseException as error:  # handed over, not swallowed: who gathers turns it or raises it
        inbox.put((question, error))


def _no_answer_in_time(question: Question[Any], bound: float) -> Unreachable:
    return Unreachable(
        f"AWS did not answer within {bound:g} s when asked about {question.what}.",
        "Check the network, then try again.",
    )


def _unverified(question: Question[Any], refusal: AwsRefusal) -> Unverified:
    return Unverified(question.what, question.permission, refusal.message)


def described(ec2: Any, operation: str, key: str, filter_: str, values: Iterable[str]) -> Iterator[Any]:
    """What the filter passes with one of the values, as EC2 describes it; without a value nothing is asked.

    `operation` is the client's, as describe_subnets, and `key` names the resources in its answer. A filter
    passes over what is missing, where ids would have the whole call refused.
    """
    wanted = list(dict.fromkeys(values))
    if wanted:
        pages = ec2.get_paginator(operation).paginate(Filters=[{"Name": filter_, "Values": wanted}])
        for page in pages:
            yield from page[key]
