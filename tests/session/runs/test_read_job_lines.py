"""The lines of a followed job: which are shown, how far the training is, and when it stands still."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.backends.interface import JobState, JobStatus, LogLine
from launcher.failure_modes.model import Refusal
from launcher.session.runs.read_job_lines import (
    Digest,
    LogFilter,
    ProgressReader,
    Stall,
    StallWatch,
    compile_pattern,
    curve_in_blocks,
    parse_since,
    rank_of,
)

RANKS_TERMINATED = """\
E0820 11:30:44.1 99 torch/distributed/api.py:874] failed (exitcode: -15) local_rank: 0 \
(pid: 105) of binary: /opt/conda/bin/python
Traceback (most recent call last):
  File "/opt/conda/lib/python3.12/site-packages/torch/distributed/run.py", line 892, in run
    elastic_launch(
  File "/opt/conda/lib/python3.12/site-packages/torch/distributed/launcher/api.py", line 386, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
Root Cause (first observed failure):
[0]:
  time      : 2026-08-20_11:30:44
  host      : algo-1
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 105)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 105"""

RAISED = """\
Traceback (most recent call last):
  File "/opt/ml/code/train.py", line 9, in <module>
    main()
KeyError: 'label'"""

CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))

NOW = datetime(2026, 8, 20, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(("host", "text", "processes", "rank"), CASES["ranks"])
def test_the_rank_of_a_line(host: str, text: str, processes: int | None, rank: int | None) -> None:
    assert rank_of(LogLine(0, host, text), processes) == rank


def test_all_conditions_hold_together() -> None:
    lines = [
        LogLine(10, "algo-1", "[rank0]: loss=1"),
        LogLine(20, "algo-1", "[rank1]: loss=1"),
        LogLine(30, "algo-2", "[rank2]: loss=1"),
        LogLine(40, "algo-1", "[rank1]: saved"),
    ]
    chosen = LogFilter(hosts=frozenset({"algo-1"}), rank=1, pattern=compile_pattern("loss="), since=15)
    assert chosen.keep(lines) == [lines[1]]
    assert LogFilter().keep(lines) == lines


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("10m", NOW - timedelta(minutes=10)),
        ("7d", NOW - timedelta(days=7)),
        ("2026-08-20T11:30", datetime(2026, 8, 20, 11, 30, tzinfo=UTC)),
        ("2026-08-20T11:30+02:00", datetime(2026, 8, 20, 9, 30, tzinfo=UTC)),
    ],
)
def test_a_span_or_a_time_is_understood(text: str, meant: datetime) -> None:
    assert parse_since(text, NOW) == meant


def test_neither_span_nor_time_is_refused() -> None:
    with pytest.raises(Refusal, match="yesterday"):
        parse_since("yesterday", NOW)


def test_a_broken_regular_expression_is_refused() -> None:
    with pytest.raises(Refusal, match="not a regular expression"):
        compile_pattern("loss=(")


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


@pytest.mark.parametrize("case", CASES["digests"].values(), ids=CASES["digests"])
def test_which_lines_are_shown(case: tuple[int, int, list[str], list[str]]) -> None:
    processes, world, given, shown = case
    printed = [LogLine(0.0, f"algo-{line[0]}", line[2:]) for line in given]
    assert seen(printed, processes, world) == shown


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


@pytest.mark.parametrize(("text", "values"), CASES["progress"])
def test_common_ways_to_print_are_read(text: str, values: dict[str, float]) -> None:
    progress = ProgressReader().read(lines(text))
    found = {} if progress is None else {n: v for n, v in progress.values.items() if v == v}
    assert found == values


def test_the_jobs_own_definitions_go_first() -> None:
    reader = ProgressReader({"train:loss": r"objective (\S+)", "accuracy": r"acc=(\S+)"})
    progress = reader.read(lines("objective 0.25 acc=0.9 loss=7 step=3"))
    assert progress is not None
    assert progress.values == {"train:loss": 0.25, "accuracy": 0.9, "step": 3}
    assert progress.drawn == "train:loss"


def test_the_loss_of_a_validation_is_drawn_only_where_there_is_no_other() -> None:
    held_out, trained = {"validation:loss": r"vl=(\S+)"}, {"train:loss": r"tl=(\S+)"}
    for definitions, drawn in (
        ({**held_out, **trained}, "train:loss"),
        (held_out, "validation:loss"),
    ):
        progress = ProgressReader(definitions).read(lines("vl=1 tl=2"))
        assert progress is not None
        assert progress.drawn == drawn


def test_a_definition_that_python_cannot_read_is_left_out() -> None:
    assert ProgressReader({"loss": "(?<bad>("}).read(lines("loss=1")) is not None


def test_what_every_rank_prints_counts_once() -> None:
    reader = ProgressReader(processes_per_host=2)
    reader.read(lines("[rank3]: step=1 loss=9"))
    progress = reader.read(
        lines("[rank0]: step=1 loss=1", "[rank3]: step=1 loss=9", "[rank0]: step=2 loss=2")
    )
    assert progress is not None
    assert progress.values["loss"] == 2
    assert list(progress.curve) == [9, 1, 2]


def test_rank_0_takes_over_on_whichever_host_it_is_and_keeps_the_floor() -> None:
    reader = ProgressReader()
    reader.read(lines("[rank8]: loss=9", host="algo-2"))
    reader.read(lines("[rank0]: loss=1", host="algo-3"))
    assert reader.read(lines("loss=7", "[rank8]: loss=8", host="algo-2")) is None
    progress = reader.read(lines("[rank0]: loss=2", host="algo-3"))
    assert progress is not None
    assert list(progress.curve) == [9, 1, 2]


def test_lines_without_metrics_are_no_progress() -> None:
    assert ProgressReader().read(lines("NCCL INFO Bootstrap", "hello")) is None


def test_a_long_training_keeps_a_bounded_curve() -> None:
    reader = ProgressReader()
    progress = None
    for number in range(10_000):
        progress = reader.read(lines(f"loss={number}"))
    assert progress is not None
    assert 256 < len(progress.curve) <= 1024
    assert list(progress.curve) == sorted(progress.curve)


@pytest.mark.parametrize(
    ("values", "width", "curve"),
    [
        ([], 8, ""),
        ([1, 1, 1], 8, "▁▁▁"),
        ([0, 1, 2, 3, 4, 5, 6, 7], 8, "▁▂▃▄▅▆▇█"),
        ([0, 0, 7, 7], 2, "▁█"),
    ],
)
def test_the_curve_goes_from_the_lowest_to_the_highest_block(
    values: list[float], width: int, curve: str
) -> None:
    assert curve_in_blocks(values, width) == curve


def test_of_a_line_without_end_the_beginning_is_read() -> None:
    progress = ProgressReader().read(lines("step 3, samples " + "1" * 1_000_000 + " loss=0.5"))
    assert progress is not None
    assert progress.values == {"step": 3}


class Job:
    """A job looked at every half minute; `told` are the causes of its stalls, and that it moved again."""

    def __init__(self) -> None:
        self.watch = StallWatch()
        self.time = 0.0
        self.stalls: list[Stall] = []
        self.told: list[str] = []

    def goes(
        self,
        minutes: float,
        phase: str = "Training",
        lines: Sequence[str] = (),
        stepped: bool = False,
        hours_before: float = 0,
    ) -> None:
        self.time += 3600 * hours_before
        status = JobStatus("job", JobState.IN_PROGRESS, phase)
        for _ in range(int(minutes * 2)):
            self.time += 30
            printed = [LogLine(self.time, "algo-1", text) for text in lines]
            change = self.watch.look(self.time, status, printed, stepped=stepped)
            if isinstance(change, Stall):
                self.stalls.append(change)
                self.told.append(change.situation.likely[0].code)
            elif change is not None:
                self.told.append("moving")


@pytest.mark.parametrize("story", CASES["stalls"].values(), ids=CASES["stalls"])
def test_a_stall_is_told_once_with_its_cause_and_taken_back(story: list[dict[str, Any]]) -> None:
    job = Job()
    for number, part in enumerate(story):
        job.goes(**{name: value for name, value in part.items() if name != "told"})
        assert job.told == part.get("told", job.told), f"after part {number}"


def test_what_is_told_of_a_stall_says_what_to_do() -> None:
    job = Job()
    job.goes(20)
    (stall,) = job.stalls
    assert "launch diagnose job" in stall.remedy
    assert "launch explain NCCL007" in stall.remedy


def test_a_job_that_has_ended_does_not_stall() -> None:
    watch, ended = StallWatch(), JobStatus("job", JobState.COMPLETED, "Completed")
    looks = [watch.look(minute * 60, ended, (), stepped=False) for minute in range(600)]
    assert looks == [None] * 600
