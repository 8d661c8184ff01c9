"""Of many ranks a follower sees rank 0, and whatever goes wrong on any other."""

from __future__ import annotations

import pytest

from launcher.backends.interface import LogLine
from launcher.session.following.digest import Digest
from tests.diagnosis.test_stops import RAISED, RANKS_TERMINATED

CHILD_FAILED = (
    RANKS_TERMINATED.replace("Root Cause", "=" * 60 + "\ntrain.py FAILED\nRoot Cause") + "\n" + "=" * 60
)


def lines(*texts: str, host: str = "algo-1") -> list[LogLine]:
    return [LogLine(float(number), host, text) for number, text in enumerate("\n".join(texts).split("\n"))]


def seen(given: list[LogLine], processes: int | None = 2, world: int | None = 4) -> list[str]:
    digest = Digest(processes, world)
    return [line.text for line in [*digest.keep(given), *digest.rest()]]


def of_rank(rank: int, text: str) -> str:
    return "\n".join(f"[rank{rank}]:{line}" for line in text.split("\n"))


def test_rank_0_is_shown_and_the_others_are_not() -> None:
    given = [*lines("[rank0]:step 1", "[rank1]:step 1"), *lines("[rank2]:step 1", host="algo-2")]
    assert seen(given) == ["[rank0]:step 1"]


def test_a_traceback_of_another_rank_is_shown_whole() -> None:
    failing = of_rank(3, RAISED)
    given = lines("[rank3]:step 1", failing, "[rank3]:step 2", host="algo-2")
    assert seen(given) == failing.split("\n")


def test_of_a_traceback_that_another_rank_has_printed_the_exception_is_shown() -> None:
    other = RAISED.replace("KeyError: 'label'", "KeyError: 'image'")
    first, second = of_rank(1, RAISED), of_rank(3, other)
    given = [*lines(first), *lines(second, of_rank(2, RAISED), host="algo-2")]
    assert seen(given) == [*first.split("\n"), "[rank3]:KeyError: 'image'", "[rank2]:KeyError: 'label'"]


def test_ranks_that_fail_elsewhere_and_rank_0_are_shown_whole() -> None:
    elsewhere = of_rank(1, RAISED.replace("line ", "line 7"))
    given = lines(of_rank(2, RAISED), elsewhere, of_rank(0, RAISED))
    assert seen(given) == [line.text for line in given]


def test_ranks_that_print_their_tracebacks_at_the_same_time_are_told_apart() -> None:
    rows = zip(of_rank(1, RAISED).split("\n"), of_rank(0, RAISED).split("\n"), strict=True)
    given = lines(*(line for row in rows for line in row))
    shown = seen(given)
    assert [line for line in shown if line.startswith("[rank0]")] == of_rank(0, RAISED).split("\n")
    assert "[rank1]:KeyError: 'label'" in shown


@pytest.mark.parametrize(
    "text",
    [
        "[rank3]: ValueError: bad learning rate",
        "[rank3]:torch.OutOfMemoryError",
        "[rank3]:[E1122 10:00:00 ProcessGroupNCCL.cpp:616] ERROR: watchdog",
        "slipway: algo-2, host 2 of 2: train.py by torchrun",
        "FutureWarning: deprecated",
    ],
)
def test_errors_of_every_rank_and_what_slipway_says_of_every_host_are_shown(text: str) -> None:
    assert seen(lines(text, host="algo-2")) == [text]


@pytest.mark.parametrize(
    "text", ["[rank3]:error=0.25 loss=1", "installing torch", "[rank3]:FutureWarning: x"]
)
def test_the_rest_of_other_hosts_is_not(text: str) -> None:
    assert seen(lines(text, host="algo-2")) == []


def test_lines_of_the_first_host_that_nobody_marked_are_shown() -> None:
    assert seen(lines("installing torch")) == ["installing torch"]


@pytest.mark.parametrize("host", ["algo-1", "algo-2"])
def test_torchruns_report_is_folded_and_what_comes_after_it_is_not(host: str) -> None:
    after = "slipway: CODE001 rank 3 on algo-2: KeyError: 'label'"
    assert seen(lines(CHILD_FAILED, after, host=host)) == [after]


def test_torchruns_report_is_folded_for_a_single_rank_as_well() -> None:
    assert seen(lines("step 1", CHILD_FAILED, "done"), 1, 1) == ["step 1", "done"]


def test_a_traceback_that_is_not_torchruns_is_shown_though_nobody_marked_it() -> None:
    assert seen(lines(RAISED, "after", host="algo-1")) == [*RAISED.split("\n"), "after"]


def test_a_traceback_that_was_cut_is_shown_at_the_end() -> None:
    cut = RAISED.split("\n")[:2]
    assert seen(lines(*cut, host="algo-2")) == cut


def test_a_report_without_its_table_hides_nothing_that_comes_after() -> None:
    text = RANKS_TERMINATED.split("Root Cause")[0].strip()
    assert seen(lines(text, "step 2")) == ["step 2"]


def test_that_others_are_hidden_is_told_once_and_only_then() -> None:
    told: list[int] = []
    digest = Digest(2, 4, lambda: told.append(1))
    digest.keep(lines("[rank0]:step 1"))
    assert told == []
    digest.keep(lines("[rank1]:step 1", "[rank1]:step 2"))
    assert told == [1]


def test_a_job_of_one_rank_shows_everything() -> None:
    assert seen(lines("step 1", "[rank1]:odd"), 1, 1) == ["step 1", "[rank1]:odd"]


def test_lines_without_marks_are_judged_by_their_host_where_one_process_runs_on_each() -> None:
    assert seen([*lines("step 1"), *lines("step 1", "KeyError: 'x'", host="algo-2")], 1, 2) == [
        "step 1",
        "KeyError: 'x'",
    ]
