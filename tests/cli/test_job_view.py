"""A followed job as it looks: plain lines without a terminal, a live panel on one."""

from __future__ import annotations

import io

from rich.console import Console

from launcher.backends.interface import JobState, JobStatus, LogLine
from launcher.cli.job_view import JobView, metrics_line, outcome_json, show_outcome
from launcher.failure_modes import distribution
from launcher.failure_modes.model import Severity, Stage
from launcher.session.following.progress import TrainingProgress
from launcher.session.outcome import Outcome

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
