"""Questions asked at once: what follows from an answer, what is cut, and what is said once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from threading import Barrier, Event
from typing import Any

import pytest

from launcher.account.questions.asking import Question, ask_all
from launcher.account.unverified import Unverified
from launcher.aws.errors import Unreachable, UnusableSession
from launcher.failure_modes.refusal import AwsRefusal


def question(ask: Callable[[], Any]) -> Question:
    return Question("the thing", "service:DescribeThing", ask)


def raising(error: Exception) -> Callable[[], Any]:
    def ask() -> Any:
        raise error

    return ask


def test_all_questions_are_under_way_at_once() -> None:
    """Each waits for all the others to be asked."""
    together = Barrier(20)
    asked = {str(number): question(lambda: together.wait(timeout=60) >= 0) for number in range(20)}

    assert all(ask_all(lambda _: asked).values())


def test_what_follows_is_asked_with_the_answer_and_only_once() -> None:
    asked: list[str] = []

    def questions(answers: Mapping[str, Any]) -> dict[str, Question]:
        first = {"first": question(lambda: asked.append("first") or 1)}
        if "first" not in answers:
            return first
        return first | {"second": question(lambda: asked.append("second") or answers["first"] + 1)}

    assert ask_all(questions) == {"first": 1, "second": 2}
    assert asked == ["first", "second"]


def test_nothing_to_ask_is_answered() -> None:
    assert ask_all(lambda _: {}) == {}


def test_refusal_leaves_its_own_fact_open() -> None:
    asked = {"refused": question(raising(AwsRefusal("not you.", "Ask."))), "had": question(lambda: 1)}

    assert ask_all(lambda _: asked) == {
        "refused": Unverified("the thing", "service:DescribeThing", "not you."),
        "had": 1,
    }


def test_silence_is_cut_at_its_bound() -> None:
    released = Event()

    def questions(answers: Mapping[str, Any]) -> dict[str, Question]:
        # The bound begins only when the question is asked, which is after the other's answer.
        had = {"had": question(lambda: 1)}
        return had | {"silent": question(released.wait)} if "had" in answers else had

    found = ask_all(questions, bound=0.5)
    released.set()

    assert found["had"] == 1
    assert found["silent"] == Unverified(
        "the thing",
        "service:DescribeThing",
        "AWS did not answer within 0.5 s when asked about the thing.",
    )


def test_silence_everywhere_is_one_refusal() -> None:
    with pytest.raises(Unreachable, match=r"within 0\.01 s"):
        ask_all(lambda _: {"a": question(Event().wait), "b": question(Event().wait)}, bound=0.01)


def test_unusable_session_ends_it_at_once() -> None:
    asked = {
        "silent": question(Event().wait),
        "bad": question(raising(UnusableSession("expired.", "Renew."))),
    }

    with pytest.raises(UnusableSession, match="expired"):
        ask_all(lambda _: asked, bound=600)


def test_mistake_in_the_program_is_not_taken_for_a_refusal() -> None:
    with pytest.raises(KeyError):
        ask_all(lambda _: {"wrong": question(raising(KeyError("Subnets")))})


def test_hanging_question_does_not_keep_the_process_from_ending() -> None:
    program = (
        "from threading import Event\n"
        "from launcher.account.questions.asking import Question, ask_all\n"
        "from launcher.aws.errors import Unreachable\n"
        "try:\n    ask_all(lambda _: {'hangs': Question('it', 'a:B', Event().wait)}, bound=0.01)\n"
        "except Unreachable: print('cut')"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)

    assert (ended.returncode, ended.stdout.strip()) == (0, "cut")
