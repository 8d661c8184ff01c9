"""One reader says who printed a line: the diagnosis, `--rank`, `--host` and the colours agree."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from launcher.backends.interface import LogLine
from launcher.cli.job_view import COLOURS, JobView
from launcher.diagnosis.logs.lines import parse
from launcher.session.runs.read_job_lines import LogFilter, rank_of
from launcher.text.log_lines import origin_of, printed_time
from launcher.text.values import without_controls
from slipway.failure import judge_output

SHAPES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))["shapes"]

PROCESSES = 8


def coloured(text: str) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, color_system="standard", width=200, _environ={})
    JobView(console).lines([LogLine(0, "algo-2", text)])
    return stream.getvalue()


@pytest.mark.parametrize(("text", "rank", "mark"), SHAPES.values(), ids=SHAPES)
def test_the_diagnosis_the_filter_and_the_colours_see_the_same_rank(
    text: str, rank: int | None, mark: str | None
) -> None:
    assert parse(text).rank == rank
    assert rank_of(LogLine(0, "algo-2", text), PROCESSES) == rank
    assert bool(LogFilter(rank=3).keep([LogLine(0, "algo-2", text)])) is (rank == 3)
    style = Console(color_system="standard").get_style(COLOURS[3]).render("MARK").split("MARK")[0]
    plain = without_controls(text)
    assert plain in without_controls(coloured(text))
    assert f"{style}{mark}\x1b[0m" in coloured(text) if mark else style not in coloured(text)


def test_a_local_rank_becomes_global_where_the_hosts_are_known() -> None:
    line = LogLine(0, "algo-2", "[default3]: x")
    assert (origin_of(line.text).rank, origin_of(line.text).local_rank) == (None, 3)
    assert parse(line.text).rank is None
    assert parse(line.text).text == "x"
    assert rank_of(line, PROCESSES) == 11
    assert rank_of(line, None) is None
    assert "[default3]:\x1b[0m" in coloured(line.text)
    # So may a role of torchrun stand before it.
    origin = origin_of("[trainer3]: x")
    assert (origin.rank, origin.local_rank, origin.start) == (None, 3, len("[trainer3]: "))
    assert origin_of("[step3]: x").local_rank is None


def test_a_line_that_mpirun_collected_is_also_one_of_the_host_that_printed_it() -> None:
    lines = [
        LogLine(0, "algo-1", "[1,mpirank:8,algo-2]<stdout>:x"),
        LogLine(0, "algo-1", "abc-algo-2-xyz | x"),
        LogLine(0, "algo-2", "x"),
        LogLine(0, "algo-1", "[1,mpirank:0,algo-1]<stdout>:x"),
    ]
    assert LogFilter(hosts=frozenset({"algo-2"})).keep(lines) == lines[:3]
    assert LogFilter(hosts=frozenset({"algo-1"})).keep(lines) == [lines[0], lines[1], lines[3]]
    assert [parse(line.text).host for line in lines] == ["algo-2", "algo-2", None, "algo-1"]


def test_the_ranks_of_one_host_are_told_apart_where_their_lines_are_mixed() -> None:
    assert parse("[default3]:x").writer != parse("[default4]:x").writer
    assert parse("[rank3]: x").writer != parse("[rank4]: x").writer
    assert parse("[Rank 3] x").writer is None, "the lines after it have no such mark"
    ray = "(RayTrainWorker pid={}, ip=10.0.0.{}) x"
    assert len({parse(ray.format(*each)).writer for each in ((9, 2), (8, 2), (9, 3))}) == 3
    assert parse("[pod/a-0/x] [default3]:x").writer != parse("[pod/a-1/x] [default3]:x").writer


@pytest.mark.parametrize(
    "prefix",
    ["", "[rank3]: ", "\x1b[31m[rank3]: "],
    ids=["before a group exists", "torch since 2.2", "in colour"],
)
def test_the_container_reads_what_its_ranks_print_as_the_launcher_does(prefix: str) -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/opt/ml/code/train.py", line 41, in main',
        "    step()",
        "ValueError: x",
    ]
    printed = [f"{prefix}{line}" for line in lines]
    assert [parse(line).text for line in printed] == lines
    seen = judge_output("\n".join(printed), 1, "/opt/ml/code")
    assert seen == judge_output("\n".join(lines), 1, "/opt/ml/code")
    assert (seen.message, seen.place) == ("ValueError: x", "train.py:41")


def test_times_compare_only_on_one_clock() -> None:
    clock, seconds = printed_time("[E1016 03:31:38.928463 P.cpp:6] x")
    assert clock == "glog"
    assert printed_time("[E1016 03:31:39.0 P.cpp:6] x")[1] - seconds == pytest.approx(0.071537, abs=1e-3)
    assert printed_time("2026-08-20 11:30:44,123 x")[0] == "iso"
    assert printed_time("no time") is None
    assert printed_time("[E1399 03:31:38 x") is None
    # Those of two zones are on one.
    zulu = printed_time("2026-08-20T02:00:00.345678901Z x")
    assert zulu is not None
    assert printed_time("2026-08-20T11:00:00.345678901+09:00 x") == zulu
    assert printed_time("2026-08-19T18:00:00.345678-0800 x") == zulu
