"""`launch plan`: the resolved plan and the request."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from launcher.cli.job_options import (
    ClusterOption,
    IgnoreOption,
    JobFile,
    OutputOption,
    SetOption,
    plan_offline,
)
from launcher.cli.output import OutputFormat, console, print_json

if TYPE_CHECKING:
    from launcher.planning.training_plan import TrainingPlan


def plan(
    job_file: JobFile,
    /,
    *,
    cluster: ClusterOption = None,
    set_: SetOption = None,
    ignore: IgnoreOption = None,
    diff: Annotated[
        str | None, Parameter(help="Compare with an earlier request: a dry run's file, or a job's name.")
    ] = None,
    pair: Annotated[
        bool, Parameter(negative="", help="The job with and without Training Compiler, equal in all else.")
    ] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Show what a job file becomes: hosts and processes, image, paths, settings, and the request."""
    if pair:
        return _show_pair(job_file, cluster, set_, ignore, output)
    made = plan_offline(job_file, cluster, set_, ignore)
    if diff is None or made.request is None:
        show_plan(made, output)
    else:
        _show_difference(made, diff, output)
    return 1 if made.refused else 0


def _show_pair(
    job_file: Path,
    cluster: str | None,
    overrides: list[str] | None,
    ignore: list[str] | None,
    output: OutputFormat,
) -> int:
    from launcher.aws.session import session_region
    from launcher.session.comparison import prepare_pair
    from launcher.session.preparation import JobSource, read_job

    loaded = read_job(JobSource(job_file, cluster, overrides or ()))
    plans = prepare_pair(loaded, session_region=session_region(), ignore=ignore or ())
    if output is OutputFormat.JSON:
        print_json({"pair": [plan_json(each) for each in plans]})
    else:
        for each in plans:
            show_plan(each, output)
    return 1 if any(each.refused for each in plans) else 0


def _show_difference(plan: TrainingPlan, reference: str, output: OutputFormat) -> None:
    from launcher.planning.request_diff import request_diff
    from launcher.session.comparison import earlier_request

    lines = request_diff(earlier_request(reference, plan.region), plan.request or {})
    if output is OutputFormat.JSON:
        print_json({**plan_json(plan), "diff": lines})
        return
    from rich.text import Text

    from launcher.cli.findings_view import show_findings

    screen = console()
    show_findings(screen, plan.findings)
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in lines or ["no difference"]:
        screen.print(Text(line, styles.get(line[:1], "")), soft_wrap=True)


def plan_json(plan: TrainingPlan) -> dict[str, Any]:
    """The plan in the shape that `plan` and `--dry-run` print."""
    return {
        "job": plan.job,
        "request": plan.request,
        "findings": [finding.to_json() for finding in plan.findings],
    }


def show_plan(plan: TrainingPlan, output: OutputFormat) -> None:
    """Print a plan as JSON, or as a summary with the request below it."""
    if output is OutputFormat.JSON:
        print_json(plan_json(plan))
        return
    from rich.syntax import Syntax

    from launcher.cli.findings_view import show_findings, summary_of
    from launcher.cli.output import as_json

    terminal = console()
    show_findings(terminal, plan.findings)
    if plan.request is None:
        terminal.print(f"No request: {summary_of(plan.findings)}.")
        return
    show_summary(plan)
    show_settings(plan)
    terminal.print(f"\n[bold]{plan.operation} request[/bold]")
    terminal.print(Syntax(as_json(plan.request), "json", background_color="default", word_wrap=True))


def show_settings(plan: TrainingPlan) -> None:
    """Print what the plan sets in the environment, each with its reason."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(overflow="fold")
    grid.add_column(style="dim", overflow="fold")
    chosen = (plan.training or {}).get("Environment", {})
    for setting in plan.settings:
        if setting.overridden_by:
            yours = f"{setting.overridden_by}={chosen[setting.overridden_by]}"
            grid.add_row(yours, f"yours; without it {setting.name}={setting.value}: {setting.reason}")
        else:
            grid.add_row(f"{setting.name}={setting.value}", setting.reason)
    console().print("\n[bold]Settings[/bold]")
    console().print(grid)


def show_summary(plan: TrainingPlan, *, places: bool = True) -> None:
    """Print the lines that tell a person what will run, and with `places` where on AWS and at what cost."""
    from launcher.planning.cost import cost_in_words

    request, training = plan.request, plan.training
    if request is None or training is None:
        return
    hosts = training["ResourceConfig"]
    processes = plan.job["distribution"]["processes_per_host"]
    strategy = plan.job["distribution"]["strategy"]
    rows = {
        "job": str(plan.name),
        "hosts": f"{hosts['InstanceCount']} × {hosts['InstanceType']}",
        "processes": f"{processes} per host, world size {plan.world_size}, {strategy}",
        **_search(request),
        "limits": _limits(training),
    }
    if places:
        rows |= {
            "cost": cost_in_words(request, plan.region),
            "image": training["AlgorithmSpecification"]["TrainingImage"],
            "channels": "\n".join(map(_channel, training.get("InputDataConfig", []))) or "none",
            "checkpoints": training.get("CheckpointConfig", {}).get("S3Uri", "none"),
            "output": training["OutputDataConfig"]["S3OutputPath"],
        }
    _print_rows(rows)


def _search(request: dict[str, Any]) -> dict[str, str]:
    """What a search over hyperparameters does; nothing for a single job."""
    config = request.get("HyperParameterTuningJobConfig")
    if config is None:
        return {}
    objective, limits = config["HyperParameterTuningJobObjective"], config["ResourceLimits"]
    ranges = [each for kind in config["ParameterRanges"].values() for each in kind]
    jobs = limits.get("MaxNumberOfTrainingJobs", "all combinations")
    return {
        "tuning": f"{config['Strategy']}, {objective['Type'].lower()} {objective['MetricName']}",
        "ranges": "\n".join(map(_range, ranges)),
        "jobs": f"{jobs}, {limits['MaxParallelTrainingJobs']} at a time",
    }


def _range(searched: dict[str, Any]) -> str:
    if "Values" in searched:
        return f"{searched['Name']}: {', '.join(searched['Values'])}"
    scale = "" if searched["ScalingType"] == "Auto" else f", {searched['ScalingType'].lower()}"
    return f"{searched['Name']}: {searched['MinValue']} to {searched['MaxValue']}{scale}"


def _limits(training: dict[str, Any]) -> str:
    from launcher.text.durations import exact_duration

    condition = training["StoppingCondition"]
    limits = [f"{exact_duration(condition['MaxRuntimeInSeconds'])} of running"]
    if "MaxWaitTimeInSeconds" in condition:
        limits.append(f"{exact_duration(condition['MaxWaitTimeInSeconds'])} with the waiting for spot")
    retries = training.get("RetryStrategy", {}).get("MaximumRetryAttempts", 0)
    limits.append("no retries" if not retries else f"{retries} {'retry' if retries == 1 else 'retries'}")
    return ", ".join(limits)


def _channel(channel: dict[str, Any]) -> str:
    """One channel of the request: its name, what it reads and how."""
    source, name = channel["DataSource"], channel["ChannelName"]
    if "FileSystemDataSource" in source:
        lustre = source["FileSystemDataSource"]
        return (
            f"{name}: {lustre['FileSystemId']}:{lustre['DirectoryPath']} ({lustre['FileSystemAccessMode']})"
        )
    objects = source["S3DataSource"]
    return (
        f"{name}: {objects['S3Uri']} "
        f"({channel.get('InputMode', 'File')}, {objects['S3DataDistributionType']})"
    )


def _print_rows(rows: dict[str, str]) -> None:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    for name, value in rows.items():
        # Text: a value of the user's may look like Rich's markup.
        grid.add_row(name, Text(str(value)))
    console().print(grid)
