"""`launch report NAME | --log PATH...`: one HTML page that tells a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from launcher.cli.job_options import OutputOption
from launcher.cli.output import EXIT_USAGE, OutputFormat, console, message, print_json

if TYPE_CHECKING:
    from launcher.report.run_report import RunReport


def report(
    *name: Annotated[str, Parameter(help="The job's name, of a local run or on SageMaker.")],
    log: Annotated[
        list[Path] | None,
        # As for `launch diagnose`: what follows the first path comes as `name`.
        Parameter(
            name="--log", negative="", allow_leading_hyphen=True, help="Log files or folders; - is stdin."
        ),
    ] = None,
    file: Annotated[
        Path | None,
        Parameter(help="Where the page goes. Default: NAME-report.html here, log-report.html of log files."),
    ] = None,
    force: Annotated[
        bool, Parameter(negative="", help="Write over a file that is no page of a run.")
    ] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Write one HTML page that tells a run: what happened, the ranks, a timeline, loss, cost and plan.

    It needs no network, neither to be made from log files nor to be read. Exits with 0 where the page was
    written, however the run ended.
    """
    from launcher.session.reporting import check_place, page_file, write_page

    if not log and len(name) != 1:
        message("error: give one job's name, or log files with --log.\nSee `launch report --help`.")
        return EXIT_USAGE
    place = file or page_file(None if log else name[0], Path())
    # Before all lines are read.
    check_place(place, force=force)
    made = _of_logs([*log, *map(Path, name)]) if log else _of_job(name[0])
    write_page(made, place, force=force)
    if output is OutputFormat.JSON:
        print_json({"file": str(place), "name": made.name, "verdict": made.diagnosis.verdict.value})
    else:
        console().print(str(place), markup=False, soft_wrap=True)
    return 0


def _of_logs(paths: list[Path]) -> RunReport:
    from launcher.session.reporting import report_of_logs

    return report_of_logs(paths)


def _of_job(name: str) -> RunReport:
    from launcher.aws.clients import Clients
    from launcher.aws.session import session_region
    from launcher.session.checked import account_check
    from launcher.session.jobs import find_job
    from launcher.session.reporting import report_of_job

    clients = Clients()
    return report_of_job(find_job(name, clients, session_region()), account_check(clients))
