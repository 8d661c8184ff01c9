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
    from launcher.account.aws import session_region
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
    terminal.print("\n[bold]CreateTrainingJob request[/bold]")
    terminal.print(Syntax(as_json(plan.request), "json", background_color="default", word_wrap=True))


def show_settings(plan: TrainingPlan) -> None:
    """Print what the plan sets in the environment, each with its reason."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(overflow="fold")
    grid.add_column(style="dim", overflow="fold")
    chosen = plan.request["Environment"] if plan.request else {}
    for setting in plan.settings:
        if setting.overridden_by:
            yours = f"{setting.overridden_by}={chosen[setting.overridden_by]}"
            grid.add_row(yours, f"yours; without it {setting.name}={setting.value}: {setting.reason}")
        else:
            grid.add_row(f"{setting.name}={setting.value}", setting.reason)
    console().print("\n[bold]Settings[/bold]")
    console().print(grid)


def show_summary(plan: TrainingPlan, *, places: bool = True) -> None:
    """Print the few lines that tell a person what will run, and with `places` where on AWS."""
    from rich.table import Table

    request = plan.request
    if request is None:
        return
    hosts = request["ResourceConfig"]["InstanceCount"]
    processes = plan.job["distribution"]["processes_per_host"]
    strategy = plan.job["distribution"]["strategy"]
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    rows = {
        "job": request["TrainingJobName"],
        "hosts": f"{hosts} × {request['ResourceConfig']['InstanceType']}",
        "processes": f"{processes} per host, world size {plan.world_size}, {strategy}",
    }
    if places:
        rows |= {
            "image": request["AlgorithmSpecification"]["TrainingImage"],
            "checkpoints": request.get("CheckpointConfig", {}).get("S3Uri", "none"),
            "output": request["OutputDataConfig"]["S3OutputPath"],
        }
    for name, value in rows.items():
        grid.add_row(name, str(value))
    console().print(grid)
