"""The diagnosis of a job, wherever it ran: its status and its logs, through the backend."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.backends.interface import Backend, Cursor, JobState, LogLine
from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import Diagnosis
from launcher.failure_modes.refusal import AwsRefusal
from launcher.session.left_out import noted_left_out, told_what_was_left_out


def diagnose_job(backend: Backend, name: str) -> Diagnosis:
    """Why a job failed; of a running job, what its lines show so far.

    A job that never started has no logs and is judged by what the service says. Raises what the backend
    raises for an unknown job, and AwsRefusal where AWS refuses the logs and gives no reason either.
    """
    return told_what_was_left_out(_diagnosed(backend, name), noted_left_out(name))


def _diagnosed(backend: Backend, name: str) -> Diagnosis:
    status = backend.describe(name)
    try:
        return diagnose(
            _lines(backend, name),
            status.failure_reason,
            secondary_status=status.phase,
            succeeded=status.state is JobState.COMPLETED,
        )
    except AwsRefusal:
        if not status.failure_reason:
            raise
        return diagnose((), status.failure_reason, secondary_status=status.phase)


def _lines(backend: Backend, name: str) -> Iterator[LogLine]:
    """What the hosts have printed, batch by batch until one is empty."""
    cursor: Cursor = {}
    while True:
        batch = backend.read_logs(name, cursor)
        if not batch.lines:
            return
        yield from batch.lines
        cursor = batch.cursor
