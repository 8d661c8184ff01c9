"""What starters, tools and other ranks print once a rank has failed changes no root cause of a public log."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from tests.diagnosis.cases import records
from tests.diagnosis.threads import is_right, threads
from tests.exhaustive import share_and_all
from tests.logs.cases import LogCase
from tests.logs.last_words import LAST_WORDS

ONLY_AT_THE_END = {
    "gensyn-ai-rl-swarm-197": "a warning, which is a failure where nothing comes after it",
    "axolotl-ai-cloud-axolotl-2743": "a stack without its beginning and without what was raised",
}
FAILURES = [
    each
    for each in threads()
    if each.codes
    and each.codes != ("STOP001",)
    and not each.failure_reason
    and each.name not in ONLY_AT_THE_END
]
"""Of a job that was stopped a process that ends with a code of its own tells something new."""


@pytest.mark.parametrize("failures", share_and_all(FAILURES, lambda each: each.name))
@pytest.mark.parametrize("who", LAST_WORDS)
def test_the_root_cause_is_the_same_with_the_last_words_of_others(who: str, failures: list[LogCase]) -> None:
    wrong = [
        each.name
        for each in failures
        if not is_right(each, diagnose(records(f"{each.text}\n{LAST_WORDS[who]}")))
    ]
    assert wrong == []
