"""The options that every command on a job file has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from launcher.cli.output import OutputFormat

if TYPE_CHECKING:
    from launcher.jobs.load import LoadedJob
    from launcher.planning.training_plan import TrainingPlan

JobFile = Annotated[Path, Parameter(help="The job file.")]
ClusterOption = Annotated[
    str | None, Parameter(name="--cluster", help="Cluster to use instead of the job file's.")
]
SetOption = Annotated[
    list[str] | None,
    Parameter(name="--set", negative="", help="Change a field: --set resources.instance_count=4"),
]
RunIdOption = Annotated[
    str | None,
    Parameter(
        help="The run that this launch belongs to: the same job in the same run is launched once, from "
        'whatever machine. In CI its own run by default; "" for none.'
    ),
]
AllowEnvOption = Annotated[
    list[str] | None,
    Parameter(
        name="--allow-env",
        negative="",
        help="A variable that ${NAME} may stand for, and no others. Without it all; in CI none.",
    ),
]
IgnoreOption = Annotated[
    list[str] | None, Parameter(name="--ignore", negative="", help="Accept the findings of a code.")
]
OutputOption = Annotated[OutputFormat, Parameter(name="--output", help="What stdout gets.")]


def read(
    job_file: Path,
    cluster: str | None,
    overrides: Sequence[str] | None,
    allow_env: Sequence[str] | None,
) -> LoadedJob:
    """The job file with what the options change."""
    from launcher.session.preparation import JobSource, read_job

    return read_job(JobSource(job_file, cluster, overrides or (), allow_env))


def plan_offline(loaded: LoadedJob, ignore: Sequence[str] | None, *, here: bool = False) -> TrainingPlan:
    """The judged plan of a job, made without a call to AWS; `here` says that it is to run on this machine."""
    from launcher.aws.session import session_region
    from launcher.cli.source_view import read_code
    from launcher.session.preparation import prepare

    code = read_code(loaded)
    return prepare(loaded, session_region=session_region(), ignore=ignore or (), source=code, here=here)
