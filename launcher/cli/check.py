"""`launch check`: judge a job file and its plan, offline."""

from __future__ import annotations

from launcher.cli.job_options import (
    ClusterOption,
    IgnoreOption,
    JobFile,
    OutputOption,
    SetOption,
    plan_offline,
)
from launcher.cli.output import OutputFormat, console, print_json


def check(
    job_file: JobFile,
    /,
    *,
    cluster: ClusterOption = None,
    set_: SetOption = None,
    ignore: IgnoreOption = None,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Judge a job file and its plan. Exits with 1 where there are errors.

    Calls nothing: a named cluster comes from what was last read of it on this machine.
    """
    from launcher.cli.findings_view import show_findings, summary_of

    plan = plan_offline(job_file, cluster, set_, ignore)
    if output is OutputFormat.JSON:
        print_json({"findings": [finding.to_json() for finding in plan.findings]})
    else:
        terminal = console()
        show_findings(terminal, plan.findings)
        terminal.print(f"{job_file}: {summary_of(plan.findings)}")
    return 1 if plan.refused else 0
