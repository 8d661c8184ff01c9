"""Questions to AWS, all at once: each has its own thread and its own bound, and none can hang the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, TypeAlias

from launcher.account.unverified import Unverified
from launcher.aws.errors import Unreachable, UnusableSession
from launcher.failure_modes.refusal import AwsRefusal

BOUND_SECONDS = 10.0
"""How long a question may take, retries and pages included."""

Progress: TypeAlias = Callable[[int, int, str], None]
"""Told (answers, questions, what is still waited for); called by the thread that gathers."""


@dataclass(frozen=True, slots=True)
class Question:
    """One thing to ask AWS: for a person `what`, the IAM action that it needs, and how to ask."""

    what: str
    permission: str
    ask: Callable[[], Any]


Answers: TypeAlias = Mapping[str, Any]
"""What came of each question, by its key: a value, or Unverified."""


def ask_all(
    questions: Callable[[Answers], Mapping[str, Question]],
    *,
    bound: float = BOUND_SECONDS,
    on_progress: Progress | None = None,
) -> dict[str, Any]:
    """Ask everything at once, and what follows from an answer as soon as it is there.

    `questions` tells, from the answers so far, all that can be asked now; what was asked before is not
    asked again. A refusal becomes Unverified, and so does silence after `bound` seconds; the thread of
    such a call is left to itself and does not keep the process from ending.

    Raises UnusableSession at once where no call can succeed, Unreachable where not one was answered.
    """
    asked: dict[str, tuple[Question, float]] = {}
    answers: dict[str, Any] = {}
    silent: dict[str, AwsRefusal] = {}
    inbox: SimpleQueue[tuple[str, Any]] = SimpleQueue()
    while True:
        for key, question in questions(answers).items():
            if key not in asked:
                asked[key] = (question, monotonic() + bound)
                # No pool of the standard library: at the exit it waits for calls that hang.
                Thread(target=_ask, args=(key, question, inbox), name=key, daemon=True).start()
        waiting = {key: deadline for key, (_, deadline) in asked.items() if key not in answers}
        if on_progress is not None:
            on_progress(len(answers), len(asked), asked[next(iter(waiting))][0].what if waiting else "")
        if not waiting:
            break
        try:
            key, answer = inbox.get(timeout=max(0.0, min(waiting.values()) - monotonic()))
        except Empty:
            for key in [key for key, deadline in waiting.items() if deadline <= monotonic()]:
                silent[key] = _silence(asked[key][0], bound)
                answers[key] = _unverified(asked[key][0], silent[key])
            continue
        if key not in waiting:
            continue  # an answer that came after its bound
        if isinstance(answer, Unreachable):
            silent[key] = answer
        if isinstance(answer, AwsRefusal) and not isinstance(answer, UnusableSession):
            answer = _unverified(asked[key][0], answer)
        if isinstance(answer, BaseException):
            raise answer
        answers[key] = answer
    if silent and len(silent) == len(answers):
        raise next(iter(silent.values()))
    return answers


def _ask(key: str, question: Question, inbox: SimpleQueue[tuple[str, Any]]) -> None:
    try:
        inbox.put((key, question.ask()))
    except BaseException as error:  # handed over, not swallowed: who gathers turns it or raises it
        inbox.put((key, error))


def _silence(question: Question, bound: float) -> Unreachable:
    return Unreachable(
        f"AWS did not answer within {bound:g} s when asked about {question.what}.",
        "Check the network, then try again.",
    )


def _unverified(question: Question, refusal: AwsRefusal) -> Unverified:
    return Unverified(question.what, question.permission, refusal.message)
