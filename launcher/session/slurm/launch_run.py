"""A launch on Slurm: the plan held against the cluster, its submission, and the attempts that follow."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from launcher.backends.interface import OnProgress
from launcher.backends.slurm.backend import SlurmBackend
from launcher.backends.slurm.commands import SlurmCommands
from launcher.backends.slurm.hyperpod import HyperPodEntry
from launcher.backends.slurm.script import gpus_of, run_folder
from launcher.cluster.manifest import ManifestError, is_path, load_manifest
from launcher.failure_modes.model import Refusal, accept
from launcher.frozen import frozen
from launcher.rules.live.slurm_rules import AskedNodes, check_nodes
from launcher.session.launch_job import AttemptsDisplay, Submission, run_attempts
from launcher.session.prepare_plan import prepare
from launcher.session.slurm.known_folders import keep_folder, login_on
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
    looked_up: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Where one logs in on the HyperPod cluster of a cluster, which AWS is asked once."""

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
        home, host = run_folder(_section(plan)), self._host
        keep_folder(home, host)
        login = login_on(host) if host else None
        return SlurmBackend(home, self.commands, self.variables, login)

    @property
    def _host(self) -> str | None:
        """Where one logs in to submit: the job's host, or the HyperPod cluster of its own; None for here."""
        job = self.loaded.spec
        given = job.slurm.host if job and job.slurm else None
        # What has Slurm's commands is a node of the cluster itself.
        if given or job is None or job.cluster is None or self.commands or shutil.which("sbatch"):
            return given
        if job.cluster not in self.looked_up:
            found = find_hyperpod(job.cluster, self.loaded, self.session_region)
            self.looked_up[job.cluster] = str(found)
        return self.looked_up[job.cluster]

    def _plan(self, loaded: LoadedJob, source: SourceTree | None) -> TrainingPlan:
        plan = prepare(loaded, session_region=self.session_region, ignore=self.ignore, source=source)
        if plan.refused:
            return plan
        submission = self.submission(plan)
        plan = submission.start.named(plan)
        return plan if submission.begun is not None else self._hold_against_cluster(plan, loaded)

    def _hold_against_cluster(self, plan: TrainingPlan, loaded: LoadedJob) -> TrainingPlan:
        section, job = _section(plan), plan.spec
        host = self._host
        cluster = (self.commands or SlurmCommands(login=login_on(host) if host else None)).cluster()
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


def find_hyperpod(cluster: str, loaded: LoadedJob, session_region: str | None) -> HyperPodEntry:
    """Where one logs in on the HyperPod cluster of a cluster, by its manifest, which AWS is asked for.

    Raises Refusal where the cluster has none, AwsRefusal where AWS does not tell.
    """
    if is_path(cluster):
        try:
            manifest = load_manifest(loaded.file.parent / cluster)
        except ManifestError as error:
            raise Refusal(f"{error}.", "Correct `cluster`, or give `slurm.host`.") from error
    else:
        # Here: most launches on Slurm ask nothing of AWS.
        from launcher.aws.clients import Clients
        from launcher.aws.lookups import fetch_manifest

        region = (loaded.spec.region if loaded.spec else None) or session_region
        manifest = fetch_manifest(Clients()("ssm", region), cluster)
    if manifest.hyperpod is None:
        raise Refusal(
            f"there is no sbatch on this machine, `slurm.host` names no login node, and the cluster "
            f"{manifest.name} has no HyperPod cluster to look for one in.",
            "Give `slurm.host`, launch on a login node, or add `hyperpod` to the cluster file and deploy.",
        )
    entry = HyperPodEntry(
        manifest.name,
        manifest.region,
        manifest.hyperpod.cluster_arn.rpartition("/")[2],
        manifest.hyperpod.entry_group,
    )
    if HyperPodEntry.parse(str(entry)) != entry:
        raise Refusal(
            f"the manifest of {manifest.name!r} names its HyperPod cluster as AWS names none: {entry}.",
            "Correct the manifest's file, or deploy the cluster again.",
        )
    return entry


def _section(plan: TrainingPlan) -> Slurm:
    """What the job file says of Slurm. Raises Refusal for a job that is to run elsewhere."""
    if plan.slurm is None:
        raise Refusal("the job is not for Slurm.", "Add --slurm, or `backend: slurm` to its file.")
    return plan.slurm
