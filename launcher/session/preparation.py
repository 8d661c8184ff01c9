"""From a job file to a judged plan: load it, find its cluster, plan it, check it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from launcher.cluster.instances import instance_facts
from launcher.cluster.manifest import Cluster
from launcher.cluster.manifest_store import ManifestError, cached_manifest, is_path, load_manifest
from launcher.documents.document import read_document
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Severity, accept
from launcher.failure_modes.refusal import Refusal
from launcher.jobs.code import Code
from launcher.jobs.load import LoadedJob, load_job
from launcher.jobs.specification import AS_WRITTEN, JobSpec
from launcher.jobs.variables import Variables, allowed_by, is_name
from launcher.planning.masked import masked
from launcher.planning.naming import unique_part
from launcher.planning.planner import plan_job
from launcher.planning.training_plan import TrainingPlan
from launcher.rules.job.check import check_job, check_source
from launcher.rules.job.subject import TELLING_NAMES, JobSubject, ReadableSource
from launcher.session.linting_jobs import findings_on_script
from launcher.source.archive import OnRead
from launcher.source.arguments import MOST_BYTES, NOTHING_SEEN, CommandLine, command_line_of
from launcher.source.errors import SourceError
from launcher.source.modules import module_files
from launcher.source.tree import SourceTree, read_source, unread_source


@dataclass(frozen=True, slots=True)
class JobSource:
    """What the command line says of a job: its file, what is changed for this run, and what it may read.

    `allow_env` names the only variables of the environment that the file may have; None is all, in CI none.
    """

    file: Path
    cluster: str | None = None
    overrides: Sequence[str] = ()
    allow_env: Sequence[str] | None = None


def read_job(source: JobSource) -> LoadedJob:
    """Load a job file with the command line's changes.

    Raises Refusal where the file cannot be opened, an override makes no sense or an allowed name is none.
    """
    try:
        return load_job(source.file, _overrides(source), variables_of(source.allow_env))
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


def as_written(source: JobSource) -> dict[str, Any]:
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
) -> TrainingPlan:
    """Plan a loaded job and judge it. Calls nothing beyond this machine.

    The cluster comes from the file that the job names, or from the cache. `ignore` holds codes accepted
    besides the file's. `source` is the job's code where it was read already, else it is read now. `here` says
    that it is for a run on this machine.
    Raises Refusal where the manifest that the job names by its path cannot be used.
    """
    cluster: Cluster | None = None
    notes: list[Finding] = []
    if loaded.spec is not None and loaded.spec.cluster is not None:
        cluster, notes = _known_cluster(loaded.spec.cluster, loaded.file.parent)
    return prepare_for(
        loaded, cluster, session_region=session_region, ignore=ignore, source=source, notes=notes, here=here
    )


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
) -> TrainingPlan:
    """`prepare` with a cluster that the caller has read; without one, what it would say stands open.

    `notes` are what is to be said of it besides what the plan and the rules find.
    """
    job = loaded.spec
    if job is None:
        findings = (*loaded.findings, *_about_readable_source(loaded, ignore))
        return TrainingPlan(job={}, region=None, request=None, package=None, findings=findings)
    source = source or source_of(job, loaded.file.parent)
    plan = plan_job(
        job,
        cluster,
        unique=unique or unique_part(),
        source=source,
        session_region=session_region,
        today=today(),
    )
    subject = JobSubject(
        job=plan.spec or job,
        plan=plan,
        facts=instance_facts(job.resources.instance_type),
        source=source,
        cluster=cluster,
        names=source.names,
        command_line=script_command_line(job, source),
        here=here,
    )
    on_script = findings_on_script(plan.spec or job, plan, source)
    found = accept([*check_job(subject), *plan.findings, *on_script, *notes], [*job.ignore, *ignore])
    credentials = masked(replace(plan, findings=found))
    return replace(
        plan,
        findings=tuple(
            credentials.finding(loaded.substitutions.finding(each.located(loaded.location))) for each in found
        ),
        substitutions=loaded.substitutions,
    )


def today() -> date:
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
        return unread_source(code.source_dir, script)
    return read_source(folder / code.source_dir, script, TELLING_NAMES, code.requirements_file, on_read)


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
    return command_line_of(script_text(job, source))


def script_text(job: JobSpec, source: SourceTree) -> bytes:
    """The text of the script that is started, cut where it is longer than MOST_BYTES; empty where unread."""
    wanted = module_files(job.code.module) if job.code.module else (source.entry_point_name,)
    names = [file.name for file in source.files if file.name in wanted]
    if not names:
        return b""
    try:
        return source.read(names[0], MOST_BYTES + 1)
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
        if not is_name(name):
            raise Refusal(
                f"--allow-env {name} does not name an environment variable.",
                "Give the option once for each variable, with its name: --allow-env TEAM.",
            )
    return Variables(os.environ, allowed_by(os.environ, allow_env))


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
