"""What lines tell of single ranks: where they run, how they ended, and the table of all."""

from __future__ import annotations

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import Record
from launcher.diagnosis.model import CollectiveCall, RankState, RootCause, table_of
from launcher.diagnosis.remedies import AskedJob
from launcher.diagnosis.signs.ranks import NOT_LATELY, add_silent_ranks
from tests.diagnosis.cases import records

RAISED = (
    "[default3]:Traceback (most recent call last):\n"
    '[default3]:  File "train.py", line 9, in <module>\n[default3]:    step()\n'
    "[default3]:KeyError: 'label'"
)
OTHERS = "\n".join(f"[default{local}]:step 5 loss 2.0" for local in range(8))


def root_of_hosts(job: AskedJob, **hosts: str) -> RootCause:
    """The root cause in what hosts printed."""
    lines = [
        Record(None, host.replace("_", "-"), line, host)
        for host, text in hosts.items()
        for line in text.split("\n")
    ]
    return diagnose(lines, job=job).root_cause


def test_the_plan_tells_the_rank_of_a_local_one() -> None:
    cause = root_of_hosts(AskedJob(processes_per_host=8), algo_1=OTHERS, algo_2=f"{OTHERS}\n{RAISED}")
    assert (cause.rank, cause.host, cause.finding.subject) == (11, "algo-2", "rank 11")


def test_what_has_no_number_or_more_ranks_than_the_plan_stays_local() -> None:
    assert root_of_hosts(AskedJob(processes_per_host=8), trainer=RAISED).rank is None
    assert root_of_hosts(AskedJob(processes_per_host=2), algo_2=RAISED).rank is None


def test_the_table_of_ranks_has_them_too() -> None:
    lines = [Record(None, "algo-2", line) for line in OTHERS.split("\n")]
    found = diagnose(lines, job=AskedJob(processes_per_host=8))
    assert [(row.rank, row.host, row.step) for row in found.ranks] == [
        (rank, "algo-2", 5) for rank in range(8, 16)
    ]


def test_a_rank_has_one_row_and_what_is_told_later_goes_first() -> None:
    first = RankState(3, host="algo-2", step=10, enqueued=CollectiveCall("ALLREDUCE", 5))
    later = RankState(3, step=11, exit="SIGKILL")
    assert table_of([first, RankState(0, step=9), later]) == (
        RankState(0, step=9),
        RankState(3, host="algo-2", step=11, enqueued=CollectiveCall("ALLREDUCE", 5), exit="SIGKILL"),
    )


def test_a_row_is_json() -> None:
    row = RankState(1, completed=CollectiveCall("BROADCAST", 2, "default_pg", 1024)).to_json()
    assert row["rank"] == 1
    assert row["completed"] == {"name": "BROADCAST", "sequence": 2, "group": "default_pg", "elements": 1024}
    assert row["exit"] is None


def test_ranks_of_which_nothing_was_read_stand_in_the_table_of_a_known_world() -> None:
    table = add_silent_ranks((RankState(1, step=9),), 3)
    assert [(row.rank, row.is_silent) for row in table] == [(0, True), (1, False), (2, True)]
    assert add_silent_ranks((), 3) == ()
    assert add_silent_ranks((RankState(1),), 10**9) == (RankState(1),)


def test_a_rank_that_may_have_printed_before_the_last_lines_is_not_called_silent() -> None:
    begun = ["world_size: 2", "[rank1]: building the model"]
    long = [*begun, *(f"[rank0]: step {step} loss 2" for step in range(300))]
    rows = diagnose(records("\n".join(long))).ranks
    assert [(row.rank, row.is_silent, row.state) for row in rows] == [
        (0, False, None),
        (1, False, NOT_LATELY),
    ]
    rows = diagnose(records("\n".join(long[:1] + long[2:60]))).ranks
    assert [(row.rank, row.is_silent) for row in rows] == [(0, False), (1, True)]
