"""Questions to AWS, all at once: each has its own thread and its own bound, and none can hang the rest."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar

from launcher.account.unverified import Unverified
from launcher.aws.clients import BRISK, Clients
from launcher.aws.errors import Unreachable, UnusableSession
from launcher.failure_modes.refusal import AwsRefusal

BOUND_SECONDS = 10.0
"""How long a question may take, retries and pages included."""

_ROUNDS = 3
"""How many bounds all questions together may take, those that follow from answers included."""

OnAnswer: TypeAlias = Callable[[int, int, str], None]
"""Called with (answers, questions, what is still waited for), by the thread that gathers."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Answers:
    """What came of the questions so far, read by the question itself."""

    found: Mapping[Question[Any], Any]

    def of(self, question: Question[T | None]) -> T | Unverified | None:
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
                silent[question] = _silence(question, bound)
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


def _silence(question: Question[Any], bound: float) -> Unreachable:
    return Unreachable(
        f"AWS did not answer within {bound:g} s when asked about {question.what}.",
        "Check the network, then try again.",
    )


def _unverified(question: Question[Any], refusal: AwsRefusal) -> Unverified:
    return Unverified(question.what, question.permission, refusal.message)
