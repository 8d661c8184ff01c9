"""Logs of public issue threads: how often the diagnosis is right, and that it stays so."""

from __future__ import annotations

import pytest

from launcher.failure_modes.model import Retry
from tests.diagnosis.threads import Thread, threads

THREADS = [pytest.param(thread, id=thread.name) for thread in threads()]
WITH_RETRY = [case for case in THREADS if case.values[0].retry is not None]


@pytest.mark.parametrize("thread", THREADS)
def test_the_root_cause_is_the_right_one(thread: Thread) -> None:
    assert thread.is_right()


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
