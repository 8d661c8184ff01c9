"""From what somebody has to a job file: a training job, a program of the SageMaker SDK, a batch script.

What the job gets wrong is found by the rules that judge every job, with the places of the source in place of
those of a job file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.documents import Document, split_keys, validate_document
from launcher.drafts.batch.script import draft_of_batch_job
from launcher.drafts.job_draft import DraftField, JobDraft, SourceLine, render_draft
from launcher.drafts.sdk.notebook import NotANotebookError, Notebook, read_notebook
from launcher.drafts.sdk.program import draft_of_sdk_job, find_other_classes, find_sdk_jobs
from launcher.drafts.training_job import draft_of_request
from launcher.failure_modes.model import Finding, Location, Refusal, Severity
from launcher.failure_modes.model import Path as FieldPath
from launcher.frozen import frozen
from launcher.jobs.load_job import LoadedJob
from launcher.jobs.specification import AS_WRITTEN, JobSpec
from launcher.planning.request_view import Request, RequestView
from launcher.program.index import FileIndex, Unread
from launcher.program.program import FileCache, Program, read_program
from launcher.session.drafting.find_script import project_folders
from launcher.session.prepare_plan import prepare
from launcher.source.start_script import is_batch_script, read_batch_script
from launcher.source.tree import module_files
from launcher.text.regular_files import file_mode, read_regular
from launcher.text.values import parse_image_uri

if TYPE_CHECKING:
    from launcher.aws.clients import Clients

_MOST_BYTES = 20_000_000
"""Of a source; notebooks with pictures in them have some millions."""

_PROGRAMS = (".py", ".ipynb")


@frozen
class ImportedJob:
    """A job file that was made of something: its draft and its text, and what the job gets wrong, each at its
    place in the source."""

    draft: JobDraft
    text: str
    findings: tuple[Finding, ...]


def import_job(
    source: str,
    clients: Clients,
    region: str | None,
    *,
    line: str | None,
    folder: Path,
    answers: Sequence[str] = (),
) -> ImportedJob:
    """Make a job file that lies in `folder` of a file, or of the training job of a name.

    `line` chooses among several jobs of one source; `answers` are fields that the user gives, as `--set`
    takes them. Raises Refusal for what is no source of a job, and AwsRefusal where AWS knows no such job.
    """
    path = Path(source)
    if file_mode(path):
        draft = _draft_of_file(path, region, line, folder)
    elif path.suffix or "/" in source:
        raise Refusal(
            f"there is no file {source}, and no training job can have this name.",
            "Give a program, a batch script, a description as JSON, or the name of a training job.",
        )
    else:
        draft = _draft_of_job(source, clients, region)
    draft = _answered(draft, answers)
    text = render_draft(draft)
    return ImportedJob(draft, text, _judged(draft, source, region, folder))


# What the source is.


def _draft_of_file(path: Path, region: str | None, line: str | None, folder: Path) -> JobDraft:
    try:
        data = read_regular(path, _MOST_BYTES)
    except OSError as error:
        raise Refusal(f"{path} cannot be read: {error.strerror}.", "Give a file that can be read.") from error
    if path.suffix in _PROGRAMS:
        return _placed(_draft_of_program(path, data, line), path.parent, folder)
    text = data.decode("utf-8", "replace")
    if is_batch_script(text):
        return _placed(_draft_of_batch(path, text, line), path.parent, folder)
    request = _request_in(text)
    if request is not None:
        found = _region_of(request, region)
        return draft_of_request(request, region=found, origin=f"Made by `launch import {path}`.")
    raise Refusal(
        f"{path} is no source of a job: no .py and no .ipynb, no script for sbatch, no request as JSON.",
        "Give a program that uses the SageMaker SDK, a batch script of Slurm, what `aws sagemaker "
        "describe-training-job` printed, or the name of a training job.",
    )


def _draft_of_job(name: str, clients: Clients, region: str | None) -> JobDraft:
    from launcher.aws.lookups import fetch_request, fetch_tags

    sagemaker = clients("sagemaker", region)
    request = fetch_request(sagemaker, name)
    tags = fetch_tags(sagemaker, name)
    described = {**request, **({"Tags": tags} if tags else {})}
    where = str(sagemaker.meta.region_name)
    return draft_of_request(described, region=where, origin=f"Made by `launch import {name}`.")


def _request_in(text: str) -> Request | None:
    """The request that a JSON document holds: itself, a dry run's, or a description."""
    try:
        content = json.loads(text)
        request = content.get("request", content)
        view = RequestView(request)
        if isinstance(request, dict) and view.name and (view.training.get("RoleArn") or view.image):
            return {key: value for key, value in request.items() if key not in _DESCRIBED}
    except (ValueError, AttributeError, RecursionError):
        pass
    return None


_DESCRIBED = frozenset(
    {
        "TrainingJobStatus", "SecondaryStatus", "SecondaryStatusTransitions", "CreationTime",
        "TrainingStartTime", "TrainingEndTime", "LastModifiedTime", "ModelArtifacts", "FinalMetricDataList",
        "TrainingTimeInSeconds", "BillableTimeInSeconds", "FailureReason", "ProfilingStatus",
        "ResponseMetadata", "LabelingJobArn", "AutoMLJobArn", "TuningJobArn", "WarmPoolStatus",
        "DebugRuleEvaluationStatuses", "ProfilerRuleEvaluationStatuses", "OutputModelPackageArn",
    }
)  # fmt: skip
"""What a description says of a job that was not asked for (SageMaker API reference, DescribeTrainingJob)."""


def _region_of(request: Request, session_region: str | None) -> str:
    """The region of a job: its ARN's, else that of its image, which is the same, else the session's."""
    view = RequestView(request)
    image = parse_image_uri(view.image or "")
    region = view.region or (image.region if image is not None else None) or session_region
    if region is None:
        raise Refusal("the request does not say in which region its job is.", "Set AWS_REGION.")
    return region


def _draft_of_program(path: Path, data: bytes, line: str | None) -> JobDraft:
    notebook: Notebook | None = None
    cache = FileCache()
    if path.suffix == ".ipynb":
        try:
            notebook = read_notebook(data)
        except NotANotebookError as error:
            raise Refusal(
                f"{path} is no notebook: {error}.", "Give a notebook of Jupyter, or a .py."
            ) from error
        cache = FileCache({os.path.realpath(path): notebook.text.encode()})
    program = read_program(path, cache=cache)
    if isinstance(program, Unread):
        raise Refusal(
            f"{path} cannot be read as Python: {program.reason} (line {program.line}).",
            "Give a program that this version of Python reads.",
        )
    lines = partial(_line_of, program, notebook)
    jobs = find_sdk_jobs(program, lines)
    if not jobs:
        others = find_other_classes(program, lines)
        found = f"; it has {', '.join(others)}" if others else ""
        raise Refusal(
            f"{path} makes no estimator and no trainer of the SageMaker SDK that could be read{found}.",
            "Read are Estimator, PyTorch, HuggingFace, TensorFlow and ModelTrainer. For a training script "
            f"there is `launch init {path}`.",
        )
    chosen = _chosen(path, [(str(each.line), each.kind) for each in jobs], line)
    origin = f"Made by `launch import {path}` of the {jobs[chosen].kind} in {jobs[chosen].line}."
    return draft_of_sdk_job(program, jobs[chosen], lines, name=path.stem, origin=origin)


def _line_of(program: Program, notebook: Notebook | None, file: FileIndex, line: int) -> SourceLine:
    if notebook is not None and file is program.entry:
        return notebook.place(line)
    other = None if file is program.entry else str(file.path)
    return SourceLine(line, file=other)


def _draft_of_batch(path: Path, text: str, line: str | None) -> JobDraft:
    script = read_batch_script(text)
    if not script.jobs:
        raise Refusal(
            f"{path} starts no training that could be read: no torchrun, accelerate, deepspeed or Python.",
            "Give the script that starts it, or the training script itself to `launch init`.",
        )
    chosen = _chosen(path, [(f"line {each.line}", each.start.starter) for each in script.jobs], line)
    origin = f"Made by `launch import {path}` of the command in line {script.jobs[chosen].line}."
    return draft_of_batch_job(script, script.jobs[chosen], name=path.stem, origin=origin)


def _chosen(path: Path, jobs: Sequence[tuple[str, str]], line: str | None) -> int:
    """Which of several jobs is meant, by its line."""
    if line is not None:
        wanted = line if line.startswith(("line", "cell")) else f"line {line}"
        found = [index for index, (place, _) in enumerate(jobs) if place == wanted]
        if found:
            return found[0]
    elif len(jobs) == 1:
        return 0
    listed = ", ".join(f"{kind} in {place}" for place, kind in jobs)
    problem = f"{path} has no job in {line}" if line is not None else f"{path} has {len(jobs)} jobs"
    raise Refusal(
        f"{problem}: {listed}.",
        f'Choose one: launch import {path} --line "{jobs[0][0].removeprefix("line ")}"',
    )


_PROGRAM = (("code", "entry_point"), ("code", "module"))


def _placed(draft: JobDraft, source: Path, folder: Path) -> JobDraft:
    """The draft with its code's folder as it is seen from the job file's folder."""
    path = ("code", "source_dir")
    given = next((each for each in draft.fields if each.path == path), None)
    value = "." if given is None else str(given.value)
    if value.startswith(("s3://", "/", "$", "~")) or any(each.path == path for each in draft.questions):
        return draft
    if given is None and not any(each.path in _PROGRAM for each in draft.fields):
        return draft
    program = next((each for each in draft.fields if each.path in _PROGRAM), None)
    above = (each / value for each in project_folders(source.absolute()))
    places = [each for each in (source / value, Path(value), *above) if each.is_dir()]
    places.sort(key=lambda each: program is None or not _holds(each, program))
    places = places or [source / value]
    moved = os.path.relpath(places[0].resolve(), folder.resolve())
    field = DraftField(path, moved, given.comment if given else "", given.line if given else None)
    return replace(draft, fields=(*(each for each in draft.fields if each.path != path), field))


def _holds(folder: Path, program: DraftField) -> bool:
    """Whether a folder has the script or module that a job starts."""
    text = str(program.value)
    names = module_files(text) if program.path == ("code", "module") else (text,)
    return any((folder / each).is_file() for each in names)


def _answered(draft: JobDraft, answers: Sequence[str]) -> JobDraft:
    """The draft with what the user says; a question whose field is given is none any more."""
    for answer in answers:
        dotted, equals, text = answer.partition("=")
        try:
            path = split_keys(dotted.strip())
            document = Document("--set", draft.data(), {})
            if not equals:
                raise ValueError(f"{answer!r} has no =")
            document.override(dotted.strip(), text, AS_WRITTEN)
        except ValueError as error:
            raise Refusal(
                f"--set cannot be applied: {error}.", "Write it as --set field.field=value."
            ) from error
        value: Any = document.data
        for key in path:
            value = value[key]
        fields = (*(each for each in draft.fields if each.path[: len(path)] != tuple(path)),)
        draft = replace(
            draft,
            fields=(*fields, DraftField(tuple(path), value)),
            questions=tuple(each for each in draft.questions if each.path != tuple(path)),
        )
    return draft


# What the job gets wrong.


def _judged(draft: JobDraft, source: str, region: str | None, folder: Path) -> tuple[Finding, ...]:
    """What the rules say of the draft as the source has it, at the source's lines.

    Fields with variables of the environment are left out, as what they are is not known here; nothing is
    found while a field is open without which there is no job. What a draft lacks is its questions' matter.
    """
    known = tuple(each for each in (*draft.fields, *draft.kept_out) if not _has_variables(each.value))
    data = JobDraft("", known).data()
    locations: dict[FieldPath, Location] = {
        each.path: _location(source, each.line) for each in known if each.line is not None
    }
    if locations:
        locations.setdefault((), next(iter(locations.values())))
    document = Document(source, data, locations)
    spec, invalid = validate_document(JobSpec, document)
    asked = {each.path[:length] for each in draft.questions for length in range(1, len(each.path) + 1)}
    if spec is None:
        # A field that is missing is a question already.
        return tuple(
            each.located(document.location)
            for each in invalid
            if each.path and tuple(each.path) not in asked and _is_given(data, each.path)
        )
    loaded = LoadedJob(folder / "job.yaml", document, spec, ())
    plan = prepare(loaded, session_region=region)
    unsure = tuple(code for field, codes in _DEPENDING.items() if field in asked for code in codes)
    return tuple(
        each
        for each in plan.findings
        if each.severity is not Severity.INFO
        and not each.ignored
        and tuple(each.path or ()) not in asked
        and not each.code.startswith(unsure)
    )


_DEPENDING: Mapping[FieldPath, tuple[str, ...]] = {
    ("distribution", "strategy"): ("DIST", "DBG", "EFA"),
    ("code", "source_dir"): ("CODE", "DATA", "CKPT"),
    ("code", "entry_point"): ("CODE", "DATA", "CKPT"),
    ("checkpoint",): ("CKPT",),
    ("inputs",): ("DATA",),
}
"""The families of findings that a field decides: while it is open, none of them is told."""


def _is_given(data: Any, path: FieldPath) -> bool:
    for key in path:
        if not isinstance(data, dict) or key not in data:
            return False
        data = data[key]
    return True


def _has_variables(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_variables, value.values()))
    if isinstance(value, list):
        return any(map(_has_variables, value))
    return isinstance(value, str) and "${" in value.replace("$${", "")


def _location(source: str, line: SourceLine) -> Location:
    file = line.file or source
    return Location(file if line.cell is None else f"{file}:cell {line.cell}", line.line, 1)
