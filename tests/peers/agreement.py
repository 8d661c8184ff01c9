"""How far we agree with our peers, group by group, and why where we do not: `make peers` prints it.

pytest collects this file only where it is named, and so not with all tests, which ask each case by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.peers.answers import answer
from tests.peers.cases import PASSES, Case, all_cases


def test_every_answer_that_is_not_open_is_right(tmp_path: Path) -> None:
    told = [(case, *_asked(case, tmp_path / str(number))) for number, case in enumerate(all_cases())]
    print(f"\n{'group':<42}  cases  as is right  as the peer says")
    for name in dict.fromkeys(case.group for case, *_ in told):
        _row(name, [each for each in told if each[0].group == name])
    _row("all", told)
    print("\nWhere we contradict the peer, and why:")
    for case, verdict, right in told:
        if right and not _same(verdict, case.peer):
            print(f"  {case.group}: {case.id}: {verdict}, the peer: {case.peer}. {case.reason}")
    print("\nWhere we are not right yet:")
    wrong = [each for each in told if not each[2]]
    for case, verdict, _ in wrong:
        print(f"  {case.group}: {case.id}: {verdict}, not {case.expected}. {case.open or 'Not explained.'}")
    assert [case.id for case, *_ in wrong if case.open is None] == []


def _asked(case: Case, folder: Path) -> tuple[str, bool]:
    folder.mkdir()
    given = answer(case, folder)
    codes = f" ({', '.join(sorted(given.codes))})" if given.codes else ""
    return f"{given.verdict}{codes}", given.meets(case)


def _same(verdict: str, peer: str) -> bool:
    word = verdict.partition(" ")[0]
    return word == peer or {word, peer} <= set(PASSES)


def _row(name: str, told: Sequence[tuple[Case, str, bool]]) -> None:
    right = sum(each[2] for each in told)
    same = sum(_same(verdict, case.peer) for case, verdict, _ in told)
    shares = "  ".join(f"{count:>4} {count / len(told):>6.1%}" for count in (right, same))
    print(f"{name:<42}  {len(told):>5}  {shares}")
