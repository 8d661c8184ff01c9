"""`launch diagnose NAME | --log PATH...`: why a job failed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from launcher.cli.job_options import OutputOption
from launcher.cli.output import OutputFormat, console, message, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from launcher.diagnosis.model import Diagnosis

EXIT_USAGE = 2

_ADVICE = {
    "never": "as it is, it would fail again",
    "same": "the same job may well succeed",
    "other-hosts": "a new job gets other hosts; the same warm pool does not",
    "later": "submit it again in a while",
}


def diagnose(
    *name: Annotated[str, Parameter(help="The job's name, of a local run or on SageMaker.")],
    log: Annotated[
        list[Path] | None,
        # What follows the first path comes as `name`: the option alone may take `-`, but only one value.
        Parameter(
            name="--log", negative="", allow_leading_hyphen=True, help="Log files or folders; - is stdin."
        ),
    ] = None,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Say why a job failed: the root cause, what followed from it, and whether to run it again.

    Exits with 1 where a root cause was found or the job failed, with 0 where all is well.
    """
    if not log and len(name) != 1:
        message("error: give one job's name, or log files with --log.\nSee `launch diagnose --help`.")
        return EXIT_USAGE
    diagnosis, failed = _of_logs([*log, *map(Path, name)]) if log else _of_job(name[0])
    if output is OutputFormat.JSON:
        print_json(diagnosis.to_json())
    else:
        _show(console(), diagnosis, failed)
    return 1 if diagnosis.root_cause or failed else 0


def _of_logs(paths: list[Path]) -> tuple[Diagnosis, bool]:
    from launcher.diagnosis.diagnose import diagnose as diagnose_lines
    from launcher.session.log_files import records_of

    return diagnose_lines(records_of(paths)), False


def _of_job(name: str) -> tuple[Diagnosis, bool]:
    from launcher.account.aws import session_region
    from launcher.backends.interface import JobState
    from launcher.session.diagnosis import diagnose_job
    from launcher.session.jobs import find_job

    found = find_job(name, session_region())
    return diagnose_job(found.backend, found.name), found.status.state is JobState.FAILED


def _show(terminal: Console, diagnosis: Diagnosis, failed: bool) -> None:
    from rich.padding import Padding
    from rich.text import Text

    cause = diagnosis.root_cause
    if cause is None:
        told = "The job failed, but nothing in its logs is known" if failed else "No failure found"
        terminal.print(Text(f"{told}.", "bold yellow" if failed else "bold green"))
    else:
        finding = cause.finding
        terminal.print(Text.assemble((finding.code, "bold red"), "  ", (finding.message, "bold")))
        for line in cause.evidence:
            terminal.print(Padding(Text(f"│ {line}", "dim", overflow="ellipsis", no_wrap=True), (0, 0, 0, 2)))
        terminal.print(Text(f"→ {finding.remedy}"))
        terminal.print(Text(f"→ Retry {diagnosis.retry.value}: {_ADVICE[diagnosis.retry.value]}."))
    followed = {id(finding) for finding in diagnosis.consequences}
    for finding in diagnosis.findings[1 if cause else 0 :]:
        label = "followed" if id(finding) in followed else "also"
        terminal.print(
            Text(f"{label}  {finding.code}  {finding.message}", "dim", overflow="ellipsis", no_wrap=True)
        )
    if cause is not None:
        terminal.print(Text(f"launch explain {cause.finding.code}", "cyan"))
