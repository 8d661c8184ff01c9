"""Logs of public issue threads: the diagnosis is right on all of them, and stays so."""

from __future__ import annotations

import re
from functools import cache

from launcher.diagnosis.model import Diagnosis
from launcher.failure_modes.model import Retry
from tests.diagnosis.threads import diagnosis_of, is_right, threads
from tests.logs.cases import LogCase


@cache
def answers() -> list[tuple[LogCase, Diagnosis]]:
    """Each of them, with what the diagnosis says."""
    return [(thread, diagnosis_of(thread)) for thread in threads()]


def test_the_root_cause_is_the_right_one() -> None:
    wrong = {
        thread.name: told.root_cause and told.root_cause.finding.code
        for thread, told in answers()
        if not is_right(thread, told)
    }
    assert wrong == {}


def test_none_but_the_one_that_failed_first_is_named() -> None:
    assert {
        thread.name: told.root_cause
        for thread, told in answers()
        if thread.first_failing is not None and not names(told, thread.first_failing)
    } == {}


def names(told: Diagnosis, first_failing: str) -> bool:
    """Whether a root cause names this one, or nobody."""
    root = told.root_cause
    if root is None or root.finding.subject is None:
        return root is not None
    wanted = first_failing.replace("_", " ").removeprefix("local ")
    return re.search(rf"\b{re.escape(wanted)}(?!\d)", f"{root.host} {root.finding.subject}") is not None


def test_it_is_told_rightly_whether_it_helps_to_run_again() -> None:
    with_retry = [(thread, told) for thread, told in answers() if thread.retry is not None]
    assert {thread.name: told.retry for thread, told in with_retry if told.retry != thread.retry} == {}
    assert len(with_retry) >= 200


def test_there_are_many_failures_and_many_logs_without_one() -> None:
    failed = [thread for thread in threads() if thread.codes]
    assert len(failed) >= 900
    assert len(threads()) - len(failed) >= 300


def test_each_comes_from_a_thread_of_its_own() -> None:
    assert len({thread.source for thread in threads()}) == len(threads())


def test_labels_use_the_words_of_the_launcher() -> None:
    assert {thread.retry for thread in threads()} <= {None, *(retry.value for retry in Retry)}
