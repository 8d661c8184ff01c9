"""A job in a notebook: its state, name and time, why it failed, or what speaks against its success.

All that it says is escaped.
"""

from __future__ import annotations

from html import escape

from launcher.backends.interface import JobState, JobStatus
from launcher.diagnosis.redaction import redacted
from launcher.failure_modes.model import Finding
from launcher.session.outcome import Outcome
from launcher.text.controls import without_controls
from launcher.text.durations import elapsed_time

_COLOURS = {JobState.COMPLETED: "#1a7f37", JobState.FAILED: "#cf222e"}
_OTHERS = "#9a6700"


def card(outcome: Outcome | None, name: str = "", trouble: str = "") -> str:
    """The HTML of a job by how it is or ended; of one that cannot be seen, its name and why."""
    if outcome is None:
        return _block(f"<b>{_plain(name)}</b>", _plain(trouble))
    status, cause = outcome.status, outcome.cause
    state = f'<b style="color:{_COLOURS.get(status.state, _OTHERS)}">{_plain(_state(status))}</b>'
    took = f" {elapsed_time(status.seconds)}" if status.seconds is not None else ""
    rows = [f"{state} <code>{_plain(status.name)}</code>{took}"]
    if cause is not None:
        rows += _told(cause)
    elif status.failure_reason:
        rows.append(_plain(redacted(status.failure_reason)))
    elif status.explanation:
        rows.append(_plain(status.explanation))
    for warning in outcome.warnings or ():
        rows += _told(warning)
    return _block(*rows)


def lines_as_html(text: str) -> str:
    """Log lines as preformatted text."""
    return f"<pre>{_plain(text)}</pre>"


def _told(finding: Finding) -> tuple[str, str]:
    return f"<b>{_plain(finding.code)}</b> {_plain(finding.message)}", f"→ {_plain(finding.remedy)}"


def _state(status: JobStatus) -> str:
    return status.state if status.phase == status.state else f"{status.state} ({status.phase})"


def _block(*rows: str) -> str:
    return f"<div>{'<br>'.join(rows)}</div>"


def _plain(text: str) -> str:
    return escape(without_controls(text))
