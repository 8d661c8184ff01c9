"""Logs of public issue threads: how often the diagnosis is right, and that it stays so."""

from __future__ import annotations

from launcher.failure_modes.model import Retry
from tests.diagnosis.threads import threads


def test_there_are_many_failures_and_many_logs_without_one() -> None:
    failed = [thread for thread in threads() if thread.codes]
    assert len(failed) >= 100
    assert len(threads()) - len(failed) >= 25


def test_each_comes_from_a_thread_of_its_own() -> None:
    assert len({thread.url for thread in threads()}) == len(threads())


def test_labels_use_the_words_of_the_launcher() -> None:
    assert {thread.retry for thread in threads()} <= {None, *(retry.value for retry in Retry)}
