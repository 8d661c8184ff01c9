"""Time that passes without waiting, around the launcher's own bounds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from launcher.account.facts import Unverified
from launcher.account.questions.ask import Answers, Question, ask_all
from launcher.aws.bounded_calls import DaemonPool, bounded
from launcher.aws.clients import Clients
from launcher.failure_modes.model import Unreachable
from tools.attack.matrix.virtual_time import VirtualClock, virtual_time


class NoClients(Clients):
    def __call__(self, *_: object) -> object:
        return None


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    clock, began = VirtualClock(), time.monotonic()
    with virtual_time(clock):
        yield clock
    assert time.monotonic() - began < 60, "time was waited for"


def test_an_answer_within_the_bound_takes_its_time(clock: VirtualClock) -> None:
    assert bounded(500, "ask", lambda: clock.sleep(499) or "yes") == "yes"
    assert clock.now() == 499


def test_an_answer_beyond_the_bound_is_given_up_at_the_bound(clock: VirtualClock) -> None:
    with pytest.raises(Unreachable, match="within 500 s"):
        bounded(500, "ask", lambda: clock.sleep(501))
    assert clock.now() == 500


def test_threads_at_the_same_time_take_as_long_as_the_longest(clock: VirtualClock) -> None:
    pool = DaemonPool(2)
    answers: list[Future[None]] = [pool.submit(clock.sleep, seconds) for seconds in (300, 400)]
    for answer in answers:
        answer.result()
    assert clock.now() == 400


def test_a_question_that_hangs_is_given_up_and_the_others_are_answered(clock: VirtualClock) -> None:
    def question(seconds: float) -> Question[float]:
        return Question(f"{seconds}", "", "sts", "", lambda _: clock.sleep(seconds) or seconds)

    questions = [question(seconds) for seconds in (900.0, 2.0, 3.0)]
    answers: Answers = ask_all(NoClients(), lambda _: questions, bound=10)
    assert [answers.get(each) for each in questions[1:]] == [2.0, 3.0]
    assert isinstance(answers.get(questions[0]), Unverified)
    assert clock.now() == 10
