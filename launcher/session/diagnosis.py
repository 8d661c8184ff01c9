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
from launcher.session.asked import asked_of
from launcher.session.here import Place, as_met_here
from launcher.session.left_out import noted_left_out, told_what_was_left_out
from launcher.session.results import left_checkpoints

Seen = Callable[[Sequence[LogLine]], None]
"""Who reads a job's lines along with the diagnosis."""

Check = Callable[[Diagnosis, JobStatus], Diagnosis]
"""Who holds a diagnosis against what the account holds (`session/checked.py`)."""

_TRAINING = "Training"
"""The phase in which a job's script runs; in all others it may well be silent."""

_ENDS = {
    JobState.COMPLETED: End.COMPLETED,
    JobState.FAILED: End.FAILED,
    JobState.STOPPED: End.STOPPED,
}


def diagnose_job(
    backend: Backend, name: str, check: Check | None = None, now: float | None = None
) -> Diagnosis:
    """Why a job failed, or what ended it from outside; of a running job, what its lines show so far.

    A job that never started has no logs and is judged by what the service says. `check` verifies in the
    account what may lie behind it, of a job that did not run here. `now`, in seconds since the epoch, shows
    that one which still trains has long been silent; None says nothing of that. Raises what the backend
    raises for an unknown job, and AwsRefusal where AWS refuses the logs and gives no reason either.
    """
    return diagnosis_of(backend, backend.describe(name), check=check, now=now)


def diagnosis_of(
    backend: Backend,
    status: JobStatus,
    seen: Seen | None = None,
    check: Check | None = None,
    now: float | None = None,
) -> Diagnosis:
    """The same for a job whose status is known; `seen` gets its lines, too, batch by batch in their order.

    Raises AwsRefusal as `diagnose_job`.
    """
    ending = ending_of(status, now)
    diagnosis = _diagnosed(status, ending, _lines(backend, status.name, seen), here=backend.runs_here)
    diagnosis = told_what_was_left_out(diagnosis, noted_left_out(status.name))
    if backend.runs_here:
        return as_met_here(diagnosis, Place(status.gpus, status.instance_type))
    return diagnosis if check is None else check(diagnosis, status)


def warnings_of(backend: Backend, name: str) -> tuple[Finding, ...]:
    """What the lines of a completed job say against its success; all of them are read."""
    reader = SuccessReader()
    for lines in _batches(backend, name):
        reader.read(lines)
    return reader.warnings


def _diagnosed(status: JobStatus, ending: Ending, lines: Iterator[LogLine], *, here: bool) -> Diagnosis:
    job = asked_of(status.request, here=here)
    # What a stop is called by the service says less than the stop itself.
    phase = status.phase if status.stop is None else None
    reason = status.failure_reason
    try:
        return diagnose(lines, reason, secondary_status=phase, ending=ending, job=job)
    except AwsRefusal:
        if not reason and status.stop is None:
            raise
        return diagnose((), reason, secondary_status=phase, ending=ending, job=job)


def ending_of(status: JobStatus, now: float | None = None) -> Ending:
    """How a job ended, in the diagnosis' words; `now` is when its status was read."""
    trains = status.state is JobState.IN_PROGRESS and status.phase == _TRAINING
    return Ending(
        _ENDS.get(status.state, End.RUNNING),
        status.name,
        status.stop,
        checkpoints=left_checkpoints(status),
        restarted=max(
            (each.started for each in status.transitions if each.phase == "Restarting"), default=None
        ),
        trains_at=now if trains else None,
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
