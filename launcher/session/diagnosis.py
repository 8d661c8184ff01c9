"""The diagnosis of a job, wherever it ran: its status and its logs, through the backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from launcher.backends.interface import Backend, Cursor, JobState, JobStatus, LogLine
from launcher.diagnosis.completed import SuccessReader
from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.ending import End, Ending
from launcher.diagnosis.model import Diagnosis
from launcher.failure_modes.model import Finding
from launcher.failure_modes.refusal import AwsRefusal
from launcher.session.here import Place, as_met_here
from launcher.session.left_out import noted_left_out, told_what_was_left_out
from launcher.session.results import left_checkpoints

Seen = Callable[[Sequence[LogLine]], None]
"""Who reads a job's lines along with the diagnosis."""

_ENDS = {
    JobState.COMPLETED: End.COMPLETED,
    JobState.FAILED: End.FAILED,
    JobState.STOPPED: End.STOPPED,
}


def diagnose_job(backend: Backend, name: str) -> Diagnosis:
    """Why a job failed, or what ended it from outside; of a running job, what its lines show so far.

    A job that never started has no logs and is judged by what the service says. Raises what the backend
    raises for an unknown job, and AwsRefusal where AWS refuses the logs and gives no reason either.
    """
    return diagnosis_of(backend, backend.describe(name))


def diagnosis_of(backend: Backend, status: JobStatus, seen: Seen | None = None) -> Diagnosis:
    """The same for a job whose status is known; `seen` gets its lines, too, batch by batch in their order.

    Raises AwsRefusal as `diagnose_job`.
    """
    diagnosis = told_what_was_left_out(_diagnosed(backend, status, seen), noted_left_out(status.name))
    if backend.runs_here:
        return as_met_here(diagnosis, Place(status.gpus, status.instance_type))
    return diagnosis


def warnings_of(backend: Backend, name: str) -> tuple[Finding, ...]:
    """What the lines of a completed job say against its success; all of them are read."""
    reader = SuccessReader()
    for lines in _batches(backend, name):
        reader.read(lines)
    return reader.warnings


def _diagnosed(backend: Backend, status: JobStatus, seen: Seen | None) -> Diagnosis:
    ending = ending_of(status)
    # What a stop is called by the service says less than the stop itself.
    phase = status.phase if status.stop is None else None
    try:
        return diagnose(
            _lines(backend, status.name, seen),
            status.failure_reason,
            secondary_status=phase,
            ending=ending,
            job=status.asked,
        )
    except AwsRefusal:
        if not status.failure_reason and status.stop is None:
            raise
        return diagnose((), status.failure_reason, secondary_status=phase, ending=ending, job=status.asked)


def ending_of(status: JobStatus) -> Ending:
    """How a job ended, in the diagnosis' words."""
    return Ending(
        _ENDS.get(status.state, End.RUNNING),
        status.name,
        status.stop,
        checkpoints=left_checkpoints(status),
        restarted=max(
            (each.started for each in status.transitions if each.phase == "Restarting"), default=None
        ),
    )


def _lines(backend: Backend, name: str, seen: Seen | None) -> Iterator[LogLine]:
    """What the hosts have printed."""
    for lines in _batches(backend, name):
        if seen is not None:
            seen(lines)
        yield from lines


def _batches(backend: Backend, name: str) -> Iterator[Sequence[LogLine]]:
    """The same, batch by batch until one is empty."""
    cursor: Cursor = {}
    while True:
        batch = backend.read_logs(name, cursor)
        if not batch.lines:
            return
        yield batch.lines
        cursor = batch.cursor
