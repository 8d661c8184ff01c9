"""`launch plan`, `launch check` and `launch schema`: the resolved plan, and what speaks against it.

A check is offline; with `--live` it asks the account as well. Other commands show their plans and findings
with what is here.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from launcher.cli.interaction import (
    AllowEnvOption,
    ClusterOption,
    IgnoreOption,
    JobFile,
    OutputFormat,
    OutputOption,
    SetOption,
    console,
    message,
    plan_offline,
    print_json,
    read,
)
from launcher.failure_modes.model import Finding, Location, Severity, Stage
from launcher.text.values import without_credentials

if TYPE_CHECKING:
    from rich.console import Console

    from launcher.backends.local.python import Interpreter
    from launcher.jobs.job_sections import Slurm
    from launcher.jobs.load_job import LoadedJob
    from launcher.planning.request_view import RequestChannel, RequestView, SearchedParameter
    from launcher.planning.training_plan import TrainingPlan


def plan(
    job_file: JobFile,
    /,
    *,
    cluster: ClusterOption = None,
    set_: SetOption = None,
    allow_env: AllowEnvOption = None,
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
    loaded = read(job_file, cluster, set_, allow_env)
    with loaded.substitutions.refusals():
        if pair:
            return _show_pair(loaded, ignore or (), output)
        made = plan_offline(loaded, ignore)
        if diff is None or made.request is None:
            show_plan(made, output)
        else:
            _show_difference(made, diff, output)
    return 1 if made.refused else 0


def _show_pair(loaded: LoadedJob, ignore: Sequence[str], output: OutputFormat) -> int:
    from launcher.aws.session import session_region
    from launcher.cli.interaction import read_code
    from launcher.session.prepare_plan import prepare_with_and_without_compiler

    plans = prepare_with_and_without_compiler(
        loaded, session_region=session_region(), source=read_code(loaded), ignore=ignore
    )
    if output is OutputFormat.JSON:
        print_json({"pair": [plan_json(each) for each in plans]})
    else:
        for each in plans:
            show_plan(each, output)
    return 1 if any(each.refused for each in plans) else 0


def _show_difference(plan: TrainingPlan, reference: str, output: OutputFormat) -> None:
    from launcher.aws.clients import Clients
    from launcher.planning.show_plan import mask_earlier_request, mask_request, request_diff
    from launcher.session.prepare_plan import earlier_request

    earlier = earlier_request(reference, Clients(), plan.region)
    lines = request_diff(mask_earlier_request(plan, earlier), mask_request(plan) or {})
    if output is OutputFormat.JSON:
        print_json({**plan_json(plan), "diff": lines})
        return
    from rich.text import Text

    screen = console()
    show_findings(screen, plan.findings)
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in lines or ["no difference"]:
        screen.print(Text(line, styles.get(line[:1], "")), soft_wrap=True)


def plan_json(plan: TrainingPlan) -> dict[str, Any]:
    """The plan in the shape that `plan` and `--dry-run` print."""
    from launcher.cli.interaction import source_json
    from launcher.planning.show_plan import list_requirements, mask_job, mask_request, mask_text

    source = None if plan.package is None else plan.package.source
    installed = list_requirements(plan)
    return {
        "job": mask_job(plan),
        "request": mask_request(plan),
        "version_choice": plan.version_choice and asdict(plan.version_choice),
        "findings": [finding.to_json() for finding in plan.findings],
        "source": source and source_json(source, lambda text: mask_text(plan, text, ("code",))),
        "requirements": installed.to_json() if installed else None,
        **({} if plan.slurm is None or plan.request is None else {"sbatch": _sbatch(plan)}),
    }


def _sbatch(plan: TrainingPlan) -> str:
    """The script for sbatch, as it is shown."""
    from launcher.backends.slurm.script import script_of
    from launcher.planning.show_plan import mask_text

    return mask_text(plan, script_of(plan))


def show_plan(plan: TrainingPlan, output: OutputFormat) -> None:
    """Print a plan as JSON, or as a summary with the request below it."""
    if output is OutputFormat.JSON:
        print_json(plan_json(plan))
        return
    from rich.syntax import Syntax

    from launcher.cli.interaction import as_json
    from launcher.planning.show_plan import mask_request

    terminal = console()
    show_findings(terminal, plan.findings)
    if plan.request is None:
        terminal.print(f"No request: {summary_of(plan.findings)}.")
        return
    show_summary(plan)
    show_settings(plan)
    if plan.slurm is not None:
        terminal.print("\n[bold]sbatch script[/bold]")
        terminal.print(_sbatch(plan), markup=False, soft_wrap=True)
        return
    terminal.print(f"\n[bold]{plan.operation} request[/bold]")
    terminal.print(Syntax(as_json(mask_request(plan)), "json", background_color="default", word_wrap=True))


def show_settings(plan: TrainingPlan) -> None:
    """Print what the plan sets in the environment, each with its reason."""
    from rich.table import Table
    from rich.text import Text

    from launcher.planning.show_plan import mask_text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(overflow="fold")
    grid.add_column(style="dim", overflow="fold")
    chosen = plan.view.environment if plan.view else {}
    for setting in plan.settings:
        if setting.overridden_by:
            name = setting.overridden_by
            yours = f"{name}={mask_text(plan, chosen[name], ('environment', name))}"
            without = mask_text(plan, f"{setting.name}={setting.value}: {setting.reason}")
            grid.add_row(Text(yours), Text(f"yours; without it {without}"))
        else:
            grid.add_row(
                Text(mask_text(plan, f"{setting.name}={setting.value}")),
                Text(mask_text(plan, setting.reason)),
            )
    console().print("\n[bold]Settings[/bold]")
    console().print(grid)


def show_summary(plan: TrainingPlan, *, python: Interpreter | None = None) -> None:
    """Print the lines that tell what will run, and where: on AWS and at what cost, or here by `python`."""
    from launcher.cli.interaction import source_rows
    from launcher.planning.job_cost import cost_in_words
    from launcher.planning.show_plan import mask_text

    view = plan.view
    if view is None or plan.package is None:
        return
    strategy = plan.job["distribution"]["strategy"]
    rows = {
        "job": str(plan.name),
        "hosts": _hosts(view),
        **_version(plan),
        "processes": f"{plan.processes_per_host} per host, world size {plan.world_size}, {strategy}",
        **_installed(plan),
        **_gate(view, is_chosen="gate" in plan.job),
        **_watchdog(view),
        **_search(view),
        "limits": _limits(view),
        **source_rows(plan.package.source),
    }
    if python is not None:
        rows["python"] = str(python)
    elif plan.slurm is not None:
        rows |= _slurm(plan.slurm, str(plan.name), view)
    else:
        rows |= {
            **_service(view),
            "cost": cost_in_words(view, plan.region),
            "image": str(view.image),
            "channels": "\n".join(map(_channel, view.channels)) or "none",
            "checkpoints": view.checkpoints.prefix or "none",
            "output": str(view.output_uri),
        }
    _print_rows({name: mask_text(plan, text, *_FIELDS.get(name, ())) for name, text in rows.items()})


_FIELDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "hosts": (("resources",),),
    "framework": (("framework",),),
    "processes": (("distribution",),),
    "gate": (("gate",),),
    "watchdog": (("watchdog",),),
    "tuning": (("tuning",),),
    "ranges": (("tuning",),),
    "jobs": (("tuning",),),
    "limits": (("limits",),),
    "code": (("code",),),
    "left out": (("code",),),
    "image": (("image",), ("framework",)),
    "channels": (("inputs",),),
    "checkpoints": (("checkpoint",),),
    "output": (("output",),),
}
"""The fields of the job file that a row of the summary speaks of."""


def _slurm(section: Slurm, name: str, view: RequestView) -> dict[str, str]:
    """What is asked of Slurm, and where the run's files lie."""
    from launcher.backends.slurm.records import prefix_on_s3
    from launcher.backends.slurm.script import python_of, run_folder

    asked = {
        "partition": section.partition or "the default one",
        "account": section.account,
        "qos": section.qos,
        "constraint": section.constraint,
        "without": ", ".join(section.exclude) or None,
    }
    inputs = {f"{channel}: {folder}" for channel, folder in section.inputs.items()}
    return {
        "slurm": ", ".join(f"{what} {value}" for what, value in asked.items() if value),
        "python": f"in the image {section.image}" if section.image else python_of(section),
        "channels": "\n".join(sorted(inputs)) or "none",
        "folder": f"{section.host}:" * bool(section.host) + str(run_folder(section) / name),
        **({"checkpoints": stored} if (stored := prefix_on_s3(view)) is not None else {}),
    }


def _version(plan: TrainingPlan) -> dict[str, str]:
    """The version of the framework that was chosen, and why; nothing where the job file names one."""
    chosen = plan.version_choice
    return {} if chosen is None else {"framework": f"{chosen.framework} {chosen.version} ({chosen.reason})"}


def _installed(plan: TrainingPlan) -> dict[str, str]:
    """What pip installs before the script starts; nothing where that is nothing."""
    from launcher.planning.show_plan import list_requirements

    installed = list_requirements(plan)
    if installed is None:
        return {}
    count = len(installed.packages)
    where = ", ".join([installed.index, *installed.links])
    by = "" if installed.installed_by == "boot" else ", by the toolkit of the image"
    return {"packages": f"{count} of {installed.file}, from {where}{by}"}


def _gate(view: RequestView, *, is_chosen: bool) -> dict[str, str]:
    """What comes of hosts that are not sound, and why; nothing where no boot looks at them."""
    from launcher.planning.request_view import GATE_OPTION

    mode = view.boot_options.get(GATE_OPTION)
    if mode is None:
        return {}
    comes = {
        "on": "a host that is not sound ends the job before the ranks start",
        "warn": "a host that is not sound is told, and the ranks start",
        "off": "nobody looks at the hosts before the ranks start",
    }[mode]
    default = "several hosts wait for each other" if mode == "on" else "one host fails by itself"
    return {"gate": f"{mode}: {comes} ({'yours' if is_chosen else default})"}


def _watchdog(view: RequestView) -> dict[str, str]:
    """After how long without a step the job counts as stalled, and why; nothing where no boot watches it."""
    from launcher.jobs.job_sections import FIRST_STEP_SECONDS, PAUSES, STALL_SECONDS
    from launcher.planning.request_view import FIRST_STEP_OPTION, STALL_OPTION
    from launcher.text.values import exact_duration

    stall = view.boot_options.get(STALL_OPTION)
    if stall is None:
        return {}
    if stall == "off":
        return {"watchdog": "off: nobody looks whether the ranks make steps (yours)"}
    first = int(view.boot_options[FIRST_STEP_OPTION])
    limit = (
        f"{exact_duration(STALL_SECONDS)} without a step, or {PAUSES} times the longest pause so far"
        if stall == "auto"
        else f"{exact_duration(int(stall))} without a step"
    )
    is_default = (stall, first) == ("auto", FIRST_STEP_SECONDS)
    why = "one rank that does not come holds all others" if is_default else "yours"
    return {"watchdog": f"stalled after {limit}; {exact_duration(first)} before the first one ({why})"}


def _hosts(view: RequestView) -> str:
    choice = ": the service takes the first that has capacity" if len(view.instance_types) > 1 else ""
    return f"{view.hosts} × {' or '.join(view.instance_types)}{choice}"


def _service(view: RequestView) -> dict[str, str]:
    """What the service does for the job besides running it; nothing where that is nothing."""
    does = {
        "tests the hosts and their network before the script starts": view.options.checks_hosts,
        "lets a shell into the containers (launch status)": view.options.lets_a_shell_in,
        "isolates the containers: they reach each other and nothing else": view.options.is_isolated,
        "encrypts what the hosts send each other": view.options.encrypts_between_hosts,
        "keeps UltraServers for this job alone": view.options.shares_ultra_servers is False,
        "places hosts on UltraServers that other jobs may share": view.options.shares_ultra_servers is True,
        f"knows the job in {view.options.mlflow_arn}": view.options.mlflow_arn is not None,
    }
    lines = [line for line, on in does.items() if on]
    return {"service": "\n".join(lines)} if lines else {}


def _search(view: RequestView) -> dict[str, str]:
    """What a search over hyperparameters does; nothing for a single job."""
    search = view.search
    if search is None:
        return {}
    jobs = "all combinations" if search.max_jobs is None else search.max_jobs
    return {
        "tuning": f"{search.strategy}, {search.goal.lower()} {search.metric}",
        "ranges": "\n".join(map(_range, search.parameters)),
        "jobs": f"{jobs}, {search.parallel} at a time",
    }


def _range(searched: SearchedParameter) -> str:
    if searched.values:
        return f"{searched.name}: {', '.join(searched.values)}"
    scale = "" if searched.scaling == "Auto" else f", {searched.scaling.lower()}"
    return f"{searched.name}: {searched.minimum} to {searched.maximum}{scale}"


def _limits(view: RequestView) -> str:
    from launcher.planning.request_view import RESTARTS_OPTION
    from launcher.text.values import exact_duration

    paid = " (limits.max_usd pays no longer)" if view.is_cut_by_budget and view.search is None else ""
    limits = [f"{exact_duration(view.max_runtime_seconds)} of running{paid}"]
    if view.max_wait_seconds is not None:
        limits.append(f"{exact_duration(view.max_wait_seconds)} with the waiting for spot")
    retries = view.max_retries
    limits.append("no retries" if not retries else f"{retries} {'retry' if retries == 1 else 'retries'}")
    restarts = int(view.boot_options.get(RESTARTS_OPTION) or 0)
    if restarts:
        limits.append(f"{restarts} {'restart' if restarts == 1 else 'restarts'} of the ranks within the job")
    return ", ".join(limits)


def _channel(channel: RequestChannel) -> str:
    """One channel of the request: its name, what it reads and how."""
    from launcher.planning.request_view import S3Channel

    if isinstance(channel, S3Channel):
        return f"{channel.name}: {channel.uri} ({channel.mode}, {channel.distribution})"
    return f"{channel.name}: {channel.file_system_id}:{channel.directory} ({channel.access})"


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


# `launch check`: judge a job file and its plan, offline; with `--live` the account as well.


def check(
    job_file: JobFile,
    /,
    *,
    live: Annotated[
        bool, Parameter(negative="", help="Look into the AWS account, too; changes nothing.")
    ] = False,
    fix: Annotated[
        bool,
        Parameter(
            negative="",
            help="Add missing packages to requirements.txt; with --live also missing security group rules "
            "(asks for each group).",
        ),
    ] = False,
    yes: Annotated[bool, Parameter(negative="", help="With --fix: add the rules without asking.")] = False,
    cluster: ClusterOption = None,
    set_: SetOption = None,
    allow_env: AllowEnvOption = None,
    ignore: IgnoreOption = None,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Judge a job file and its plan. Exits with 1 where there are errors.

    Without --live it calls nothing: a named cluster comes from what was last read of it on this machine.
    """

    loaded = read(job_file, cluster, set_, allow_env)
    with loaded.substitutions.refusals():
        if fix:
            _add_requirements(plan_offline(loaded, ignore), told=not live)
        plan = _plan_live(loaded, ignore or (), fix=fix, yes=yes) if live else plan_offline(loaded, ignore)
    if output is OutputFormat.JSON:
        print_json({"findings": [finding.to_json() for finding in plan.findings]})
    else:
        terminal = console()
        show_findings(terminal, plan.findings)
        terminal.print(f"{job_file}: {summary_of(plan.findings)}")
    return 1 if plan.refused else 0


def _add_requirements(plan: TrainingPlan, *, told: bool) -> None:
    """Add what the script imports and nothing installs; `told` says so where there is nothing to add."""
    from launcher.session.prepare_plan import add_requirements

    added = add_requirements(plan.findings)
    for file, lines in added.items():
        message(f"{file}: added {', '.join(lines)}")
    if told and not added:
        message("--fix: no package is known to be missing")


def _plan_live(loaded: LoadedJob, ignore: Sequence[str], *, fix: bool, yes: bool) -> TrainingPlan:
    from launcher.aws.clients import Clients
    from launcher.aws.session import session_region
    from launcher.cli.interaction import LiveView, offer_repairs, read_code
    from launcher.session.account_checks import gather_subject, judge_subject, rules_to_add
    from launcher.session.launch_job import plan_with_cluster

    if loaded.spec is not None and loaded.spec.backend == "slurm":
        from launcher.session.slurm.launch_run import SlurmLaunch

        return SlurmLaunch(loaded, session_region(), ignore, source=read_code(loaded)).plan()
    clients = Clients()
    code = read_code(loaded)
    plan = plan_with_cluster(loaded, clients, session_region=session_region(), ignore=ignore, source=code)
    if plan.request is None or (plan.refused and plan.placeholders):
        message("AWS was not looked at: fix the findings of the job file first")
        return plan
    with LiveView() as view:
        subject = gather_subject(plan, loaded, clients, on_answer=view.progress)
    if subject is None:
        return plan
    if fix and offer_repairs(rules_to_add(subject, ignore), subject.account.region, clients, yes=yes):
        with LiveView() as view:
            subject = gather_subject(plan, loaded, clients, on_answer=view.progress) or subject
    return judge_subject(plan, subject, loaded, ignore)


def schema() -> int:
    """Print the JSON schema of job files."""
    from launcher.jobs.specification import job_schema

    print_json(job_schema())
    return 0


# Findings on a terminal, as all commands show them.


EXCERPT_WIDTH = 72
_PRIVATE_FIELDS = re.compile(r"\b(environment|hyperparameters|arguments|secrets)\b")
STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}


def show_findings(console: Console, findings: Sequence[Finding]) -> None:
    """Print the findings, the worst first: what, where, and what to do.

    Informations on a script are for `launch lint --verbose`: most public scripts have some.
    """
    from rich.table import Table
    from rich.text import Text

    from launcher.planning.training_plan import join_placeholders

    order = list(Severity)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    told = [each for each in findings if (each.stage, each.severity) != (Stage.SCRIPT, Severity.INFO)]
    for finding in sorted(
        join_placeholders(told), key=lambda finding: (finding.ignored, order.index(finding.severity))
    ):
        style = "dim" if finding.ignored else STYLES[finding.severity]
        body = Text(finding.message)
        if finding.location is not None:
            body.append(f"\nat {finding.location}", "dim")
            body.append(_excerpt(finding.location), "dim")
        for each in finding.related:
            body.append(f"\n{each.message}: {each.location}", "dim")
        if not finding.ignored:
            body.append(f"\n→ {finding.remedy}")
        label = "ignored" if finding.ignored else finding.severity.value
        grid.add_row(Text(label, style), finding.code, body)
    console.print(grid)


def line_of(location: Location) -> str:
    """The line of a place, as the file is now; empty where it cannot be read.

    Only what is read to be judged is read to be shown: linecache would wait for a pipe, take a file of any
    size, and fail with a codec that gives no text.
    """
    from launcher.program.program import MOST_BYTES

    file = Path(location.file)
    try:
        readable = file.is_file() and file.stat().st_size <= MOST_BYTES
        linecache.checkcache(location.file)
        return linecache.getline(location.file, location.line) if readable else ""
    except (OSError, ValueError, LookupError):
        return ""


def _excerpt(location: Location) -> str:
    """The line of the file with a caret below the place, or nothing where there is no such line.

    Long lines are cut around the place; tabs count as one column, as in the location. Lines that may
    hold a secret are not shown, and credentials in addresses are hidden.
    """
    line = line_of(location).rstrip("\n").replace("\t", " ")
    if not line.strip() or _may_hold_secret(location):
        return ""
    before = without_credentials(line[: location.column - 1])
    shown = before + without_credentials(line[location.column - 1 :])
    start = max(0, len(before) - EXCERPT_WIDTH // 2)
    return f"\n  {shown[start : start + EXCERPT_WIDTH]}\n  {' ' * (len(before) - start)}^"


def _may_hold_secret(location: Location) -> bool:
    """Whether the line belongs to a field whose values are not for the terminal."""
    for number in range(location.line, 0, -1):
        line = linecache.getline(location.file, number)
        if _PRIVATE_FIELDS.search(line):
            return True
        if line[:1].strip() and not line.startswith("#"):
            return False  # The top-level key that the line belongs to.
    return False


def summary_of(findings: Sequence[Finding]) -> str:
    """Such as `2 errors, 1 warning`."""
    counted = [finding for finding in findings if not finding.ignored]
    parts = []
    for severity, word in ((Severity.ERROR, "error"), (Severity.WARNING, "warning")):
        number = sum(finding.severity is severity for finding in counted)
        if number:
            parts.append(f"{number} {word}{'s' if number > 1 else ''}")
    return ", ".join(parts) or "no errors"
