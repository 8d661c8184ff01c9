"""The sentences of a page say what is known, and what is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import Record
from launcher.diagnosis.model import (
    CollectiveCall,
    Confidence,
    End,
    Ending,
    RankState,
    Stop,
    StopCause,
    Sureness,
)
from launcher.report import sentences
from launcher.report.page import all_ranks, differing_ranks
from launcher.report.run_report import RunJob
from tests.report.runs import START, failing_run, report_of


def _unknown(*lines: Record, **more: object) -> str:
    return " ".join(sentences.describe_unknown(report_of(lines, **more)))


def test_no_times_no_loss_no_steps_and_no_ranks_are_said() -> None:
    assert "the timeline shows order only" in _unknown(Record(None, "", "step=1 loss=2"))
    assert "order only" not in _unknown(Record(START, "", "step=1 loss=2"))
    said = _unknown(Record(START, "algo-1", "hello"))
    for words in ("No loss was found", "No step counter was found", "tells which rank printed it"):
        assert words in said


def test_ranks_that_printed_nothing_are_named() -> None:
    job = RunJob("Failed", True, hosts=1, processes_per_host=4)
    lines = [Record(START, "algo-1", f"[rank{rank}]: hello") for rank in (0, 2)]
    assert "Ranks 1, 3 of 4 printed nothing" in _unknown(*lines, job=job)


def test_one_rank_that_prints_steps_does_not_tell_who_is_slow() -> None:
    lines = [Record(START + step, "algo-1", f"[rank0]: step={step} loss=1") for step in range(5)]
    lines.append(Record(START, "algo-1", "[rank1]: hello"))
    assert "Steps are printed by rank 0 alone: which rank is slowest is not known." in _unknown(*lines)


def test_a_loss_that_is_no_number_is_said_with_its_step() -> None:
    run = report_of([Record(START, "", "step=7 loss=nan")])
    assert sentences.bad_loss_in_words(run) == "The loss was nan at step 7 for the first time (line 1)."


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (None, "No failure was found in demo."),
        (RunJob("Training", False, seconds=90), "demo is Training for 1m30s, and nothing has failed so far."),
    ],
    ids=["a healthy log is not called completed", "a running job is told as such"],
)
def test_what_has_not_failed_is_told_as_it_is(job: RunJob | None, words: str) -> None:
    run = report_of([Record(START, "", "step=1 loss=1")], name="demo", job=job)
    assert sentences.what_happened(run) == words


def test_how_sure_it_is_is_a_sentence() -> None:
    words = {Confidence.SURE: "Yes", Confidence.LIKELY: "Likely, not sure", Confidence.UNSURE: "No"}
    told = {each: sentences.sureness_in_words(Sureness(each, "so it is")) for each in words}
    assert told == {each: f"{word}: so it is." for each, word in words.items()}


def test_a_run_on_this_machine_costs_nothing() -> None:
    run = report_of([], job=RunJob("Completed", True, 10.0, runs_here=True))
    assert sentences.cost_in_sentence(run) == "It ran on this machine and cost nothing."


def test_a_rank_behind_and_one_in_another_collective_differ_and_the_others_do_not() -> None:
    usual, other = CollectiveCall("ALLREDUCE", 7), CollectiveCall("BROADCAST", 7)
    ranks = tuple(
        RankState(rank, step=4 if rank == 1 else 9, enqueued=other if rank == 2 else usual)
        for rank in range(5)
    )
    table = differing_ranks(report_of([], ranks=ranks))
    assert [(row[0], row[1]) for row in table.rows] == [("1", "behind"), ("2", "in another collective")]


def test_a_column_that_is_empty_for_all_ranks_is_not_shown() -> None:
    table = all_ranks(report_of(failing_run()))
    assert table.heads == ("Rank", "Host", "Differs by", "Last output", "Step")
    assert len(table.rows) == 4


def test_a_job_that_stood_still_until_its_limit_is_not_called_failed() -> None:
    job = RunJob("Stopped", True, seconds=7200)
    run = report_of([Record(START, "", "step=1 loss=1")], name="demo", job=job)
    stop = Stop(StopCause.MAX_RUNTIME, at=START + 7200)
    lines = [Record(START + 10 * n, "algo-1", f"step={n} loss=1", "algo-1") for n in range(9)]
    run = replace(run, diagnosis=diagnose(lines, ending=Ending(End.STOPPED, stop=stop)))
    said = sentences.what_happened(run)
    assert said.startswith("demo was stopped after 2h00m: nothing failed before limits.max_runtime ended it")
    assert "it stood still" in said
