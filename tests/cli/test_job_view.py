"""Jobs on a terminal: one that is followed, many in a list, their ranks, and a diagnosis."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from rich.console import Console

from launcher.backends.interface import JobState, JobStatus, JobSummary, LogLine
from launcher.cli.job_view import (
    JobView,
    job_lines,
    metrics_line,
    outcome_json,
    ranks_table,
    show_cause,
    show_outcome,
)
from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import Record
from launcher.diagnosis.model import AccountCheck, CheckOutcome, CollectiveCall, RankState
from launcher.failure_modes import distribution
from launcher.failure_modes.model import Severity, Stage
from launcher.session.runs.diagnose_job import Outcome
from launcher.session.runs.read_job_lines import TrainingProgress

TRAINING = JobStatus("job", JobState.IN_PROGRESS, "Training", seconds=65, explanation="image downloaded")
PROGRESS = TrainingProgress({"step": 120, "loss": 0.25}, "loss", (4.0, 2.0, 1.0, 0.25))


def shown(*, terminal: bool, colours: bool = False) -> str:
    stream = io.StringIO()
    system = "standard" if colours else None
    console = Console(file=stream, force_terminal=terminal, color_system=system, width=100, _environ={})
    with JobView(console) as view:
        view.status(TRAINING)
        view.status(TRAINING)
        view.lines([LogLine(1, "algo-2", "[rank13]: loss=0.25\x1b[2J\x07 [bold]\n")])
        view.progress(PROGRESS)
    return stream.getvalue()


def test_without_a_terminal_there_are_plain_lines_and_each_phase_once() -> None:
    assert shown(terminal=False) == "[Training] after 1m05s\nalgo-2 [rank13]: loss=0.25 [bold]\n"


def test_on_a_terminal_a_panel_shows_phase_time_and_progress() -> None:
    text = shown(terminal=True)
    assert "Training" in text
    assert "job · 1m05s · image downloaded" in text
    assert "loss 0.25" in text


def test_host_and_rank_have_their_colours() -> None:
    text = shown(terminal=True, colours=True)
    assert "\x1b[32malgo-2 \x1b[0m\x1b[35m[rank13]:\x1b[0m loss=0.25" in text


def test_many_lines_come_in_their_order_each_with_its_own_host_and_rank() -> None:
    lines = [LogLine(1, f"algo-{n}", f"[rank{n}]: step {n}") for n in range(1, 4)] + [
        LogLine(2, "algo-1", "end")
    ]
    stream = io.StringIO()
    with JobView(Console(file=stream, force_terminal=False, width=20, _environ={})) as view:
        view.lines(lines)
    assert stream.getvalue().splitlines() == [f"{line.host} {line.text}" for line in lines]
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, color_system="standard", width=20, _environ={})
    JobView(console).lines(lines)
    assert stream.getvalue() == (
        "\x1b[35malgo-1 \x1b[0m\x1b[35m[rank1]:\x1b[0m step 1\n"
        "\x1b[32malgo-2 \x1b[0m\x1b[32m[rank2]:\x1b[0m step 2\n"
        "\x1b[33malgo-3 \x1b[0m\x1b[33m[rank3]:\x1b[0m step 3\n"
        "\x1b[35malgo-1 \x1b[0mend\n"
    )


def test_control_characters_of_the_job_do_not_reach_the_terminal() -> None:
    assert "\x1b[2J" not in shown(terminal=True)
    assert "\x07" not in shown(terminal=True)


def test_the_metrics_have_a_small_curve() -> None:
    assert metrics_line(PROGRESS).plain.startswith("step 120  loss 0.25  loss █")


def ended(**more: object) -> Outcome:
    return Outcome(JobStatus("job", JobState.COMPLETED, "Completed", seconds=65), **more)  # type: ignore[arg-type]


def test_what_speaks_against_a_success_stands_below_it_with_what_to_do() -> None:
    finding = distribution.RANKS_NEVER_MET.finding(
        Stage.LOG, "none of the 4 ranks met", remedy="Meet.", severity=Severity.WARNING
    )
    stream = io.StringIO()
    outcome = ended(warnings=(finding,))
    show_outcome(Console(file=stream, force_terminal=False, width=100, _environ={}), outcome)
    assert stream.getvalue().splitlines() == [
        "Completed job after 1m05s",
        "warning DIST008 none of the 4 ranks met",
        "→ Meet.",
        "launch explain DIST008",
        "launch report job",
    ]
    shape = outcome_json(outcome)
    assert (shape["state"], shape["failure"]) == ("Completed", None)
    assert shape["warnings"] == [finding.to_json()]
    assert outcome.succeeded


def test_lines_that_nobody_read_are_told_apart_from_lines_without_a_warning() -> None:
    assert outcome_json(ended())["warnings"] is None
    assert outcome_json(ended(warnings=()))["warnings"] == []


CREATED = datetime(2026, 8, 20, 11, 30, tzinfo=UTC)
LONG = "lightning-boring-01m805e3hkrzq6weg"


def jobs(*names: str) -> list[JobSummary]:
    ended = CREATED + timedelta(hours=12, minutes=34, seconds=56)
    states = [(JobState.STOPPED, "MaxRuntimeExceeded", ended), (JobState.IN_PROGRESS, "Training", None)]
    return [
        JobSummary(name, *states[number % 2][:2], CREATED, states[number % 2][2])
        for number, name in enumerate(names)
    ]


def lines(width: int, *names: str) -> list[str]:
    return [line.plain for line in job_lines(jobs(*names), width)]


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("name", ["a-1", "digits-01m805e3hkrzq6weg", LONG, "n" * 63])
def test_a_list_fits_the_terminal_with_whole_names(name: str, width: int) -> None:
    shown = lines(width, name, "b-2")
    assert max(map(len, shown)) <= width
    assert shown[1].split()[0] == name
    assert "Stopped" in shown[1]


def test_what_has_room_is_shown_in_full() -> None:
    heads, first, second = lines(100, LONG, "b-2")
    assert heads.split() == ["NAME", "STATE", "CREATED", "TOOK"]
    assert "Stopped (MaxRuntimeExceeded)  2026-08-20" in first
    assert first.endswith("  12h34m")
    assert "InProgress (Training)" in second


def test_the_phase_goes_before_the_time() -> None:
    first = lines(80, LONG)[1]
    assert "MaxRuntimeExceeded" not in first
    assert first.split()[1:3] == ["Stopped", "2026-08-20"]


def test_a_name_wider_than_the_terminal_is_still_whole() -> None:
    assert lines(40, "n" * 63)[1].startswith("n" * 63)


def drawn(*rows: RankState) -> list[str]:
    terminal = Console(file=io.StringIO(), width=120)
    terminal.print(ranks_table(rows))
    return terminal.file.getvalue().splitlines()


def test_the_one_that_differs_comes_first_and_the_rest_is_one_line() -> None:
    call = CollectiveCall("ALLREDUCE", 7)
    waiting = [RankState(rank, "algo-1", step=9, enqueued=call) for rank in range(512)]
    waiting[5] = RankState(5, "algo-1", step=8, enqueued=CollectiveCall("ALLREDUCE", 6), exit="SIGKILL")
    heading, odd, rest = drawn(*waiting)
    assert heading.split()[:2] == ["RANKS", "HOST"]
    assert odd.split() == ["5", "algo-1", "8", "ALLREDUCE", "#6", "SIGKILL"]
    assert rest.startswith("0 to 4, 6 to 511")


def test_a_large_world_fits_a_screen_and_says_how_many_are_left_out() -> None:
    lines = drawn(*(RankState(rank, step=rank) for rank in range(512)))
    assert len(lines) <= 24
    assert lines[-1].strip() == "492 more"


def test_a_silent_rank_is_said_to_have_never_reported() -> None:
    assert drawn(RankState(3), RankState(4, last_output=0.0))[1].split() == ["3", "never", "reported"]


def test_what_a_log_says_reaches_no_terminal_as_an_escape() -> None:
    assert "\x1b" not in "".join(drawn(RankState(3, frame="\x1b]0;title\x07train.py:3")))


def test_what_the_account_shows_stands_below_the_remedy_and_a_remedy_below_what_is_wrong() -> None:
    diagnosis = replace(
        diagnose([Record(None, "algo-1", "NCCL WARN Bootstrap : no socket interface found")]),
        checked=(
            AccountCheck("EFA001", CheckOutcome.RIGHT, "security group sg-1 is right, so not EFA001"),
            AccountCheck("EFA002", CheckOutcome.WRONG, "sg-1 has no egress to itself", "Add the rule."),
            AccountCheck("NCCL007", CheckOutcome.NOT_VERIFIED, "subnets could not be read", "Ask for it."),
        ),
    )
    written = StringIO()
    show_cause(Console(file=written, width=2000), diagnosis)
    lines = written.getvalue().splitlines()
    first = lines.index("Checked: security group sg-1 is right, so not EFA001")
    assert lines[first : first + 4] == [
        "Checked: security group sg-1 is right, so not EFA001",
        "Checked: sg-1 has no egress to itself",
        "→ Add the rule.",
        "Checked: subnets could not be read",
    ]
    assert lines[first - 1].startswith("→ ")
    assert lines[first + 4].startswith("→ Retry ")
