"""A job in a notebook: what its card says, and that it says it in no markup of the job's."""

from __future__ import annotations

from launcher.api.card import card
from launcher.backends.interface import JobState, JobStatus
from launcher.failure_modes import distribution
from launcher.failure_modes.model import Stage
from launcher.session.outcome import Outcome


def test_what_speaks_against_a_success_is_on_the_card() -> None:
    warning = distribution.RANKS_NEVER_MET.finding(
        Stage.LOG, "none of the 4 ranks <b>met</b>", remedy="Pass strategy='ddp'.", subject="algo-1"
    )
    shown = card(Outcome(JobStatus("digits-1", JobState.COMPLETED, "Completed"), warnings=(warning,)))
    assert ">Completed<" in shown
    assert "<b>DIST008</b> none of the 4 ranks &lt;b&gt;met&lt;/b&gt;" in shown
    assert "→ Pass strategy=&#x27;ddp&#x27;." in shown


def test_a_success_that_nothing_speaks_against_is_a_line() -> None:
    shown = card(Outcome(JobStatus("digits-1", JobState.COMPLETED, "Completed", seconds=61.0), warnings=()))
    assert shown.count("<br>") == 0
    assert "<code>digits-1</code> 1m01s" in shown
