"""`launch ladder JOB.yaml`: from one process to all hosts, a few steps each, up to the first that breaks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from launcher.cli.attendance import attended, confirmed, must_ask, screen_for
from launcher.cli.followed_lines import HIDDEN, followed_lines
from launcher.cli.job_options import (
    AllowEnvOption,
    ClusterOption,
    IgnoreOption,
    JobFile,
    OutputOption,
    SetOption,
)
from launcher.cli.launch import refuse
from launcher.cli.launching import launch_of
from launcher.cli.local_run import backend_here, cleared, folders_of_channels
from launcher.cli.output import EXIT_INTERRUPTED, EXIT_USAGE, OutputFormat
from launcher.failure_modes.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from launcher.backends.interface import Backend
    from launcher.backends.local.machine import Machine
    from launcher.cli.ladder_view import LadderView
    from launcher.experiments.ladder.results import Climbed
    from launcher.session.diagnosis import Check
    from launcher.session.ladder import LadderRequest, ReadyLadder, ReadyRung


def ladder(
    job_file: JobFile,
    /,
    *,
    from_: Annotated[
        str | None,
        Parameter(name="--from", help="The first rung: 1-here, n-here, 1-host, 2-hosts, all-hosts."),
    ] = None,
    up_to: Annotated[str | None, Parameter(help="The last rung; n-here costs nothing.")] = None,
    steps: Annotated[int, Parameter(help="Steps of each rung.")] = 5,
    seconds: Annotated[int, Parameter(help="The longest that the script of a rung may run.")] = 600,
    processes: Annotated[
        int | None,
        Parameter(help="Processes of the rung n-here. Default: the job's, as this machine has room."),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        Parameter(
            name="--input", negative="", help="A channel's folder for rungs here: --input train=./data"
        ),
    ] = None,
    python: Annotated[
        str | None, Parameter(help="The Python that runs the rungs here, as with `launch JOB.yaml --local`.")
    ] = None,
    yes: Annotated[
        bool, Parameter(negative="", help="Go on to rungs that cost money without asking.")
    ] = False,
    cluster: ClusterOption = None,
    set_: SetOption = None,
    allow_env: AllowEnvOption = None,
    ignore: IgnoreOption = None,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Run a job for a few steps with ever more processes and hosts; say where it breaks, and of what."""
    from launcher.aws.session import session_region
    from launcher.backends.local.machine import this_machine
    from launcher.cli.ladder_view import LadderView
    from launcher.cli.source_view import read_code
    from launcher.experiments.ladder.rungs import NAMES
    from launcher.session.ladder import LadderRequest, ready_ladder
    from launcher.session.preparation import JobSource, read_job

    wanted = LadderRequest(
        JobSource(job_file, cluster, set_ or (), allow_env),
        NAMES[0] if from_ is None else from_,
        NAMES[-1] if up_to is None else up_to,
        steps,
        seconds,
        ignore or (),
        folders_of_channels(inputs or ()),
        processes,
    )
    loaded = read_job(wanted.job)
    with loaded.substitutions.refusals():
        machine = this_machine(python, os.environ)
        ready = ready_ladder(wanted, loaded, read_code(loaded), machine, session_region())
        if ready.plan.refused:
            return refuse(ready.plan, output)
        view = LadderView(screen_for(output), wanted, ready)
        view.introduce()
        return _Climber(wanted, ready, machine, view, output, yes=yes).climb()


class _Climber:
    """Climbs rung by rung; `results` are what came of them so far."""

    def __init__(
        self,
        wanted: LadderRequest,
        ready: ReadyLadder,
        machine: Machine,
        view: LadderView,
        output: OutputFormat,
        *,
        yes: bool,
    ) -> None:
        self._wanted, self._ready, self._machine = wanted, ready, machine
        self._view, self._output, self._yes = view, output, yes
        self._results: list[Climbed] = []
        self._code = 0
        self._noted: set[str] = set()

    def climb(self) -> int:
        """Run the rungs until one ends the ladder, and show all; the exit code."""
        from launcher.experiments.ladder.results import Climbed, Result

        for ready in self._ready.rungs:
            if ready.refusal is not None:
                climbed = Climbed(ready.rung, Result.SKIPPED, ready.refusal)
            else:
                self._view.begin(ready)
                try:
                    climbed = self._here(ready) if ready.rung.place == "here" else self._on_aws(ready)
                except Refusal:
                    self._view.table(self._results)
                    raise
            self._results.append(climbed)
            self._view.ended(climbed)
            if climbed.result.ends:
                break
        if any(each.result in (Result.BROKE, Result.UNDECIDED, Result.REFUSED) for each in self._results):
            self._code = 1
        if all(each.result is Result.SKIPPED for each in self._results):
            self._code = 1
        self._view.conclude(self._results, self._output)
        return self._code

    def _here(self, ready: ReadyRung) -> Climbed:
        from contextlib import closing
        from tempfile import TemporaryDirectory

        from launcher.cli.job_view import JobView
        from launcher.cli.submission_view import show_progress
        from launcher.experiments.ladder.results import Climbed, Result
        from launcher.session.plan_notes import note_start
        from launcher.session.run import Interrupted
        from launcher.session.rung_runs import bound_of, climb_here

        with TemporaryDirectory() as empty:
            inputs = self._inputs(ready, empty)
            if not self._cleared(ready, inputs):
                return Climbed(ready.rung, Result.DECLINED, "not started")
            note_start(str(ready.plan.name), ready.plan)
            view = JobView(screen_for(self._output))
            choice = followed_lines(ready.plan.view, None, None, lambda: view.note(HIDDEN))
            backend = backend_here(self._machine, inputs, self._wanted.job.allow_env)
            bound = bound_of(ready, self._wanted.steps, self._wanted.seconds)
            try:
                with view, closing(backend):
                    climbed, outcome = climb_here(ready, backend, view, bound, choice, show_progress)
            except Interrupted as interrupted:
                self._code = interrupted.exit_code
                return Climbed(ready.rung, Result.INTERRUPTED, "", job_name=interrupted.name)
        self._view.show_end(climbed, outcome)
        return climbed

    def _on_aws(self, ready: ReadyRung) -> Climbed:
        from launcher.aws.clients import Clients
        from launcher.experiments.ladder.results import Climbed, Result
        from launcher.session.checked import account_check
        from launcher.session.run_id import run_id_of

        if not self._yes and not must_ask(self._yes, self._output):
            self._code = EXIT_USAGE
            return Climbed(ready.rung, Result.DECLINED, "it costs money, and nobody can be asked: --yes")
        run = run_id_of(None, os.environ)
        launching = launch_of(
            ready.loaded,
            self._wanted.ignore,
            Clients(),
            # The job's own launch in the same run is another job, even where all is alike.
            None if run is None else f"{run}/ladder-{ready.rung.name}",
            source=self._ready.source,
        )
        plan = launching.plan()
        if plan.refused:
            return self._view.refused(ready, plan)
        submission = launching.submission(plan)
        if not self._yes and not confirmed(self._view.question(ready, plan, submission.account)):
            return Climbed(ready.rung, Result.DECLINED, "not submitted")
        check = account_check(launching.clients)
        return self._followed(ready, submission.backend, submission.start.once(plan).name, check)

    def _followed(self, ready: ReadyRung, backend: Backend, name: str, check: Check) -> Climbed:
        from launcher.experiments.ladder.results import Climbed, Result
        from launcher.session.rung_runs import bound_of, climb_on_aws

        bound = bound_of(ready, self._wanted.steps, self._wanted.seconds)
        ended = attended(
            backend,
            self._output,
            partial(followed_lines, ready.plan.view, None, None),
            partial(climb_on_aws, ready, backend, name, bound, check=check),
        )
        if ended is None:
            self._code = EXIT_INTERRUPTED
            return Climbed(ready.rung, Result.INTERRUPTED, "", job_name=name)
        climbed, outcome = ended
        self._view.show_end(climbed, outcome)
        return climbed

    def _inputs(self, ready: ReadyRung, empty: str) -> Mapping[str, Path]:
        """The channels' folders; for made-up data an empty one in place of each that was not given."""
        from pathlib import Path

        given = dict(self._wanted.inputs or {})
        if not ready.rung.synthetic:
            return given
        return {**dict.fromkeys(self._ready.stand_ins, Path(empty)), **given}

    def _cleared(self, ready: ReadyRung, inputs: Mapping[str, Path]) -> bool:
        """Say what this machine lacks, each once, and ask where it would be crowded."""
        from dataclasses import replace

        from launcher.session.preflight import look_before

        try:
            found = look_before(ready.plan, self._machine, inputs)
        except Refusal as refusal:
            remedy = f"{refusal.remedy.rstrip('.')}. Or begin on AWS: --from 1-host."
            raise Refusal(refusal.message, remedy) from refusal
        notes: Sequence[str] = [note for note in found.notes if note not in self._noted]
        self._noted.update(notes)
        return cleared(replace(found, notes=tuple(notes)), self._output, yes=self._yes)
