"""From a job file to a judged plan: load it, find its cluster, plan it, check it and its script.

Also a plan beside another: an earlier job's request, or the same job without Training Compiler; and what of
the findings on a job is mended in its source.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.cluster.instances import instance_facts
from launcher.cluster.manifest import Cluster, ManifestError, cached_manifest, is_path, load_manifest
from launcher.documents import read_document
from launcher.failure_modes import checkpoints, data, distribution, job_file
from launcher.failure_modes.model import Finding, Refusal, Severity, Stage, accept
from launcher.frozen import frozen
from launcher.jobs.job_sections import Code
from launcher.jobs.load_job import (
    LoadedJob,
    Variables,
    allowed_variables,
    import_folders,
    is_variable_name,
    load_job,
    with_folders,
)
from launcher.jobs.specification import AS_WRITTEN, JobSpec
from launcher.planning.finished_request import make_unique_part
from launcher.planning.image_choice import native_counterpart
from launcher.planning.planner import plan_job
from launcher.planning.request_view import Request, RequestView
from launcher.planning.show_plan import find_credentials
from launcher.planning.training_plan import TrainingPlan
from launcher.program.index import Unread
from launcher.program.process_starts import starts_ranks
from launcher.program.program import NO_CHANGED_FILES, FileCache, Program, collection_paused, read_program
from launcher.rules.job.check import check_job, check_source
from launcher.rules.job.start_scripts import in_shell_script, job_of_start, started_by_words
from launcher.rules.job.subject import SEARCHED_NAMES, JobSubject, ReadableSource, RunPlace
from launcher.rules.script.findings import ScriptSubject
from launcher.session.lint_scripts import Lint, Selection, lint_subjects, write_whole
from launcher.source.archive import OnRead
from launcher.source.folder_walk import SourceError
from launcher.source.tree import (
    MOST_SCRIPT_BYTES,
    NOTHING_SEEN,
    CommandLine,
    SourceTree,
    make_unread_source,
    module_files,
    read_command_line,
    read_source,
)
from launcher.text.regular_files import file_mode, read_regular, relative_to_working_folder

if TYPE_CHECKING:
    from launcher.aws.clients import Clients


@frozen
class JobSource:
    """What the command line says of a job: its file, what is changed for this run, and what it may read.

    `allow_env` names the only variables of the environment that the file may have; None is all, in CI none.
    `text` is what the file holds where it has not been written, as of a job that was drafted.
    """

    file: Path
    cluster: str | None = None
    overrides: Sequence[str] = ()
    allow_env: Sequence[str] | None = None
    text: str | None = None


def read_job(source: JobSource) -> LoadedJob:
    """Load a job file with the command line's changes.

    Raises Refusal where the file cannot be opened, an override makes no sense or an allowed name is none.
    """
    try:
        return load_job(source.file, _overrides(source), variables_of(source.allow_env), source.text)
    except FileNotFoundError:
        raise Refusal(
            f"there is no job file {source.file}.", "Correct the path; `launch --help` shows the usage."
        ) from None
    except OSError as error:
        raise Refusal(
            f"the job file {source.file} cannot be read: {error.strerror}.",
            "Give the path of a readable YAML file.",
        ) from error
    except ValueError as error:
        raise Refusal(f"--set cannot be applied: {error}.", "Write it as --set field.field=value.") from error


def fields_as_written(source: JobSource) -> dict[str, Any]:
    """The data of a job file that can be read, with the command line's changes and `${NAME}` as it stands.

    What is derived from it may be given to `--set` and shown. Raises as `read_job` and DocumentError.
    """
    document = read_document(source.file, AS_WRITTEN)
    for dotted, text in _overrides(source).items():
        document.override(dotted, text, AS_WRITTEN)
    return document.data


def prepare(
    loaded: LoadedJob,
    *,
    session_region: str | None,
    ignore: Sequence[str] = (),
    source: SourceTree | None = None,
    here: bool = False,
    cache: FileCache | None = None,
) -> TrainingPlan:
    """Plan a loaded job and judge it. Calls nothing beyond this machine.

    The cluster comes from the file that the job names, or from the cache. `ignore` holds codes accepted
    besides the file's. `source` is the job's code where it was read already, else it is read now. `here` says
    that it is for a run on this machine. `cache` has what was parsed of the code already.
    Raises Refusal where the manifest that the job names by its path cannot be used.
    """
    cluster: Cluster | None = None
    notes: list[Finding] = []
    if (
        loaded.spec is not None
        and loaded.spec.cluster is not None
        and (here or loaded.spec.backend != "slurm")
    ):
        cluster, notes = _known_cluster(loaded.spec.cluster, loaded.file.parent)
    return prepare_for(
        loaded,
        cluster,
        session_region=session_region,
        ignore=ignore,
        source=source,
        notes=notes,
        here=here,
        cache=cache,
    )


@collection_paused()
def prepare_for(
    loaded: LoadedJob,
    cluster: Cluster | None,
    *,
    session_region: str | None,
    ignore: Sequence[str] = (),
    unique: str | None = None,
    source: SourceTree | None = None,
    notes: Sequence[Finding] = (),
    here: bool = False,
    cache: FileCache | None = None,
) -> TrainingPlan:
    """`prepare` with a cluster that the caller has read; without one, what it would say stands open.

    `notes` are what is to be said of it besides what the plan and the rules find.
    """
    job = loaded.spec
    if job is None:
        findings = (*loaded.findings, *_about_readable_source(loaded, ignore))
        return TrainingPlan(job={}, region=None, request=None, package=None, findings=findings)
    source = source or source_of(job, loaded.file.parent)
    place = place_of(job, here=here)
    if place is not RunPlace.SAGEMAKER and job.limits.max_usd is not None:
        # Neither this machine nor what Slurm gives out has a price here.
        job = job.model_copy(update={"limits": job.limits.model_copy(update={"max_usd": None})})
    if place is RunPlace.SLURM:
        job = job.without_service()
    plan = plan_job(
        job,
        cluster,
        unique=unique or make_unique_part(),
        source=source,
        session_region=session_region,
        today=plan_date(),
    )
    cache = cache or FileCache()
    program = _program_of(job, source, cache)
    started = [] if program is not None else _started_by_shell(plan.spec or job, plan, source, cache)
    if program is None and started:
        program = started[-1].program
    subject = JobSubject(
        job=plan.spec or job,
        plan=plan,
        facts=instance_facts(job.resources.instance_type),
        source=source,
        cluster=cluster,
        names=source.names,
        command_line=script_command_line(job, source),
        place=place,
        starts_ranks=isinstance(program, Program) and starts_ranks(program),
        program=program if isinstance(program, Program) else None,
    )
    on_job = check_job(subject)
    if started:
        on_script = _on_started_programs(subject, started, {each.code for each in on_job})
    elif program is not None:
        on_script = lint_subjects([_judgeable(program, plan.spec or job, plan)]).findings
    else:
        on_script = ()
    found = accept([*on_job, *plan.findings, *on_script, *notes], [*job.ignore, *ignore])
    if place is not RunPlace.SAGEMAKER:
        # Informations are about a submission to AWS and say nothing of a run elsewhere.
        found = tuple(each for each in found if each.severity is not Severity.INFO)
    if place is RunPlace.LOCAL:
        found = tuple(map(_said_here, found))
    credentials = find_credentials(replace(plan, findings=found))
    return replace(
        plan,
        findings=tuple(
            credentials.finding(loaded.substitutions.finding(each.located(loaded.location))) for each in found
        ),
        substitutions=loaded.substitutions,
    )


def place_of(job: JobSpec, *, here: bool = False) -> RunPlace:
    """Where a job is to run; `here` where the command says so."""
    if here:
        return RunPlace.LOCAL
    return RunPlace.SLURM if job.backend == "slurm" else RunPlace.SAGEMAKER


def _said_here(finding: Finding) -> Finding:
    """A finding on a run on this machine: what a host loses with its disk is not lost here, what it lacks may
    be here, and the devices of a host are not those that the processes share."""
    is_lost = finding.code == checkpoints.PATH_NOT_KEPT.code
    is_crowded = finding.code == distribution.MORE_PROCESSES_THAN_DEVICES.code and finding.stage is Stage.SPEC
    is_here = finding.code == data.CHANNELS_DIFFER.code and finding.stage is Stage.SCRIPT
    softer = (is_lost or is_crowded or is_here) and finding.severity is Severity.ERROR
    return replace(finding, severity=Severity.WARNING) if softer else finding


def plan_date() -> date:
    """The day, by which images are still patched or not."""
    return datetime.now(tz=UTC).date()


def source_of(job: JobSpec, folder: Path, on_read: OnRead | None = None) -> SourceTree:
    """Read the code of a job; `folder` is the job file's, against which its paths are resolved.

    Whoever plans a job twice reads its code once, and hands it on. `on_read` is told how far that is. What
    lies on S3 is left unread.
    """
    return _source_of(job.code, folder, on_read)


def code_of(loaded: LoadedJob, on_read: OnRead | None = None) -> SourceTree | None:
    """`source_of` a loaded job; None where its file has errors that leave open which code it is."""
    return source_of(loaded.spec, loaded.file.parent, on_read) if loaded.spec is not None else None


def _source_of(code: Code, folder: Path, on_read: OnRead | None = None) -> SourceTree:
    # Of a module it is read where it would be; that it may be elsewhere is the rules' matter.
    script = code.entry_point or module_files(code.module or "")[0]
    if code.source_dir.startswith("s3://"):
        return make_unread_source(code.source_dir, script)
    return read_source(folder / code.source_dir, script, SEARCHED_NAMES, code.requirements_file, on_read)


def _about_readable_source(loaded: LoadedJob, ignore: Sequence[str]) -> tuple[Finding, ...]:
    """What is wrong with the source of a job whose file has errors: nobody should need a second run for it.

    Nothing where the errors are about the code itself.
    """
    document = loaded.document
    if document is None or any((found.path or ())[:1] == ("code",) for found in loaded.findings):
        return ()
    try:
        code = Code.model_validate(document.data.get("code"))
    except ValueError:
        return ()
    found = accept(check_source(ReadableSource(code, _source_of(code, loaded.file.parent))), ignore)
    return tuple(loaded.substitutions.finding(each.located(loaded.location)) for each in found)


def script_command_line(job: JobSpec, source: SourceTree) -> CommandLine:
    """What the job's script takes on its command line, by its file; only of what is packed."""
    if not (job.hyperparameters or job.tuning):
        return NOTHING_SEEN
    return read_command_line(script_text(job, source))


def script_text(job: JobSpec, source: SourceTree) -> bytes:
    """The text of the script that is started, cut where it is longer than MOST_BYTES; empty where unread."""
    name = _packed_script(job, source)
    if name is None:
        return b""
    try:
        return source.read(name, MOST_SCRIPT_BYTES + 1)
    except SourceError:
        return b""


def note_on_cluster(message: str, remedy: str) -> Finding:
    """An information on where the manifest of the job's cluster comes from, or does not."""
    return job_file.INVALID_VALUE.at(("cluster",), message, remedy=remedy, severity=Severity.INFO)


def _known_cluster(reference: str, folder: Path) -> tuple[Cluster | None, list[Finding]]:
    """What this machine knows of a cluster, and what is to be said of that."""
    if is_path(reference):
        try:
            return load_manifest(folder / reference), []
        except ManifestError as error:
            raise Refusal(
                f"{error}.", "Give the manifest that `cdk deploy` wrote, or the cluster's name."
            ) from error
    try:
        cluster = cached_manifest(reference)
    except ManifestError as error:
        note = note_on_cluster(
            f"what this machine kept of the cluster {reference} is left aside: {error}; the plan shows "
            "placeholders",
            "A submission reads the cluster from AWS and replaces the file.",
        )
        return None, [note]
    if cluster is not None:
        return cluster, []
    note = note_on_cluster(
        f"the cluster {reference} was not read from AWS on this machine yet; the plan shows placeholders",
        "A submission reads it; until then the ids in the request are not the real ones.",
    )
    return None, [note]


def variables_of(allow_env: Sequence[str] | None) -> Variables:
    """What a job file may have of this process' environment, by the names that `--allow-env` gave.

    Raises Refusal for a name that is none.
    """
    for name in allow_env or ():
        if not is_variable_name(name):
            raise Refusal(
                f"--allow-env {name} does not name an environment variable.",
                "Give the option once for each variable, with its name: --allow-env TEAM.",
            )
    return Variables(os.environ, allowed_variables(os.environ, allow_env))


def _overrides(source: JobSource) -> Mapping[str, str]:
    overrides: dict[str, str] = {}
    for text in source.overrides:
        path, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{text!r} has no =")
        overrides[path.strip()] = value
    if source.cluster is not None:
        overrides["cluster"] = source.cluster
    return overrides


# The lint of a job's script together with the job: what `launch check` and `launch lint --job` do.


def lint_with_job(
    loaded: LoadedJob,
    plan: TrainingPlan,
    scripts: Sequence[Path],
    selection: Selection,
    *,
    changed: Mapping[str, bytes] = NO_CHANGED_FILES,
) -> Lint:
    """Judge scripts, or the job's own where none is given, with a planned job; its `ignore` counts, too.

    `changed` holds bytes that are taken for those of files, by their real paths. Raises Refusal where the job
    file has errors of its own, or its script is not one that can be read here.
    """
    job = plan.spec or loaded.spec
    if job is None:
        first = next((f": {each.message}" for each in plan.findings if each.blocks), "")
        raise Refusal(
            f"{loaded.file} has errors, so that the script cannot be judged with it{first}.",
            f"See `launch check {loaded.file}`.",
        )
    root = loaded.file.parent / job.code.source_dir
    cache = FileCache(changed)
    if scripts:
        programs = [read_program(each, root, cache, import_folders(job) or ()) for each in scripts]
    else:
        own = _own_program(job, root, cache)
        if own is None and root.is_dir():
            started = _started_by_shell(job, plan, source_of(job, loaded.file.parent), cache)
            if started:
                together = Selection(selection.select, (*selection.ignore, *job.ignore))
                return lint_subjects([each.judged for each in started], together)
        if own is None:
            raise Refusal(
                f"the code of {loaded.file} is no Python script in a folder here.",
                "Give the scripts to judge.",
            )
        programs = [own]
    together = Selection(selection.select, (*selection.ignore, *job.ignore))
    return lint_subjects([_judgeable(each, job, plan) for each in programs], together)


def _judgeable(program: Program | Unread, job: JobSpec, plan: TrainingPlan) -> ScriptSubject | Unread:
    return program if isinstance(program, Unread) else ScriptSubject(program, with_folders(job), plan)


def _program_of(job: JobSpec, source: SourceTree, cache: FileCache) -> Program | Unread | None:
    """The program of a job; None of a shell script or archive, which are not read."""
    name = None if source.is_packed else _packed_script(job, source)
    return None if name is None else _script(job, source.folder, name, cache)


def _packed_script(job: JobSpec, source: SourceTree) -> str | None:
    """The name of the job's script among the files that are packed; None where it is none of them."""
    packed = {file.name for file in source.files}
    names = _files_of_module(job) if job.code.module else (source.entry_point_name,)
    return next((each for each in names if each in packed), None)


def _files_of_module(job: JobSpec) -> tuple[str, ...]:
    return module_files(job.code.module or "", import_folders(job) or ())


@frozen
class _StartedProgram:
    """A program that the job's shell script starts in this line, and what is judged: with the job that would
    start it so, or alone where a run would tell how it is started."""

    judged: Program | ScriptSubject | Unread
    line: int

    @property
    def program(self) -> Program | Unread:
        """The program itself."""
        return self.judged.program if isinstance(self.judged, ScriptSubject) else self.judged


def _on_started_programs(
    subject: JobSubject, started: Sequence[_StartedProgram], told: Collection[str]
) -> tuple[Finding, ...]:
    """What is found of the programs that the job's shell script starts, without what is told of that script
    already. What a field of a job file would cause stands at the script's line."""
    shell = subject.source.entry_point_name
    found: dict[tuple[object, ...], Finding] = {}
    for each in started:
        for finding in lint_subjects([each.judged]).findings:
            placed = finding if finding.location else in_shell_script(subject, finding, each.line)
            found.setdefault((placed.code, placed.location, placed.message), placed)
    return tuple(
        each
        for each in found.values()
        if each.code not in told or each.location is None or not each.location.file.endswith(shell)
    )


def _started_by_shell(
    job: JobSpec, plan: TrainingPlan, source: SourceTree, cache: FileCache
) -> list[_StartedProgram]:
    """The programs that a job's shell script starts; none where there are several and a run alone would tell
    with which words."""
    subject = ReadableSource(job.code, source)
    facts, jobs = instance_facts(job.resources.instance_type), started_by_words(subject, job)
    names = {each.program for each in jobs}
    found: list[_StartedProgram] = []
    for each in jobs:
        own = job_of_start(job, each, 1 if facts is None else max(1, facts.accelerators))
        program = None if each.program is None else _script(job, source.folder, each.program, cache)
        if isinstance(program, Program) and own is not None:
            processes = own.distribution.processes_per_host
            ranks = replace(plan, processes_per_host=processes, world_size=processes)
            found.append(_StartedProgram(ScriptSubject(program, with_folders(own), ranks), each.line))
        elif program is not None and len(names) == 1:
            return [_StartedProgram(program, each.line)]
    return found


def _own_program(job: JobSpec, root: Path, cache: FileCache) -> Program | Unread | None:
    names = (job.code.entry_point,) if job.code.entry_point else _files_of_module(job)
    found = (_script(job, root, each, cache) for each in names) if root.is_dir() else ()
    return next((each for each in found if each is not None), None)


def _script(job: JobSpec, root: Path, name: str, cache: FileCache) -> Program | Unread | None:
    entry = root / name
    if entry.suffix != ".py" or not entry.is_file():
        return None
    # As the user names it, which is how the file is given in other findings.
    root = relative_to_working_folder(root)
    return read_program(root / name, root, cache, import_folders(job) or ())


# A plan beside another: an earlier job's request, or the same job without Training Compiler.


_MOST_BYTES = 10_000_000
"""Of a file with a request; what a dry run prints has some ten thousand."""


def earlier_request(reference: str, clients: Clients, region: str | None) -> Request:
    """The request in a file (a dry run's output, or the request alone), or of a job by its name.

    Raises Refusal for a file that holds none, AwsRefusal where AWS knows no such job.
    """
    if not file_mode(Path(reference)):
        from launcher.aws.lookups import fetch_request

        return fetch_request(clients("sagemaker", region), reference)
    try:
        content = json.loads(read_regular(Path(reference), _MOST_BYTES))
        request = content.get("request", content)
        if isinstance(request, dict) and RequestView(request).name:
            return request
    except (OSError, ValueError, AttributeError, RecursionError):
        pass
    raise Refusal(
        f"{reference} holds no request of a training job.",
        "Give what `launch JOB.yaml --dry-run --output json` printed, or the name of a job.",
    )


def prepare_with_and_without_compiler(
    loaded: LoadedJob,
    *,
    session_region: str | None,
    source: SourceTree | None,
    ignore: Sequence[str] = (),
) -> tuple[TrainingPlan, ...]:
    """The plan of a job with Training Compiler and that of the same job without; `source` is their code.

    There is one only where the file is broken. Raises Refusal for a job without the compiler.
    """
    if loaded.spec is None:
        return (prepare(loaded, session_region=session_region, ignore=ignore),)
    compiled = prepare(loaded, session_region=session_region, ignore=ignore, source=source)
    # Of the job as planned: a version that was chosen for the compiler is the native one's, too.
    native = replace(loaded, spec=native_counterpart(compiled.spec or loaded.spec))
    return (compiled, prepare(native, session_region=session_region, ignore=ignore, source=source))


# What of the findings is mended in the source.


def add_requirements(findings: Sequence[Finding]) -> dict[Path, list[str]]:
    """Add the packages that findings on a job miss to its requirements files; says what was added to which.

    A file that is not there yet is made. Raises Refusal where one has changed since it was judged, is there
    and left out of what is packed, or cannot be written.
    """
    added: dict[Path, list[str]] = {}
    for finding in findings:
        if finding.stage is Stage.SPEC and finding.fix is not None and not finding.ignored:
            for edit in finding.fix.edits:
                added.setdefault(Path(edit.file), []).append(edit.text.strip())
    ends = {Path(edit.file): edit.end for each in findings if each.fix for edit in each.fix.edits}
    for file, lines in added.items():
        before = file.read_bytes() if file.exists() else b""
        if len(before.decode("utf-8-sig", "replace")) != ends[file]:
            raise Refusal(
                f"{file} is not as it was judged: it has changed, or is left out of what is packed.",
                "Look at it, and check the job again.",
            )
        joint = b"" if before[-1:] in (b"", b"\n") else b"\n"
        write_whole(file, before + joint + "".join(f"{line}\n" for line in lines).encode())
    return added
