"""What the diagnosis answers to a log, as far as a shorter one must be answered the same."""

from __future__ import annotations

import re
from dataclasses import dataclass

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.attempts import counters_in
from launcher.diagnosis.logs.lines import parse
from launcher.diagnosis.match.prefilter import finder_of
from launcher.diagnosis.match.rows import rows_matching
from launcher.diagnosis.signs.reader import SOUGHT_LITERALS, LogReader
from tests.diagnosis.cases import records
from tests.diagnosis.threads import diagnosis_of
from tests.logs.cases import LogCase
from tests.logs.last_words import LAST_WORDS

_FINDER = finder_of(SOUGHT_LITERALS)

_ALARMING = re.compile(
    r"\w*(?:error|exception|fatal|fail|abort|kill|cannot|could not|unable|denied|corrupt|invalid|refused"
    r"|timeout|timed out|nan\b|warn|core dumped|segfault|mismatch|missing|not found)\w*",
    re.I,
)
"""Words for which a healthy log is worth keeping: it is healthy in spite of them."""

Said = tuple[object, ...]


@dataclass(frozen=True)
class Answer:
    """What must stay the same: the judgement with all names in it, the message, and what led to it."""

    judged: Said
    message: str | None
    signs: frozenset[Said]
    """The rows that were met, and in a log without a failure what might be taken for one."""


def codes_with_last_words(case: LogCase) -> tuple[str | None, ...]:
    """The root cause of a failure where others print their last words below it, for each who does."""
    if case.failure_reason or not case.codes:
        return ()
    said = [diagnose(records(f"{case.text}\n{words}")).root_cause for words in LAST_WORDS.values()]
    return tuple(root.finding.code if root else None for root in said)


def answer_to(case: LogCase) -> Answer:
    """The answer to a case."""
    told = diagnosis_of(case)
    root = told.root_cause
    judged = (
        told.verdict.value,
        told.retry.value,
        root and (root.finding.code, root.finding.subject, root.rank, root.host),
        root and (root.sureness.confidence.value, root.sureness.why),
        told.runner_up and told.runner_up.code,
        tuple(dict.fromkeys((each.code, each.subject) for each in told.consequences)),
        frozenset((each.code, each.severity.value) for each in told.findings),
    )
    return Answer(judged, root.finding.message if root else None, _signs(case, failed=root is not None))


def _signs(case: LogCase, *, failed: bool) -> frozenset[Said]:
    if case.failure_reason:
        return frozenset()
    reading = LogReader().read(records(case.text))
    seen = [*reading.sightings, *(each.sign for each in reading.history), *reading.restarts]
    signs: set[Said] = {(each.code, each.role.value) for each in seen}
    for line in case.text.split("\n"):
        signs |= {("row", row.code, row.literal) for row, _ in rows_matching(parse(line).text)}
        if not failed:
            signs |= _what_may_alarm(line)
    return frozenset(signs)


def _what_may_alarm(line: str) -> set[Said]:
    """What in a line of a healthy log a row could take for a failure, and that its counter goes on."""
    text = parse(line).text
    signs: set[Said] = {("literal", number) for _, number in _FINDER.hits(line.encode())}
    signs |= {("word", word.lower()) for word in _ALARMING.findall(text)}
    return signs | {("counter", name) for name in counters_in(text)}
