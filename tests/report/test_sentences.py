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
    Verdict,
)
from launcher.report import sentences
from launcher.report.page import all_ranks, differing_ranks
from launcher.report.run_report import RunJob, locate_incident
from tests.report.runs import START, failing_run, raising_run, report_of


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


def _printing(*last: int, every: int = 1) -> list[Record]:
    """Ranks that print a step each second until their last one; the second one each so many seconds."""
    return [
        Record(START + second, "algo-1", f"[rank{rank}]: step={second} loss=1")
        for second in range(100)
        for rank, end in enumerate(last)
        if second <= end and (rank != 1 or second % every == 0)
    ]


def test_of_a_run_that_is_well_nobody_is_called_silent() -> None:
    run = report_of(_printing(99, 30), job=RunJob("Completed", True, hosts=1, processes_per_host=2))
    well = replace(run, diagnosis=replace(run.diagnosis, verdict=Verdict.HEALTHY))
    assert "silent early" not in str(differing_ranks(well))
    told = sentences.timeline_in_words(well)
    assert told.startswith("2 rows. The last output: rank 0 on algo-1, at +1m39s")


@pytest.mark.parametrize(
    ("every", "notes"),
    [(1, ["silent early"]), (15, [])],
    ids=["one that printed like the others is", "one that rarely prints is not"],
)
def test_who_is_called_silent_early_in_a_run_that_failed(every: int, notes: list[str]) -> None:
    run = report_of(_printing(99, 60, 99, every=every))
    failed = replace(run, diagnosis=replace(run.diagnosis, verdict=Verdict.FAILED))
    alike = tuple(replace(state, step=None) for state in failed.ranks)
    table = differing_ranks(replace(failed, ranks=alike))
    assert [row[table.heads.index("Differs by")] for row in table.rows] == notes
    first = sentences.timeline_in_words(failed).partition("First to fall silent: ")[2][:6]
    assert first == ("rank 1" if notes else "rank 0")


def test_the_line_that_stands_above_is_not_said_to_be_unknown() -> None:
    run = report_of(raising_run())
    known, unknown = (" ".join(tell(run)) for tell in (sentences.describe_known, sentences.describe_unknown))
    assert "The line that shows the failure stands at +20s" in known
    assert "failed" not in unknown and "failure" not in unknown
    assert run.incident is not None
    vague = replace(run, incident=replace(run.incident, is_exact=False))
    assert "When it failed is known only by the last output of rank 1 on algo-1" in " ".join(
        sentences.describe_unknown(vague)
    )


def test_what_the_boot_says_of_a_loss_is_no_step_of_another_writer() -> None:
    lines = [Record(START + step, "algo-1", f"[rank0]: epoch={step} loss=nan") for step in range(5)]
    lines.append(Record(START + 5, "algo-1", "slipway: warning: NUM001 rank 0 on algo-1: epoch=4 loss=nan"))
    assert "Steps are printed by" not in _unknown(*lines[:5])
    assert "a line without a rank" not in _unknown(*lines)
    assert sentences.slowest_in_words(report_of(lines)) == "Rank 0 took 1 s an epoch in the mean."


def test_a_stop_after_the_watchdogs_verdict_leads_with_the_verdict_and_shows_its_line() -> None:
    verdict = (
        "slipway: warning: NCCL004 rank 1 on algo-1 has not entered all_reduce #66 [5] (train.py:8), in "
        "which rank 0 waits; it is at train.py:13, process state S; no rank has made a step for "
        "11 s (limit 10 s)"
    )
    lines = [Record(START + step, "algo-1", f"[rank0]: epoch={step} loss=1") for step in range(3)]
    lines.append(Record(START + 14, "algo-1", verdict))
    for text in (
        "E1125 00:30:44.220000 29519 torch/distributed/elastic/multiprocessing/api.py:1002] failed "
        "(exitcode: -15) local_rank: 0 (pid: 29604) of binary: /usr/bin/python",
        "Traceback (most recent call last):",
        '  File "/usr/lib/python3/site-packages/torch/distributed/run.py", line 1032, in <module>',
        "    main()",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
    ):
        lines.append(Record(START + 90, "algo-1", text))
    stop = Stop(StopCause.ASKED, at=START + 89)
    diagnosis = diagnose(lines, ending=Ending(End.STOPPED, stop=stop))
    job = RunJob("Stopped", True, seconds=149)
    run = report_of(lines, diagnosis=diagnosis, name="demo", job=job)
    incident, context = locate_incident(diagnosis.root_cause, run.lines)
    run = replace(run, incident=incident, context=context)
    said = sentences.what_happened(run)
    assert said.startswith("demo was stopped after 2m29s, and its lines show a failure before that: ")
    assert "rank 1 on algo-1 has not entered all_reduce #66" in said
    assert [line.text for line in context if line.is_cause] == [verdict]
    assert sentences.context_title(run) == "In the log"
    assert incident is not None and incident.at == START + 14
    assert "Which rank failed first is not known" not in " ".join(sentences.describe_unknown(run))


def test_a_completed_run_whose_lines_show_a_failure_is_told_as_both() -> None:
    lines = [Record(START + step, "algo-1", f"[rank0]: epoch={step} loss=nan") for step in range(5)]
    run = report_of(lines, name="demo", job=RunJob("Completed", True, seconds=9))
    assert run.diagnosis.verdict is Verdict.FAILED
    assert sentences.what_happened(run).startswith("demo completed after 9s, but its lines show a failure: ")
