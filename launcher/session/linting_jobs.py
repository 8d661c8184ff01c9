"""The lint of a job's script together with the job: what `launch check` and `launch lint --job` do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from launcher.failure_modes.model import Finding
from launcher.failure_modes.refusal import Refusal
from launcher.jobs.load import LoadedJob
from launcher.jobs.specification import JobSpec
from launcher.planning.training_plan import TrainingPlan
from launcher.rules.script.subject import ScriptSubject
from launcher.scripts.configuration import as_seen_from_here
from launcher.scripts.program import Program, Unread
from launcher.scripts.reading import NOTHING, FileCache, read_program
from launcher.session.linting import Lint, Selection, lint_subjects
from launcher.source.tree import SourceTree


def findings_on_script(job: JobSpec, plan: TrainingPlan, source: SourceTree) -> tuple[Finding, ...]:
    """What is wrong with the script of a job; nothing of a shell script or archive: they are not read."""
    program = _program_of(source)
    if program is None:
        return ()
    return lint_subjects([_judgeable(program, job, plan)]).findings


def lint_with_job(
    loaded: LoadedJob,
    plan: TrainingPlan,
    scripts: Sequence[Path],
    selection: Selection,
    *,
    changed: Mapping[str, bytes] = NOTHING,
) -> Lint:
    """Judge scripts, or the job's own where none is given, with a planned job; its `ignore` counts, too.

    `changed` holds bytes that are taken for those of files, by their real paths. Raises Refusal where the job
    file has errors of its own, or its script is not one that can be read here.
    """
    job = plan.spec or loaded.spec
    if job is None:
        raise Refusal(
            f"{loaded.file} has errors, so that the script cannot be judged with it.",
            f"See `launch check {loaded.file}`.",
        )
    root = loaded.file.parent / job.code.source_dir
    cache = FileCache(changed)
    if scripts:
        programs = [read_program(each, root, cache) for each in scripts]
    else:
        own = _own_program(job, root, cache)
        if own is None:
            raise Refusal(
                f"the code of {loaded.file} is no Python script in a folder here.",
                "Give the scripts to judge.",
            )
        programs = [own]
    together = Selection(selection.select, (*selection.ignore, *job.ignore))
    return lint_subjects([_judgeable(each, job, plan) for each in programs], together)


def _judgeable(program: Program | Unread, job: JobSpec, plan: TrainingPlan) -> ScriptSubject | Unread:
    return program if isinstance(program, Unread) else ScriptSubject(program, job, plan)


def _program_of(source: SourceTree) -> Program | Unread | None:
    if source.is_packed or not source.packs_entry_point:
        return None
    return _script(source.folder, source.entry_point_name, FileCache())


def _own_program(job: JobSpec, root: Path, cache: FileCache) -> Program | Unread | None:
    from launcher.source.modules import module_files

    script = job.code.entry_point or module_files(job.code.module or "")[0]
    return _script(root, script, cache) if root.is_dir() else None


def _script(root: Path, name: str, cache: FileCache) -> Program | Unread | None:
    entry = root / name
    if entry.suffix != ".py" or not entry.is_file():
        return None
    # As the user names it, which is how the file is given in other findings.
    root = as_seen_from_here(root)
    return read_program(root / name, root, cache)
