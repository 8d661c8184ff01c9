"""What a traceback says as a sign: of an exception that no row of the signatures knows, or of none."""

from __future__ import annotations

from dataclasses import replace

from launcher.diagnosis.candidates import unworded
from launcher.diagnosis.consequences import begins_no_process, ends_in_plumbing, ends_in_rendezvous
from launcher.diagnosis.record import Line
from launcher.diagnosis.scan import Candidate
from launcher.diagnosis.sighting import Sighting
from launcher.diagnosis.signatures.signature import LineRole
from launcher.diagnosis.tracebacks import Traceback
from launcher.failure_modes import checkpoints, interruption, nccl, training_script
from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import finds


@finds(Stage.LOG, training_script.SCRIPT_RAISED, nccl.RENDEZVOUS_TIMED_OUT)
def sign_of_exception(traceback: Traceback, candidate: Candidate, line: Line) -> tuple[object, Sighting]:
    """The kind and the sign of an exception that no row knows: the script's own, unless it reports another
    process' failure."""
    if traceback.kind.endswith("KeyboardInterrupt"):
        what = "interrupted with Ctrl-C (SIGINT)"
        stop = unworded(interruption.STOPPED, LineRole.CASCADE, what, candidate, line, vague=False)
        return "interrupted", stop
    if ends_in_rendezvous(traceback):
        return "rendezvous", _not_met(traceback.exception, candidate, line, traceback)
    role = LineRole.CASCADE if traceback.follows_from_another else LineRole.INITIATOR
    return role, _of_script(traceback.exception, role, candidate, line, traceback)


def sign_of_cut(traceback: Traceback, header: Candidate, line: Line) -> Sighting:
    """A traceback whose exception is not in the log says only that there was one, and where; `line` is the
    first that is left of it."""
    if ends_in_rendezvous(traceback):
        return _not_met("an exception of which the log has only the stack", header, line, traceback)
    what, role = "an exception, of which the log has only the stack", LineRole.CASCADE
    if traceback.in_thread:
        # Python ends the thread alone: whether the job got over it stood in what is not there.
        what, role = f"{what}, in a thread of its own", LineRole.ADVISORY
    return _of_script(what, role, header, line, traceback)


def with_traceback(sighting: Sighting, traceback: Traceback | None) -> Sighting:
    """The sign with the traceback beside it, if there is one."""
    if traceback is None:
        return sighting
    if sighting.mode is checkpoints.NOT_WHAT_WAS_SAVED and begins_no_process(traceback):
        # What is torn is no file but the pipe to the process that starts this one.
        what = "the process that was starting it ended before it had told it what to run"
        sighting = replace(
            sighting,
            mode=training_script.SCRIPT_RAISED,
            role=LineRole.CASCADE,
            what=what,
            remedy=None,
            vague=True,
        )
    return replace(
        sighting,
        role=LineRole.ADVISORY if traceback.ignored and sighting.role.may_be_root else sighting.role,
        details=traceback.told,
        place=traceback.place,
        fatal=traceback.is_fatal,
        plumbing=sighting.mode is training_script.SCRIPT_RAISED and ends_in_plumbing(traceback),
    )


def _not_met(why: str, candidate: Candidate, line: Line, traceback: Traceback) -> Sighting:
    mode, what = nccl.RENDEZVOUS_TIMED_OUT, f"the hosts did not meet: {why}"
    return with_traceback(unworded(mode, LineRole.SYMPTOM, what, candidate, line, vague=True), traceback)


def _of_script(what: str, role: LineRole, candidate: Candidate, line: Line, traceback: Traceback) -> Sighting:
    sighting = unworded(training_script.SCRIPT_RAISED, role, what, candidate, line, vague=True)
    return with_traceback(sighting, traceback)
