"""Questions asked at once: what follows from an answer, what is cut, and what is said once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from threading import Barrier, Event
from typing import Any

import pytest

from launcher.account.facts import Unverified
from launcher.account.questions.ask import BOUND_SECONDS, Answers, Question, Service, ask_all
from launcher.failure_modes.model import AwsRefusal, Unreachable, UnusableSession


def question(ask: Callable[[], Any]) -> Question[Any]:
    return Question("the thing", "service:DescribeThing", "service", "region", lambda _: ask())


def no_clients(*_: object) -> None:
    """What asks here needs no client."""


def raising(error: Exception) -> Callable[[], Any]:
    def ask() -> Any:
        raise error

    return ask


def test_all_questions_are_under_way_at_once() -> None:
    """Each waits for all the others to be asked."""
    together = Barrier(20)
    asked = [question(lambda: together.wait(timeout=60) >= 0) for number in range(20)]
    answers = ask_all(no_clients, lambda _: asked)

    assert all(answers.get(each) for each in asked)


def test_what_follows_is_asked_with_the_answer_and_only_once() -> None:
    asked: list[tuple[str, ...]] = []
    service = Service("service", "region")

    def fetch(_: object, *seen: str) -> tuple[str, ...]:
        asked.append(seen)
        return (*seen, "more")

    def questions(answers: Answers) -> list[Question[Any]]:
        # Put together again each time: what asks the same is the same question.
        first = service.question("the thing", "service:DescribeThing", fetch, "first")
        answer = answers.get(first)
        if not isinstance(answer, tuple):
            return [first]
        return [first, service.question("the thing", "service:DescribeThing", fetch, *answer)]

    answers = ask_all(no_clients, questions)

    assert asked == [("first",), ("first", "more")]
    assert [answers.get(each) for each in questions(answers)] == [
        ("first", "more"),
        ("first", "more", "more"),
    ]


def test_each_question_goes_to_the_client_of_its_service_and_region() -> None:
    made: list[tuple[str, str]] = []

    def clients(service: str, region: str, _: object) -> str:
        made.append((service, region))
        return f"{service} in {region}"

    asked = Service("ecr", "us-east-1").question("the image", "ecr:BatchGetImage", lambda client: client)
    answers = ask_all(clients, lambda _: [asked])

    assert made == [("ecr", "us-east-1")]
    assert answers.get(asked) == "ecr in us-east-1"


def test_an_answer_of_none_is_told_from_one_that_is_not_there() -> None:
    assert ask_all(no_clients, lambda _: []).found == {}
    had, waiting = question(lambda: None), question(lambda: None)
    answers = Answers({had: None})

    assert (answers.get(had), answers.get(waiting)) == (None, None)
    assert had in answers
    assert waiting not in answers


def test_a_refusal_and_an_answer_that_cannot_be_understood_leave_their_own_fact_open() -> None:
    refused, had = question(raising(AwsRefusal("not you.", "Ask."))), question(lambda: 1)
    odd = question(lambda: json.loads('{"Version": '))
    found = ask_all(no_clients, lambda _: [refused, had, odd]).found

    unverified = found.pop(odd)
    assert isinstance(unverified, Unverified)
    assert "AWS's answer about the thing cannot be understood" in unverified.reason
    assert found == {refused: Unverified("the thing", "service:DescribeThing", "not you."), had: 1}


def test_silence_is_cut_at_its_bound() -> None:
    released = Event()
    had, silent = question(lambda: 1), question(released.wait)

    def questions(answers: Answers) -> list[Question[Any]]:
        # The bound begins only when the question is asked, which is after the other's answer.
        return [had, silent] if had in answers else [had]

    assert BOUND_SECONDS <= 10
    answers = ask_all(no_clients, questions, bound=0.5)
    released.set()

    assert answers.get(had) == 1
    reason = "AWS did not answer within 0.5 s when asked about the thing."
    assert answers.get(silent) == Unverified("the thing", "service:DescribeThing", reason)


def test_silence_everywhere_is_one_refusal() -> None:
    asked = [question(Event().wait), question(Event().wait)]
    with pytest.raises(Unreachable, match=r"within 0\.01 s"):
        ask_all(no_clients, lambda _: asked, bound=0.01)


def test_unusable_session_ends_it_at_once() -> None:
    asked = [question(Event().wait), question(raising(UnusableSession("expired.", "Renew.")))]

    with pytest.raises(UnusableSession, match="expired"):
        ask_all(no_clients, lambda _: asked, bound=600)


def test_mistake_in_the_program_is_not_taken_for_a_refusal() -> None:
    wrong = question(raising(KeyError("Subnets")))
    with pytest.raises(KeyError):
        ask_all(no_clients, lambda _: [wrong])


def test_hanging_question_does_not_keep_the_process_from_ending() -> None:
    program = (
        "from threading import Event\n"
        "from launcher.account.questions.ask import BOUND_SECONDS, Answers, Question, Service, ask_all\n"
        "from launcher.aws.errors import Unreachable\n"
        "hangs = Question('it', 'a:B', 'a', 'region', lambda _: Event().wait())\n"
        "try:\n    ask_all(lambda *_: None, lambda _: [hangs], bound=0.01)\n"
        "except Unreachable: print('cut')"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)

    assert (ended.returncode, ended.stdout.strip()) == (0, "cut")
