"""How a job ended and why, wherever it ran: its status and its logs, through the backend.

What the launcher alone knows is added to the diagnosis: which file was left out of the package, and what
this machine lacked for a run on it, which is not called the script's fault.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from launcher.backends.interface import Backend, Cursor, JobState, JobStatus, LogLine
from launcher.cluster.instances import instance_facts
from launcher.diagnosis.diagnose import SuccessReader, diagnose
from launcher.diagnosis.model import Diagnosis, End, Ending, RootCause, Verdict
from launcher.diagnosis.remedies import NOTHING_ASKED, AskedJob
from launcher.diagnosis.signatures import FRAGMENTS, LACKS
from launcher.failure_modes import model_hub, training_script
from launcher.failure_modes.model import AwsRefusal, Finding
from launcher.frozen import frozen
from launcher.session.runs.estimate_end import goals_of
from launcher.session.runs.read_job_lines import ProgressReader, TrainingProgress
from launcher.source.folder_walk import IgnoredPath
from launcher.source.tree import SourceTree, find_left_out
from launcher.text.regular_files import NoteFolder, cache_folder, file_mode

if TYPE_CHECKING:
    from launcher.planning.request_view import RequestView


@frozen
class Outcome:
    """How a job ended; `diagnosis` is that of one that failed or was stopped, `step` the furthest that it
    reported.

    `warnings` are what a completed job's lines say against its success, None where nobody read them: those
    of a job on AWS that was not followed. Of a running job they are what the boot and its watchdog have
    warned of and not taken back, and `progress` is how far it is by its lines, None where they do not tell.
    """

    status: JobStatus
    diagnosis: Diagnosis | None = None
    step: float | None = None
    warnings: tuple[Finding, ...] | None = None
    progress: TrainingProgress | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the job completed."""
        return self.status.state is JobState.COMPLETED

    @property
    def verdict(self) -> Verdict | None:
        """What became of the job; None as long as it runs."""
        if self.diagnosis is not None:
            return self.diagnosis.verdict
        return Verdict.HEALTHY if self.succeeded else None

    @property
    def cause(self) -> Finding | None:
        """The finding of what ended the job, a failure or a stop, where it is known."""
        cause = self.diagnosis.root_cause if self.diagnosis else None
        return cause.finding if cause else None

    @property
    def failure(self) -> RootCause | None:
        """The root cause of a failure, where one is known; a stop is none."""
        return self._cause_if(Verdict.FAILED)

    @property
    def stop(self) -> RootCause | None:
        """What ended from outside a job in which nothing had failed."""
        return self._cause_if(Verdict.STOPPED)

    def _cause_if(self, verdict: Verdict) -> RootCause | None:
        diagnosis = self.diagnosis
        return diagnosis.root_cause if diagnosis is not None and diagnosis.verdict is verdict else None


def outcome_of(
    backend: Backend,
    status: JobStatus,
    step: float | None = None,
    warnings: tuple[Finding, ...] | None = None,
    check: Check | None = None,
) -> Outcome:
    """How a job ended, and why: the place where every command learns the cause of a failure or a stop.

    Reads the logs of a job that did not complete; `check` is as in `diagnose_job`. Raises AwsRefusal where
    AWS refuses them and gives no reason itself.
    """
    ended = status.state in (JobState.FAILED, JobState.STOPPED)
    progress = None
    if not status.state.is_final:
        warnings, progress = _read_running_job(backend, status)
    elif status.state is not JobState.COMPLETED:
        warnings = ()
    elif warnings is None and backend.runs_here:
        warnings = warnings_of(backend, status.name)
    diagnosis = diagnosis_of(backend, status, check=check) if ended else None
    return Outcome(status, diagnosis, step, warnings, progress)


Seen = Callable[[Sequence[LogLine]], None]
"""Who reads a job's lines along with the diagnosis."""

Check = Callable[[Diagnosis, JobStatus], Diagnosis]
"""Who holds a diagnosis against what the account holds (`launcher.session.account_checks`)."""

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
    *,
    without_lines: bool = True,
) -> Diagnosis:
    """The same for a job whose status is known; `seen` gets its lines, too, batch by batch in their order.

    Raises AwsRefusal as `diagnose_job`; without `without_lines` whenever AWS refuses the lines.
    """
    ending, lines = ending_of(status, now), _lines(backend, status.name, seen)
    diagnosis = _diagnosed(status, ending, lines, here=backend.runs_here, without_lines=without_lines)
    diagnosis = add_left_out_files(diagnosis, read_left_out_note(status.name), _given_words(status.request))
    if backend.runs_here:
        diagnosis = attribute_to_machine(diagnosis, Place(status.gpus, status.instance_type))
    elif check is not None:
        diagnosis = check(diagnosis, status)
    diagnosis = add_missing_input(diagnosis, status.request, here=backend.runs_here)
    return add_way_on(diagnosis, status)


def warnings_of(backend: Backend, name: str) -> tuple[Finding, ...]:
    """What the lines of a completed job say against its success; all of them are read."""
    reader = SuccessReader()
    for lines in read_batches(backend, name):
        reader.read(lines)
    return reader.warnings


_READING_SECONDS = 10.0
"""So long the lines of a running job are read: its status is to be had at once."""


def _read_running_job(
    backend: Backend, status: JobStatus
) -> tuple[tuple[Finding, ...] | None, TrainingProgress | None]:
    """What the lines of a running job warn of and have not taken back, and how far it is; None for both where
    they could not be read, or not in time."""
    warnings, until = SuccessReader(), time.monotonic() + _READING_SECONDS
    metrics = ProgressReader(status.metrics, status.processes_per_host, goals_of(status.request))
    progress = None
    try:
        for lines in read_batches(backend, status.name):
            warnings.read(lines)
            progress = metrics.read(lines) or progress
            if time.monotonic() > until:
                return None, None
    except AwsRefusal:
        return None, None
    return warnings.standing, progress


def _diagnosed(
    status: JobStatus, ending: Ending, lines: Iterator[LogLine], *, here: bool, without_lines: bool
) -> Diagnosis:
    job = asked_job_of_request(status.request, here=here)
    # What a stop is called by the service says less than the stop itself.
    phase = status.phase if status.stop is None else None
    reason = status.failure_reason
    try:
        return diagnose(lines, reason, secondary_status=phase, ending=ending, job=job)
    except AwsRefusal:
        if not without_lines or (not reason and status.stop is None):
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
    for lines in read_batches(backend, name):
        if seen is not None:
            seen(lines)
        yield from lines


def read_batches(backend: Backend, name: str) -> Iterator[Sequence[LogLine]]:
    """What the hosts have printed, batch by batch until one is empty."""
    cursor: Cursor = {}
    while True:
        batch = backend.read_logs(name, cursor)
        if not batch.lines:
            return
        yield batch.lines
        cursor = batch.cursor


def asked_job_of_request(request: RequestView | None, *, here: bool = False) -> AskedJob:
    """What the request says; of a run on this machine nothing of the hosts that it stands for."""
    if request is None:
        return NOTHING_ASKED
    words = request.arguments
    return AskedJob(
        instance_type=None if here else request.instance_type,
        processes_per_host=request.processes_per_host,
        volume_size_gb=None if here else request.volume_size_gb,
        hyperparameters=request.hyperparameters,
        arguments=words[words.index("--") + 1 :] if "--" in words else words,
    )


# A diagnosis of a run on this machine: what the machine lacks is not called the script's fault.


_BY_DEVICE = (
    'To run it here as well, let the script choose by what is there: `device = "cuda" if '
    'torch.cuda.is_available() else "cpu"`, and init_process_group(backend="nccl" if device == "cuda" else '
    '"gloo").'
)
_NO_WAY_HERE = (
    "See whether this machine reaches it now; a run gets none of the launcher's variables, so that a proxy "
    "has to stand in the job's `environment`. On AWS subnets without a NAT gateway reach it neither: what is "
    "downloaded once beforehand and given as an input channel (`inputs`, here `--input NAME=DIR`), with "
    "HF_HUB_OFFLINE=1 and HF_HOME below it, needs no network."
)
_REPAIR = (
    "Repair what the traceback of the first failing rank names, and run it here again. A main() decorated "
    "with torch.distributed.elastic.multiprocessing.errors.record keeps tracebacks of all ranks apart."
)


@frozen
class Place:
    """A run on this machine: whether its hosts saw GPUs, None where unknown, and the type they stand for."""

    gpus: bool | None
    instance_type: str | None


def attribute_to_machine(diagnosis: Diagnosis, place: Place) -> Diagnosis:
    """The diagnosis of a local run, with a remedy that fits where the run was."""
    cause = diagnosis.root_cause
    remedy = _machine_remedy(cause, place) if cause else None
    if cause is None or remedy is None:
        return diagnosis
    return _with_finding(diagnosis, cause, replace(cause.finding, remedy=remedy))


def _with_finding(diagnosis: Diagnosis, cause: RootCause, finding: Finding) -> Diagnosis:
    """The diagnosis, with this finding in place of its root cause's."""
    others = tuple(finding if each == cause.finding else each for each in diagnosis.findings)
    return replace(diagnosis, root_cause=replace(cause, finding=finding), findings=others)


def _machine_remedy(cause: RootCause, place: Place) -> str | None:
    """What to do about the root cause here; None where what was said of it fits."""
    said = "\n".join((cause.finding.message, cause.log_line, *cause.evidence))
    lacks = [name for name, row in LACKS.items() if row.pattern.search(said)]
    for name in ("torch", "container"):
        if name in lacks:
            return LACKS[name].remedy
    if cause.finding.remedy in (FRAGMENTS["NO_WAY"], model_hub.HUB_UNREACHABLE.remedy):
        return _NO_WAY_HERE
    if lacks and place.gpus is not True:
        return f"{_no_gpu(place.instance_type)} {_BY_DEVICE}"
    if "build" in lacks:
        return LACKS["build"].remedy
    return _REPAIR if cause.finding.remedy == training_script.SCRIPT_RAISED.remedy else None


def _no_gpu(instance_type: str | None) -> str:
    facts = instance_facts(instance_type or "")
    if facts is None:
        return "The hosts of this run see no GPU; where there are some, the script would go on."
    if facts.has_gpus:
        return f"The hosts of this run see no GPU; on {instance_type} the script would go on."
    return f"The hosts of this run see no GPU, and {instance_type} has none either: it would fail there, too."


# What the job file says too little of: an input that the script reads, and how repaired code goes on.


_INPUT = re.compile(r"No such file or directory: b?['\"](?:/\S*)?/input/data/(?P<name>[\w-]{1,64})[/'\"]")


def add_missing_input(diagnosis: Diagnosis, request: RequestView | None, *, here: bool) -> Diagnosis:
    """The diagnosis, with the line to add where what is missing is of an input that the job does not have."""
    cause = diagnosis.root_cause
    match = _INPUT.search(cause.finding.message) if cause is not None else None
    if cause is None or match is None or request is None:
        return diagnosis
    name, given = match["name"], [each.name for each in request.inputs]
    if name in given:
        return diagnosis
    has = f"; it has {', '.join(given)}" if given else ""
    finding = replace(
        cause.finding,
        message=f"{cause.finding.message}: the job has no input {name}{has}",
        remedy=f"Add `inputs: {{{name}: s3://BUCKET/PREFIX}}` to the job file"
        + (f", with `--input {name}=FOLDER` for a run here" if here else "")
        + f", and read its folder from SM_CHANNEL_{name.replace('-', '_').upper()}.",
    )
    return _with_finding(diagnosis, cause, finding)


def add_way_on(diagnosis: Diagnosis, status: JobStatus) -> Diagnosis:
    """The diagnosis, with the command by which repaired code goes on from what a job of faulty code left."""
    cause = diagnosis.root_cause
    if cause is None or not cause.finding.code.startswith("CODE") or not left_checkpoints(status):
        return diagnosis
    on = (
        f" Repaired code goes on from the checkpoints with `launch JOB.yaml --set checkpoint.resume_from="
        f"{status.name}`; `launch resume` would run the old code."
    )
    return _with_finding(diagnosis, cause, replace(cause.finding, remedy=f"{cause.finding.remedy}{on}"))


# What a job misses because its launch left it out: kept on this machine, and told with the diagnosis.
#
# The hosts know nothing of what was not packed, and the folder may have changed since. So each launch notes
# what its source's patterns left out, under the job's name.


LEFT_OUT_KEPT_SECONDS = 28 * 24 * 3600
"""No training job runs longer (SageMaker API, StoppingCondition)."""

MOST_NAMES = 2_000
"""A note has so many names at most; the first ones stay."""

_LEFT_OUT_NOTES = NoteFolder(lambda: cache_folder() / "left-out", LEFT_OUT_KEPT_SECONDS)

_FILE = re.compile(r"No such file or directory: b?['\"]([^'\"]{1,4096})['\"]")
"""How Python ends the message of a FileNotFoundError (CPython, PyErr_SetFromErrnoWithFilenameObjects)."""

_MODULE = re.compile(r"No module named '([\w.]{1,500})'")


@frozen
class LeftOutNote:
    """What a launch left out of the source that lies in `folder`, and by which patterns."""

    folder: Path
    ignored: tuple[IgnoredPath, ...]


def write_left_out_note(name: str, source: SourceTree) -> None:
    """Keep what was left out of a job's source. A machine that can keep nothing goes without."""
    names = [
        [each.name, each.pattern, each.ignore_file and str(each.ignore_file)]
        for each in source.ignored[:MOST_NAMES]
    ]
    content = {"folder": str(source.folder), "left_out": names}
    _LEFT_OUT_NOTES.write(name, json.dumps(content) if names else None)


def read_left_out_note(name: str) -> LeftOutNote | None:
    """What was left out of a job's source; None where this machine has no note that can be read."""
    try:
        content = _LEFT_OUT_NOTES.read(name)
        ignored = tuple(
            IgnoredPath(str(name), pattern and str(pattern), file and Path(file))
            for name, pattern, file in content["left_out"]
        )
        return LeftOutNote(Path(content["folder"]), ignored)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _given_words(request: RequestView | None) -> tuple[str, ...]:
    """What the script was given, in which it may be told of files."""
    if request is None:
        return ()
    return (*request.arguments, *(str(value).strip("\"'") for value in request.hyperparameters.values()))


def add_left_out_files(
    diagnosis: Diagnosis, note: LeftOutNote | None, given: Sequence[str] = ()
) -> Diagnosis:
    """The diagnosis, with the reason where its root cause is a file or module that the launch left out.

    A hub that was asked for a folder says nothing of it as a rule: so the words `given` to the script count.
    """
    root = diagnosis.root_cause
    missed = None if root is None or note is None else _missed(root, note, given)
    if root is None or note is None or missed is None:
        return diagnosis
    name, why = missed
    finding = replace(
        root.finding,
        message=f"{root.finding.message}: {_reason(name, why)}",
        remedy=_left_out_remedy(why, note),
    )
    return _with_finding(diagnosis, root, finding)


def _missed(root: RootCause, note: LeftOutNote, given: Sequence[str]) -> tuple[str, IgnoredPath] | None:
    """The missing file or folder, and why it is; only what lies in the source folder was meant to come."""
    texts = (root.finding.message, root.log_line, *root.evidence)
    of_hub = root.finding.code == model_hub.HUB_UNREACHABLE.code
    names = [name for text in texts for name in _candidates(text)]
    if of_hub or any(map(_SOUGHT.search, texts)):
        words = [*(word for text in texts for word in _NAMED.findall(text)), *(given if of_hub else ())]
        names += [name for word in words for name in _below_source(word)]
    for name in names:
        why = find_left_out(note.ignored, name) or find_left_out(note.ignored, f"{name}/")
        if why is not None and file_mode(note.folder / name):
            return name, why
    return None


_SOUGHT = re.compile(
    r"repo id must|local folder|does not appear to have|incorrect path|unable to (?:load|find|open)"
    r"|can(?:not|'t) (?:load|find|open)|could(?: not|n't) (?:load|find|open)|not found|not exist|no such",
    re.IGNORECASE,
)
_NAMED = re.compile(r"(?:['\"]|\bOSError: |huggingface\.co/)([\w.@+/-]{1,300}?)(?=['\"]| is not a|/resolve/)")
"""What such a message names: in quotes, at its beginning, or in the address of a hub's file."""


def _candidates(text: str) -> Iterator[str]:
    """The names below the source folder that a line may speak of."""
    for path in _FILE.findall(text):
        yield from _below_source(path)
    for module in _MODULE.findall(text):
        place = module.replace(".", "/")
        yield from (f"{place}.py", f"{place}/__init__.py")


def _below_source(path: str) -> Iterator[str]:
    """The names that a path may have below the source folder."""
    parts = PurePosixPath(path).parts
    if ".." in parts:
        return
    if not path.startswith("/"):
        yield "/".join(parts)
    # The code's folder is /opt/ml/code, in a local run below the run's own folder.
    yield from ("/".join(parts[at + 1 :]) for at, part in enumerate(parts) if part == "code")


def _reason(name: str, why: IgnoredPath) -> str:
    if why.ignore_file is None:
        return f"{name} lies in the source folder and was not packed, as {why.name} never is"
    return (
        f"{name} lies in the source folder and was not packed: the pattern {why.pattern} of "
        f"{why.ignore_file} leaves out {why.name}"
    )


def _left_out_remedy(why: IgnoredPath, note: LeftOutNote) -> str:
    if why.ignore_file is None:
        return f"Move what the job needs out of {why.name}."
    return (
        f"Add the line !{why.name} to {note.folder / '.slipwayignore'}, or change the pattern; give large "
        "data as an input."
    )


# Where a job's results are: a place is named only where something lies there, as far as that can be seen.


_OURS = ("slipway", "flight_recorder")
"""What below /opt/ml/output/data is not of the script: the ranks' output, and PyTorch's flight recorder."""


def places_of(status: JobStatus) -> Iterator[tuple[str, str]]:
    """What to call each place, and the place: the machines of the hosts; a folder that holds something here,
    or a URI of S3, which is not asked and of which is said only what goes there."""
    if status.nodes:
        yield "hosts", ", ".join(f"{host} on {node}" for host, node in status.nodes.items())
    if status.checkpoints:
        if "://" in status.checkpoints:
            yield "checkpoints go to", status.checkpoints
        elif _holds_a_file(Path(status.checkpoints)):
            yield "checkpoints", status.checkpoints
    if status.output:
        if "://" in status.output:
            yield "output goes to", status.output
        elif any(map(_holds_results, Path(status.output).glob("*/ml"))):
            yield "output", status.output


def left_checkpoints(status: JobStatus) -> bool:
    """Whether a job may have left checkpoints: no, where it keeps none or their folder here is empty."""
    place = status.checkpoints
    return place is not None and ("://" in place or _holds_a_file(Path(place)))


def _holds_results(root: Path) -> bool:
    """Whether a folder that stood for /opt/ml holds what the service would have kept."""
    data = root / "output" / "data"
    kept = [folder for folder in data.glob("*") if folder.name not in _OURS]
    return _holds_a_file(root / "model") or any(file.is_file() or _holds_a_file(file) for file in kept)


def _holds_a_file(folder: Path) -> bool:
    return any(file.is_file() for file in folder.rglob("*"))
