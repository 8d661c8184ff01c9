"""Logs of public issue threads: how often the diagnosis is right, and that it stays so."""

from __future__ import annotations

import re

import pytest

from launcher.failure_modes.model import Retry
from tests.diagnosis.threads import Thread, threads

THREADS = [pytest.param(thread, id=thread.name) for thread in threads()]
LOCATED = [case for case in THREADS if case.values[0].first_failing is not None]
WITH_RETRY = [case for case in THREADS if case.values[0].retry is not None]


@pytest.mark.parametrize("thread", THREADS)
def test_the_root_cause_is_the_right_one(thread: Thread) -> None:
    assert thread.is_right()


@pytest.mark.parametrize("thread", LOCATED)
def test_none_but_the_one_that_failed_first_is_named(thread: Thread) -> None:
    root = thread.diagnosis().root_cause
    assert root is not None
    wanted = str(thread.first_failing).replace("_", " ").removeprefix("local ")
    said = f"{root.host} {root.finding.subject}"
    assert root.finding.subject is None or re.search(rf"\b{re.escape(wanted)}(?!\d)", said)


@pytest.mark.parametrize("thread", WITH_RETRY)
def test_it_is_told_rightly_whether_it_helps_to_run_again(thread: Thread) -> None:
    assert thread.diagnosis().retry == thread.retry


def test_there_are_many_failures_and_many_logs_without_one() -> None:
    failed = [thread for thread in threads() if thread.codes]
    assert len(failed) >= 100
    assert len(threads()) - len(failed) >= 25


def test_each_comes_from_a_thread_of_its_own() -> None:
    assert len({thread.url for thread in threads()}) == len(threads())


def test_labels_use_the_words_of_the_launcher() -> None:
    assert {thread.retry for thread in threads()} <= {None, *(retry.value for retry in Retry)}
