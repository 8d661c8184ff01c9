"""`launch diagnose NAME | --log PATH...`: why a job failed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from launcher.cli.job_options import OutputOption
from launcher.cli.output import EXIT_USAGE, OutputFormat, console, message, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from launcher.diagnosis.model import Diagnosis


def diagnose(
    *name: Annotated[str, Parameter(help="The job's name, of a local run or on SageMaker.")],
    log: Annotated[
        list[Path] | None,
        # What follows the first path comes as `name`: the option alone may take `-`, but only one value.
        Parameter(
            name="--log",
            negative="",
            allow_leading_hyphen=True,
            help="Log files, folders or archives, in most formats; - is stdin.",
        ),
    ] = None,
    ranks: Annotated[
        bool, Parameter(name="--ranks", negative="", help="Show what is known of each rank as well.")
    ] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Say why a job failed: the root cause, what followed from it, and whether to run it again.

    Exits with 1 where it failed, or nothing shows that it did not; with 0 where all is well or it was only
    stopped.
    """
    if not log and len(name) != 1:
        message("error: give one job's name, or log files with --log.\nSee `launch diagnose --help`.")
        return EXIT_USAGE
    diagnosis = _of_logs([*log, *map(Path, name)]) if log else _of_job(name[0])
    if output is OutputFormat.JSON:
        print_json(diagnosis.to_json())
    else:
        _show(console(), diagnosis)
        if ranks:
            _show_ranks(console(), diagnosis)
    return 1 if diagnosis.verdict.is_bad else 0


def _of_logs(paths: list[Path]) -> Diagnosis:
    from launcher.diagnosis.diagnose import diagnose as diagnose_lines
    from launcher.session.log_files import logs_in

    files = logs_in(paths)
    for text in files.unread:
        message(f"warning: not read: {text}")
    return diagnose_lines(files.records, streams=files.streams, evidence=files.evidence)


def _of_job(name: str) -> Diagnosis:
    import time

    from launcher.aws.clients import Clients
    from launcher.aws.session import session_region
    from launcher.session.checked import account_check
    from launcher.session.diagnosis import diagnose_job
    from launcher.session.jobs import find_job

    clients = Clients()
    found = find_job(name, clients, session_region())
    return diagnose_job(found.backend, found.name, account_check(clients), time.time())


def _show(terminal: Console, diagnosis: Diagnosis) -> None:
    from rich.text import Text

    from launcher.cli.diagnosis_view import show_cause, show_consequences, show_verdict

    cause = diagnosis.root_cause
    if cause is None:
        show_verdict(terminal, diagnosis)
    show_cause(terminal, diagnosis)
    show_consequences(terminal, diagnosis)
    if cause is not None:
        terminal.print(Text(f"launch explain {cause.finding.code}", "cyan"))


def _show_ranks(terminal: Console, diagnosis: Diagnosis) -> None:
    from launcher.cli.ranks_view import ranks_table

    if diagnosis.ranks:
        terminal.print(ranks_table(diagnosis.ranks))
    else:
        terminal.print("No line tells which rank printed it, so there is no table of ranks.")
