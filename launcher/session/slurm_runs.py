"""Launches on Slurm: where a user's runs are kept, the plan held against the cluster, submission, attempts.

A run lies on the shared folder that its job file names. Which of these folders this user has launched to is
kept on this machine, so that a run can be found by its name alone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.backends.interface import OnProgress
from launcher.backends.slurm.backend import SlurmBackend
from launcher.failure_modes.model import Refusal, accept
from launcher.frozen import frozen
from launcher.text.regular_files import NoteFolder, cache_folder

if TYPE_CHECKING:
    # Most commands look at jobs, and need nothing of what plans one.
    from launcher.backends.slurm.commands import SlurmCommands
    from launcher.jobs.job_sections import Slurm
    from launcher.jobs.load_job import LoadedJob, Variables
    from launcher.planning.training_plan import TrainingPlan
    from launcher.session.launch_job import AttemptsDisplay, Submission
    from launcher.session.runs.diagnose_job import Outcome
    from launcher.session.submit_job import Start
    from launcher.source.tree import SourceTree

_KEPT_SECONDS = 365 * 86_400.0
_NOTES = NoteFolder(lambda: cache_folder() / "slurm", _KEPT_SECONDS)
_FOLDERS, _MOST_FOLDERS = "folders", 100


def known_backends() -> list[SlurmBackend]:
    """A backend for each shared folder that this user has launched to from this machine."""
    return [SlurmBackend(Path(folder)) for folder in _known_folders()]


def keep_folder(home: Path) -> None:
    """Keep a folder of runs for later commands. A machine that can keep nothing goes without."""
    known = _known_folders()
    if str(home) not in known:
        _NOTES.write(_FOLDERS, json.dumps([str(home), *known][:_MOST_FOLDERS]))


def _known_folders() -> list[str]:
    try:
        content = _NOTES.read(_FOLDERS)
    except (OSError, ValueError, RecursionError):
        return []
    if not isinstance(content, list):
        return []
    return [each for each in content if isinstance(each, str) and each.startswith("/")]


@frozen
class SlurmLaunch:
    """One launch on Slurm of a job that was read; the fields are those of `Launch`.

    `variables` are what the values of its secrets are taken from.
    """

    loaded: LoadedJob
    session_region: str | None
    ignore: Sequence[str] = ()
    run_id: str | None = None
    on_progress: OnProgress | None = None
    source: SourceTree | None = None
    variables: Variables | None = None
    commands: SlurmCommands | None = None

    def plan(self) -> TrainingPlan:
        """The plan of the job, judged by its file and by the cluster's partitions and nodes.

        A plan that is refused already, or whose job an earlier launch has started, is not held against them.
        Raises SlurmSilent where Slurm does not answer.
        """
        return self._plan(self.loaded, self.source)

    def submission(self, plan: TrainingPlan) -> Submission:
        """Open the way of a plan. Sends nothing."""
        from launcher.session.launch_job import Submission
        from launcher.session.submit_job import Start

        start = Start(self._backend(plan), self.run_id, on_progress=self.on_progress)
        return Submission("", start, start.begun(plan))

    def run(
        self,
        plan: TrainingPlan,
        start: Start,
        *,
        follow: Callable[[str], Outcome | None],
        display: AttemptsDisplay,
    ) -> Outcome | None:
        """As `Launch.run`."""
        from launcher.session.launch_job import run_attempts

        first = plan.package.source if plan.package else None
        return run_attempts(
            self.loaded,
            plan,
            start,
            replan=lambda loaded: self._plan(loaded, first),
            follow=follow,
            pause=time.sleep,
            display=display,
        )

    def _backend(self, plan: TrainingPlan) -> SlurmBackend:
        from launcher.backends.slurm.script import run_folder

        home = run_folder(_section(plan))
        keep_folder(home)
        return SlurmBackend(home, self.commands, self.variables)

    def _plan(self, loaded: LoadedJob, source: SourceTree | None) -> TrainingPlan:
        from launcher.session.prepare_plan import prepare

        plan = prepare(loaded, session_region=self.session_region, ignore=self.ignore, source=source)
        if plan.refused:
            return plan
        submission = self.submission(plan)
        plan = submission.start.named(plan)
        return plan if submission.begun is not None else self._hold_against_cluster(plan, loaded)

    def _hold_against_cluster(self, plan: TrainingPlan, loaded: LoadedJob) -> TrainingPlan:
        from launcher.backends.slurm.commands import SlurmCommands
        from launcher.backends.slurm.records import is_seen
        from launcher.backends.slurm.script import gpus_of
        from launcher.rules.live.slurm_rules import AskedNodes, check_nodes

        section, job = _section(plan), plan.spec
        cluster = (self.commands or SlurmCommands()).cluster()
        asked = AskedNodes(
            section,
            plan.view.hosts or 1 if plan.view else 1,
            gpus_of(section, plan.view.instance_type if plan.view else None),
            plan.view.max_runtime_seconds if plan.view else 0,
            is_seen(Path(section.shared)),
        )
        found = accept(check_nodes(asked, cluster), [*(job.ignore if job else ()), *self.ignore])
        located = [loaded.substitutions.finding(each.located(loaded.location)) for each in found]
        return replace(plan, findings=(*plan.findings, *located))


def _section(plan: TrainingPlan) -> Slurm:
    """What the job file says of Slurm. Raises Refusal for a job that is to run elsewhere."""
    if plan.slurm is None:
        raise Refusal("the job is not for Slurm.", "Add --slurm, or `backend: slurm` to its file.")
    return plan.slurm
