"""`plan`, `check` and `launch`: a job file as a plan, as findings, as a job."""

from __future__ import annotations

import atexit
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from launcher.api.job import Job, Telling, tell
from launcher.aws.clients import Clients
from launcher.aws.session import session_region
from launcher.backends.local.backend import LocalBackend
from launcher.backends.local.python import interpreter_at, this_machine
from launcher.failure_modes.model import Finding, Severity
from launcher.failure_modes.refusal import Refusal
from launcher.jobs.load_job import LoadedJob
from launcher.planning.training_plan import TrainingPlan
from launcher.session.account_checks import account_check, check_live
from launcher.session.launch_job import Launch, plan_with_cluster
from launcher.session.local_runs import check_machine, make_local_home
from launcher.session.prepare_plan import JobSource, code_of, prepare, read_job, variables_of
from launcher.session.submit_job import run_id_of


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
        return _planned(loaded, ignore, local)


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
        return plan(
            job_file, cluster=cluster, set=set, allow_env=allow_env, ignore=ignore, local=local
        ).findings
    if local:
        raise Refusal("a run on this machine asks nothing of an AWS account.", "Leave out `local` or `live`.")
    loaded, clients, telling = read_job(_source(job_file, cluster, set, allow_env)), Clients(), Telling()
    with loaded.substitutions.refusals():
        code = code_of(loaded, telling.reading)
        made = plan_with_cluster(loaded, clients, session_region=session_region(), ignore=ignore, source=code)
        if made.refused and made.placeholders:
            return made.findings
        return check_live(made, loaded, clients, ignore=ignore, on_answer=telling.progress).findings


def launch(
    job_file: str | Path,
    *,
    cluster: str | None = None,
    set: Mapping[str, object] | None = None,
    allow_env: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    local: bool = False,
    inputs: Mapping[str, str | Path] | None = None,
    run_id: str | None = None,
) -> Job:
    """Submit a job file to SageMaker once, without asking, and return a handle of the job at once.

    With `local` the job runs on this machine instead, in the background of this process, which ends it when
    it exits: with this process' own Python where that has torch, else with the one that the command line
    would choose. `inputs` then gives a folder for each of its channels. With a `run_id` a second launch of
    the same job in the same run, from whatever machine, returns the first one's; in CI it is that run's own
    by default, and "" is none. Nobody stays to make other attempts (`limits.max_retries`): that is the
    command's.

    The other arguments are those of `plan`. Raises LaunchRefusedError with the findings that forbid the
    launch, Refusal for arguments that do not go together, AwsRefusal where AWS refuses.
    """
    if local and run_id:
        raise Refusal("`run_id` is about jobs on AWS.", "Leave it out of a local launch.")
    if inputs and not local:
        raise Refusal(
            "`inputs` gives folders of this machine to a job that runs elsewhere.",
            "Add local=True, or name the channels' data in the job file.",
        )
    loaded = read_job(_source(job_file, cluster, set, allow_env))
    with loaded.substitutions.refusals():
        if local:
            made = _accepted(_planned(loaded, ignore, local))
            return _launched_here(made, _folders(inputs or {}), allow_env)
        return _launched_on_aws(loaded, ignore, run_id)


def _planned(loaded: LoadedJob, ignore: Sequence[str], local: bool) -> TrainingPlan:
    code = code_of(loaded, Telling().reading)
    made = prepare(loaded, session_region=session_region(), ignore=ignore, source=code, here=local)
    if not local:
        return made
    # Informations are about a submission and say nothing of a run here.
    return replace(made, findings=tuple(each for each in made.findings if each.severity is not Severity.INFO))


def _launched_on_aws(loaded: LoadedJob, ignore: Sequence[str], run_id: str | None) -> Job:
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
    )
    made = _accepted(launching.plan())
    start = launching.submission(made).start
    name, check = start.once(made).name, account_check(launching.clients)
    return Job(start.backend, name, made.region, made.operation, check)


def _launched_here(made: TrainingPlan, inputs: Mapping[str, Path], allow_env: Sequence[str] | None) -> Job:
    machine = this_machine(_kernel_python(), os.environ)
    found = check_machine(made, machine, inputs)
    for note in found.notes:
        tell(f"here: {note}")
    if found.crowd is not None:
        # A notebook has nobody to ask in the middle of a cell.
        raise Refusal(
            f"{found.crowd.what}: {found.crowd.consequence}.",
            "Launch fewer of them here: `set={'distribution.processes_per_host': 2, ...}`.",
        )
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
