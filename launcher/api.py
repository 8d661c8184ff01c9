"""The launcher for people in notebooks, and for programs: plan, check and launch a job file.

`plan`, `check` and `launch` give a job file as a plan, as findings, as a job. `Job` is the handle of a
launched job: how it is, what it prints, how it ends, and the only way to the SageMaker SDK, which nothing
else here imports. A notebook shows it as a card, on which all text is escaped; while something takes long,
lines on stderr say how far it is. What is public is what `launcher` itself names.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Any

from launcher.account.facts import FileSystem
from launcher.aws.bounded_calls import LOOK_SECONDS, bounded
from launcher.aws.clients import Clients
from launcher.aws.session import session_region
from launcher.backends.interface import Backend, JobState, JobStatus, LogLine, Progress
from launcher.backends.local.backend import LocalBackend
from launcher.backends.local.python import interpreter_at, this_machine
from launcher.diagnosis.logs.lines import redacted
from launcher.diagnosis.model import Diagnosis
from launcher.failure_modes.model import Finding, Refusal
from launcher.jobs.load_job import LoadedJob
from launcher.planning.job_cost import cost_in_words
from launcher.planning.show_plan import mask_request, mask_text
from launcher.planning.training_plan import Operation, TrainingPlan, join_placeholders
from launcher.session.account_checks import account_check, check_live
from launcher.session.launch_job import Launch, plan_with_cluster
from launcher.session.local_runs import check_machine, make_local_home, override_processes
from launcher.session.prepare_plan import JobSource, code_of, prepare, read_job, variables_of
from launcher.session.runs.diagnose_job import Check, Outcome, diagnose_job, outcome_of
from launcher.session.runs.follow_job import Interrupted, Notice, Screen, follow, pace_of, show_logs
from launcher.session.runs.read_job_lines import Moving, log_filter
from launcher.session.slurm.launch_run import SlurmLaunch
from launcher.session.submit_job import run_id_of
from launcher.text.values import elapsed_time, size_in_words, without_controls


class LaunchRefusedError(Refusal):
    """The job was not launched; `findings` say why, the errors among them first."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        errors = [finding for finding in findings if finding.blocks]
        reasons = "; ".join(f"{finding.code} {finding.message}" for finding in errors)
        super().__init__(f"the job was not launched: {reasons}.", " ".join(item.remedy for item in errors))


def plan(
    job_file: str | Path,
    *,
    cluster: str | None = None,
    set: Mapping[str, object] | None = None,
    allow_env: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    local: bool = False,
) -> TrainingPlan:
    """The judged plan of a job file, made without a call to AWS.

    `set` maps dotted fields to values, as `--set` does: {"resources.instance_count": 4}; a text is read as
    YAML. `allow_env` names the only variables that `${NAME}` may stand for, as `--allow-env` does; the
    findings say `${NAME}` where a value came from one, `job` and `request` hold the values, as they are sent.
    `ignore` holds codes of findings to accept besides the file's. With `local` the findings are those of a
    run on this machine. Raises Refusal for a file that cannot be opened.
    """
    loaded = read_job(_source(job_file, cluster, set, allow_env))
    with loaded.substitutions.refusals():
        made = _planned(loaded, ignore, local)
        return ShownPlan(**{each.name: getattr(made, each.name) for each in fields(made)})


def check(
    job_file: str | Path,
    *,
    cluster: str | None = None,
    set: Mapping[str, object] | None = None,
    allow_env: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    local: bool = False,
    live: bool = False,
) -> tuple[Finding, ...]:
    """What is to be said against a job file and its plan; a finding that `blocks` is an error.

    With `live` the AWS account is looked at as well, and nothing in it changed; where the file alone is
    refused, and ids of its cluster are missing, the findings are the file's. The other arguments are those of
    `plan`. Raises Refusal as `plan`, and AwsRefusal without usable credentials or where AWS refuses.
    """
    if not live:
        made = plan(job_file, cluster=cluster, set=set, allow_env=allow_env, ignore=ignore, local=local)
        return Findings(made.findings)
    if local:
        raise Refusal("a run on this machine asks nothing of an AWS account.", "Leave out `local` or `live`.")
    loaded, clients, telling = read_job(_source(job_file, cluster, set, allow_env)), Clients(), Telling()
    with loaded.substitutions.refusals():
        code = code_of(loaded, telling.reading)
        made = plan_with_cluster(loaded, clients, session_region=session_region(), ignore=ignore, source=code)
        if made.refused and made.placeholders:
            return Findings(made.findings)
        made = check_live(made, loaded, clients, ignore=ignore, on_answer=telling.progress)
        return Findings(made.findings)


def launch(
    job_file: str | Path,
    *,
    cluster: str | None = None,
    set: Mapping[str, object] | None = None,
    allow_env: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    local: bool = False,
    inputs: Mapping[str, str | Path] | None = None,
    processes: int | None = None,
    python: str | Path | None = None,
    run_id: str | None = None,
    managed: bool = False,
) -> Job:
    """Submit a job file to SageMaker once, without asking, and return a handle of the job at once.

    With `local` the job runs on this machine instead, in the background of this process, which ends it when
    it exits: with `python`, else this process' own where that has torch, else the one that the command line
    would choose. `processes` is how many each host then gets instead of the job's, `inputs` a folder for each
    of its channels. With a `run_id` a second launch of
    the same job in the same run, from whatever machine, returns the first one's; in CI it is that run's own
    by default, and "" is none. Nobody stays to make other attempts (`limits.max_retries`), unless the run is
    `managed`: then the cluster's controller does, and the handle is the first attempt's.

    The other arguments are those of `plan`. Raises LaunchRefusedError with the findings that forbid the
    launch, Refusal for arguments that do not go together, AwsRefusal where AWS refuses.
    """
    if local and run_id:
        raise Refusal("`run_id` is about jobs on AWS.", "Leave it out of a local launch.")
    if local and managed:
        raise Refusal("a controller goes on with jobs on AWS.", "Leave out `managed` or `local`.")
    if inputs and not local:
        raise Refusal(
            "`inputs` gives folders of this machine to a job that runs elsewhere.",
            "Add local=True, or name the channels' data in the job file.",
        )
    if (processes is not None or python is not None) and not local:
        raise Refusal(
            "`processes` and `python` are about runs on this machine.",
            "Add local=True; `framework` and `distribution.processes_per_host` are for AWS.",
        )
    source = _source(job_file, cluster, set, allow_env)
    with _in_words_of_python():
        if processes is not None:
            overrides, ignore = override_processes(processes, source.overrides, ignore)
            source = replace(source, overrides=overrides)
        loaded = read_job(source)
        with loaded.substitutions.refusals():
            if local:
                made = _accepted(_planned(loaded, ignore, local))
                return _launched_here(made, _folders(inputs or {}), python, allow_env)
            if loaded.spec is not None and loaded.spec.backend == "slurm":
                return _launched_on_slurm(loaded, ignore, run_id, allow_env)
            return _launched_on_aws(loaded, ignore, run_id, managed=managed)


_OPTIONS = (
    (r"--set (\S+)=(\d+)", r"set={'\1': \2}"),
    (r"--set (\S+)=(\w+)", r"set={'\1': '\2'}"),
    (r"--input (\S+)=(DIR|FOLDER)", r"inputs={'\1': \2}"),
    (r"--(processes|python) (-?\w+)", r"\1=\2"),
    (r"--(processes|python)\b", r"`\1`"),
    (r"--managed\b", "`managed`"),
    (r"; all of them with --yes", ""),
)
"""Options of the command line, of which refusals speak, and what they are here."""


@contextmanager
def _in_words_of_python() -> Iterator[None]:
    """What is refused names arguments instead of the command line's options."""
    try:
        yield
    except Refusal as refusal:
        for option, argument in _OPTIONS:
            refusal.message = re.sub(option, argument, refusal.message)
            refusal.remedy = re.sub(option, argument, refusal.remedy)
        refusal.args = (f"{refusal.message} {refusal.remedy}",)
        raise


def _planned(loaded: LoadedJob, ignore: Sequence[str], local: bool) -> TrainingPlan:
    code = code_of(loaded, Telling().reading)
    return prepare(loaded, session_region=session_region(), ignore=ignore, source=code, here=local)


def _launched_on_aws(loaded: LoadedJob, ignore: Sequence[str], run_id: str | None, *, managed: bool) -> Job:
    telling = Telling()
    launching = Launch(
        loaded,
        Clients(),
        session_region(),
        ignore,
        run_id=run_id_of(run_id, os.environ),
        display=lambda: telling,
        on_progress=telling.submission,
        source=code_of(loaded, telling.reading),
        managed=managed,
    )
    made = _accepted(launching.plan())
    start = launching.submission(made).start
    started = launching.hand_over(made, start) if managed else start.once(made)
    name, check = started.name, account_check(launching.clients)
    return Job(start.backend, name, made.region, made.operation, check)


def _launched_on_slurm(
    loaded: LoadedJob, ignore: Sequence[str], run_id: str | None, allow_env: Sequence[str] | None
) -> Job:
    telling = Telling()
    launching = SlurmLaunch(
        loaded,
        session_region(),
        ignore,
        run_id=run_id_of(run_id, os.environ),
        on_progress=telling.submission,
        source=code_of(loaded, telling.reading),
        variables=variables_of(allow_env),
    )
    made = _accepted(launching.plan())
    start = launching.submission(made).start
    return Job(start.backend, start.once(made).name)


def _launched_here(
    made: TrainingPlan,
    inputs: Mapping[str, Path],
    python: str | Path | None,
    allow_env: Sequence[str] | None,
) -> Job:
    machine = this_machine(_kernel_python() if python is None else str(python), os.environ)
    found = check_machine(made, machine, inputs)
    for note in found.notes:
        tell(f"here: {note}")
    if found.crowd is not None:
        # A notebook has nobody to ask in the middle of a cell.
        raise Refusal(f"{found.crowd.what}: {found.crowd.consequence}.", found.crowd.remedy)
    backend = LocalBackend(
        make_local_home(), inputs, python=machine.python.path, variables=variables_of(allow_env)
    )
    atexit.register(backend.close)
    return Job(backend, backend.submit(made, Telling().submission))


def _kernel_python() -> str | None:
    """The Python of the notebook itself, where it has torch; None leaves the choice to the machine."""
    return sys.executable if sys.executable and interpreter_at(Path(sys.executable)).torch else None


def _accepted(made: TrainingPlan) -> TrainingPlan:
    """The plan; raises LaunchRefusedError for one that is refused."""
    if made.refused:
        raise LaunchRefusedError(made.findings)
    return made


def _folders(inputs: Mapping[str, str | Path]) -> dict[str, Path]:
    for channel, folder in inputs.items():
        if not Path(folder).is_dir():
            raise Refusal(
                f"`inputs` gives the channel {channel} {folder}, which is no folder.", "Give a folder's path."
            )
    return {channel: Path(folder).resolve() for channel, folder in inputs.items()}


def _source(
    job_file: str | Path,
    cluster: str | None,
    changes: Mapping[str, object] | None,
    allow_env: Sequence[str] | None,
) -> JobSource:
    texts = [f"{field}={_as_yaml(field, value)}" for field, value in (changes or {}).items()]
    return JobSource(Path(job_file), cluster, texts, allow_env)


def _as_yaml(field: str, value: object) -> str:
    """A value as YAML that says the same; a text is YAML already, as on the command line."""
    try:
        return value if isinstance(value, str) else json.dumps(value)
    except TypeError:
        raise Refusal(
            f"`set` gives {field} the value {value!r}, of the type {type(value).__name__}, which a job file "
            "cannot hold.",
            "Give a text, a number, True or False, None, or a list or dictionary of them.",
        ) from None


# A launched job in a program's hands, and what a notebook shows of it.


class Job:
    """A job that was launched, on SageMaker or on this machine. Each method looks at it anew.

    `name` is the job's, `region` where it runs, None on this machine. All methods raise UnknownJob, a
    Refusal, where there is no such job any more, and AwsRefusal where AWS refuses.
    """

    def __init__(
        self,
        backend: Backend,
        name: str,
        region: str | None = None,
        operation: Operation = "CreateTrainingJob",
        check: Check | None = None,
    ) -> None:
        self.name = name
        self.region = region
        self._backend = backend
        self._operation = operation
        self._check = check
        self._ended: Outcome | None = None

    def __repr__(self) -> str:
        place = f"in {self.region}" if self.region else "on this machine"
        return f"<Job {self.name} {place}>"

    def status(self) -> JobStatus:
        """How the job is now: `state`, `phase`, `seconds`, `failure_reason`, where its results are."""
        return self._backend.describe(self.name)

    def logs(
        self,
        *,
        rank: int | None = None,
        host: int | str | None = None,
        grep: str | None = None,
        since: str | None = None,
    ) -> JobLogs:
        """What the job has printed so far, of all hosts in the order of time.

        Only the lines of a global `rank`, of a `host` (2 or "algo-2"), that match the regular expression
        `grep`, or `since` a span or time ("10m", "2026-08-20T11:30Z"); all conditions together. Raises
        Refusal for a rank or a host that the job does not have, and for an expression or a time that is none.
        """
        hosts = () if host is None else (host,)
        chosen = log_filter(self.status(), hosts=hosts, rank=rank, grep=grep, since=since)
        screen = _GatheredLines()
        show_logs(self._backend, self.name, screen, chosen)
        return JobLogs(screen.gathered)

    def wait(self, timeout: float | None = None, *, logs: bool = False) -> Outcome:
        """Wait until the job has ended, telling of its phases on stderr; how it ended, and why it failed.

        With `logs` its lines are printed as they come. `timeout` is in seconds; TimeoutError, and an
        interruption (KeyboardInterrupt), leave the job running.
        """
        if self._ended is not None:
            return self._ended
        pace = pace_of(self._backend)
        if timeout is not None:
            pace = replace(pace, sleep=_sleep_until(time.monotonic() + timeout, self.name, pace.sleep))
        try:
            self._ended = follow(
                self._backend, self.name, _PrintedScreen(lines_too=logs), pace=pace, check=self._check
            )
        except Interrupted:
            tell(f"{self.name} goes on; end it with stop()")
            raise KeyboardInterrupt from None
        return self._ended

    def stop(self) -> None:
        """Ask the job to stop; returns before it has. Nothing happens to one that has ended."""
        if not self.status().state.is_final:
            self._backend.stop(self.name)

    def diagnosis(self) -> Diagnosis:
        """Why the job failed: the root cause, what followed from it, whether to run again.

        Of a running job, what its lines show so far; `root_cause` is None where nothing known was met. One
        that has long been silent is `unknown`.
        """
        return diagnose_job(self._backend, self.name, self._check, time.time())

    def sdk_resource(self) -> Any:
        """The SageMaker SDK's own resource: a TrainingJob, or a HyperParameterTuningJob.

        Raises Refusal for a job on this machine, and where the SDK, the extra `sdk`, is not installed.
        """
        if not self._backend.bills:
            where = "on this machine" if self._backend.runs_here else f"on {self._backend.name}"
            raise Refusal(
                f"{self.name} runs {where}, and the SageMaker SDK knows nothing of it.",
                "Use the other methods of its handle, or launch it on SageMaker.",
            )
        return sdk_resource(self.name, self._operation, self.region)

    def _repr_html_(self) -> str:
        """The job in a notebook: state, name, time, and the cause of a failure."""
        try:
            return card(bounded(LOOK_SECONDS, f"look at {self.name}", self._outcome))
        except Refusal as refusal:
            return card(None, self.name, f"{refusal.message} {refusal.remedy}")

    def _outcome(self) -> Outcome:
        """How the job is, or how it ended, which is read once."""
        if self._ended is not None:
            return self._ended
        outcome = outcome_of(self._backend, self.status(), check=self._check)
        if outcome.status.state.is_final:
            self._ended = outcome
        return outcome


class Findings(tuple[Finding, ...]):
    """What is to be said against a job; printed, and shown in a notebook, one below the other."""

    __slots__ = ()

    def __str__(self) -> str:
        told = [f"{_label(each)} {each.message}\n  → {each.remedy}" for each in join_placeholders(self)]
        return without_controls("\n".join(told) or "nothing is to be said against it")

    def _repr_html_(self) -> str:
        rows = [row for each in join_placeholders(self) for row in _finding_rows(each, _label(each))]
        return _block(*rows or ["nothing is to be said against it"])


def _label(finding: Finding) -> str:
    where = f" at {finding.location}" if finding.location is not None else ""
    return f"{'ignored' if finding.ignored else finding.severity.value} {finding.code}{where}"


class ShownPlan(TrainingPlan):
    """A plan that is printed, and shown in a notebook, as what runs where, and what is found of it."""

    def __repr__(self) -> str:
        return f"<TrainingPlan {self.name}, {len(self.findings)} findings>"

    def __str__(self) -> str:
        rows = [f"{name}: {text}" for name, text in self._rows().items()]
        return without_controls("\n".join([*rows, str(Findings(self.findings))]))

    def _repr_html_(self) -> str:
        rows = [f"<b>{_plain(name)}</b> {_plain(text)}" for name, text in self._rows().items()]
        request = json.dumps(mask_request(self), indent=2, ensure_ascii=False)
        details = f"<details><summary>request</summary>{lines_as_html(request)}</details>"
        return _block(*rows, Findings(self.findings)._repr_html_(), *[details] * (self.request is not None))

    def _rows(self) -> dict[str, str]:
        if self.view is None:
            return {"job": "no request can be made of it"}
        hosts = f"{self.view.hosts} × {' or '.join(self.view.instance_types)}"
        processes = f"{self.processes_per_host} per host, world size {self.world_size}"
        return {
            "job": mask_text(self, str(self.name)),
            "hosts": mask_text(self, hosts, ("resources",)),
            "processes": mask_text(self, processes, ("distribution",)),
            "cost": cost_in_words(self.view, self.region),
            "image": mask_text(self, str(self.view.image), ("image",), ("framework",)),
        }


class JobLogs(tuple[LogLine, ...]):
    """Lines of a job; printed, and shown in a notebook, as a log."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(_shown(line) for line in self)

    def _repr_html_(self) -> str:
        return lines_as_html(str(self))


def _shown(line: LogLine) -> str:
    return f"{line.host} {without_controls(line.text)}".rstrip("\n")


def _sleep_until(deadline: float, name: str, sleep: Callable[[float], None]) -> Callable[[float], None]:
    """A sleep that ends with TimeoutError at the deadline (monotonic)."""

    def bounded_sleep(seconds: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"{name} has not ended in time; it goes on")
        sleep(min(seconds, left))

    return bounded_sleep


class _GatheredLines(Screen):
    """A screen that keeps the lines, and shows nothing."""

    def __init__(self) -> None:
        self.gathered: list[LogLine] = []

    def lines(self, lines: Sequence[LogLine]) -> None:
        """Keep the lines."""
        self.gathered += lines


class _PrintedScreen(Screen):
    """A screen of lines: phases and troubles on stderr, and if wanted what the job prints on stdout."""

    def __init__(self, *, lines_too: bool) -> None:
        self._lines_too = lines_too
        self._phase: str | None = None
        self._in_trouble = False

    def status(self, status: JobStatus) -> None:
        """Tell of a new phase."""
        if status.phase != self._phase:
            self._phase = status.phase
            after = f" after {elapsed_time(status.seconds)}" if status.seconds else ""
            tell(f"[{status.phase}]{after}")

    def lines(self, lines: Sequence[LogLine]) -> None:
        """Print the lines, where they were asked for."""
        if self._lines_too:
            print(JobLogs(lines), flush=True)

    def trouble(self, text: str | None) -> None:
        """Tell why nothing can be seen, once, and when it can again."""
        if (text is not None) != self._in_trouble:
            self._in_trouble = text is not None
            tell(text or "connected again")

    def notice(self, notice: Notice) -> None:
        """Tell that the job stands still, moves again, or comes near its limit."""
        if isinstance(notice, Moving):
            tell(f"{notice.job_name} moves again")
        else:
            tell(f"warning: {notice.message}\n  → {notice.remedy}")


_COLOURS = {JobState.COMPLETED: "#1a7f37", JobState.FAILED: "#cf222e"}
_OTHERS = "#9a6700"


def card(outcome: Outcome | None, name: str = "", trouble: str = "") -> str:
    """The HTML of a job by how it is or ended; of one that cannot be seen, its name and why."""
    if outcome is None:
        return _block(f"<b>{_plain(name)}</b>", _plain(trouble))
    status, cause = outcome.status, outcome.cause
    state = f'<b style="color:{_COLOURS.get(status.state, _OTHERS)}">{_plain(_state(status))}</b>'
    took = f" {elapsed_time(status.seconds)}" if status.seconds is not None else ""
    rows = [f"{state} <code>{_plain(status.name)}</code>{took}"]
    if cause is not None:
        rows += _finding_rows(cause)
    elif status.failure_reason:
        rows.append(_plain(redacted(status.failure_reason)))
    elif status.explanation:
        rows.append(_plain(status.explanation))
    for warning in outcome.warnings or ():
        rows += _finding_rows(warning)
    return _block(*rows)


def lines_as_html(text: str) -> str:
    """Log lines as preformatted text."""
    return f"<pre>{_plain(text)}</pre>"


def _finding_rows(finding: Finding, label: str | None = None) -> tuple[str, str]:
    return (
        f"<b>{_plain(label or finding.code)}</b> {_plain(finding.message)}",
        f"→ {_plain(finding.remedy)}",
    )


def _state(status: JobStatus) -> str:
    return status.state if status.phase == status.state else f"{status.state} ({status.phase})"


def _block(*rows: str) -> str:
    return f"<div>{'<br>'.join(rows)}</div>"


def _plain(text: str) -> str:
    return escape(without_controls(text))


LONG_SECONDS = 2.0
"""After so long without a word people begin to wonder."""

_LINE_EVERY_SECONDS = 10.0


def tell(text: str) -> None:
    """Say it in a line of stderr, which notebooks show below the cell."""
    print(without_controls(text), file=sys.stderr, flush=True)


class Telling:
    """Tells how far a look into the account and a submission are, from the third second on, now and then.

    News, such as the name under which a job was submitted, are told at once.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, tell: Callable[[str], None] = tell
    ) -> None:
        self._clock = clock
        self._tell = tell
        self._next = clock() + LONG_SECONDS

    def __enter__(self) -> Telling:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing was opened."""

    def reading(self, read: int, total: int) -> None:
        """So many bytes of the code have been read."""
        share = 100 * read // total if total else 100
        self._now_and_then(f"reading {size_in_words(total)} of code: {share}%")

    def progress(self, answered: int, asked: int, waiting_for: str) -> None:
        """AWS has given so many of the answers that were asked for."""
        waiting = f", waiting for {waiting_for}" if waiting_for else ""
        self._now_and_then(f"looking at the account: {answered} of {asked} answers{waiting}")

    def waiting(self, file_system: FileSystem, seconds: float) -> None:
        """The file system is still being created, after a wait of so many seconds."""
        self._now_and_then(
            f"{file_system.id} is {file_system.lifecycle}, waiting for AVAILABLE ({seconds / 60:.0f} min)"
        )

    def submission(self, progress: Progress) -> None:
        """A submission has come so far."""
        if not progress.total:
            self._tell(progress.step)
            return
        share = 100 * progress.done // progress.total
        self._now_and_then(f"{progress.step}: {share}% of {size_in_words(progress.total)}")

    def _now_and_then(self, text: str) -> None:
        if self._clock() >= self._next:
            self._next = self._clock() + _LINE_EVERY_SECONDS
            self._tell(text)


def sdk_resource(name: str, operation: Operation, region: str | None) -> Any:
    """The SDK's TrainingJob, or HyperParameterTuningJob, of a job that is there.

    Raises Refusal where version 3 of the SDK cannot be imported, which takes a second where it can.
    """
    try:
        from sagemaker.core.resources import HyperParameterTuningJob, TrainingJob
    except ImportError as error:
        raise Refusal(
            f"the SageMaker SDK, version 3, cannot be imported: {error}. The job {name} is not affected.",
            "Install the package's extra `sdk`, or `sagemaker>=3.27`; all else that the job's handle does "
            "needs no SDK.",
        ) from error
    if operation == "CreateTrainingJob":
        return TrainingJob.get(training_job_name=name, region=region)
    return HyperParameterTuningJob.get(hyper_parameter_tuning_job_name=name, region=region)
