"""A launch on Slurm: the plan held against the cluster, its submission, and the attempts that follow."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from launcher.backends.interface import OnProgress
from launcher.backends.slurm.backend import SlurmBackend
from launcher.backends.slurm.commands import SlurmCommands
from launcher.backends.slurm.login_node import LoginNode
from launcher.backends.slurm.script import gpus_of, run_folder
from launcher.failure_modes.model import Refusal, accept
from launcher.frozen import frozen
from launcher.rules.live.slurm_rules import AskedNodes, check_nodes
from launcher.session.launch_job import AttemptsDisplay, Submission, run_attempts
from launcher.session.prepare_plan import prepare
from launcher.session.slurm.known_folders import keep_folder
from launcher.session.submit_job import Start

if TYPE_CHECKING:
    from launcher.jobs.job_sections import Slurm
    from launcher.jobs.load_job import LoadedJob, Variables
    from launcher.planning.training_plan import TrainingPlan
    from launcher.session.runs.diagnose_job import Outcome
    from launcher.source.tree import SourceTree


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
        return run_attempts(
            self.loaded,
            plan,
            start,
            replan=self._plan,
            follow=follow,
            pause=time.sleep,
            display=display,
        )

    def _backend(self, plan: TrainingPlan) -> SlurmBackend:
        section = _section(plan)
        home, login = run_folder(section), _login_node(section)
        keep_folder(home, section.host)
        return SlurmBackend(home, self.commands, self.variables, login)

    def _plan(self, loaded: LoadedJob, source: SourceTree | None) -> TrainingPlan:
        plan = prepare(loaded, session_region=self.session_region, ignore=self.ignore, source=source)
        if plan.refused:
            return plan
        submission = self.submission(plan)
        plan = submission.start.named(plan)
        return plan if submission.begun is not None else self._hold_against_cluster(plan, loaded)

    def _hold_against_cluster(self, plan: TrainingPlan, loaded: LoadedJob) -> TrainingPlan:
        section, job = _section(plan), plan.spec
        cluster = (self.commands or SlurmCommands(login=_login_node(section))).cluster()
        asked = AskedNodes(
            section,
            plan.view.hosts or 1 if plan.view else 1,
            gpus_of(section, plan.view.instance_type if plan.view else None),
            plan.view.max_runtime_seconds if plan.view else 0,
            self._backend(plan).is_seen,
        )
        found = accept(check_nodes(asked, cluster), [*(job.ignore if job else ()), *self.ignore])
        located = [loaded.substitutions.finding(each.located(loaded.location)) for each in found]
        return replace(plan, findings=(*plan.findings, *located))


def _login_node(section: Slurm) -> LoginNode | None:
    return LoginNode(section.host) if section.host else None


def _section(plan: TrainingPlan) -> Slurm:
    """What the job file says of Slurm. Raises Refusal for a job that is to run elsewhere."""
    if plan.slurm is None:
        raise Refusal("the job is not for Slurm.", "Add --slurm, or `backend: slurm` to its file.")
    return plan.slurm
