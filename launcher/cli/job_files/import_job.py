"""`launch import`: a job file of a training job, of a program of the SageMaker SDK, or of a batch script."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from launcher.cli.interaction import OutputFormat, OutputOption, SetOption, console, message, print_json

if TYPE_CHECKING:
    from launcher.session.drafting.import_job import ImportedJob

_PRINTED = "-"


def import_job(
    source: Annotated[
        str,
        Parameter(
            help="A training job's name; or a file: a description as JSON, a program or notebook that uses "
            "the SageMaker SDK, a batch script of Slurm."
        ),
    ],
    /,
    *,
    file: Annotated[
        str | None,
        Parameter(
            allow_leading_hyphen=True,
            help="The job file to write, never over another; - prints it. Default: NAME.yaml here.",
        ),
    ] = None,
    line: Annotated[
        str | None,
        Parameter(help='Which job, where the source has several: its line, in a notebook "cell N line M".'),
    ] = None,
    set_: SetOption = None,
    region: Annotated[str | None, Parameter(help="Where the training job is.")] = None,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Make a job file of what you have, and say what that gets wrong. Nothing is run."""
    from launcher.aws.clients import Clients
    from launcher.aws.session import session_region
    from launcher.session.drafting import import_job as drafting
    from launcher.session.drafting.write_job_file import write_job_file

    place = Path(file).parent if file not in (None, _PRINTED) else Path()
    imported = drafting.import_job(
        source, Clients(), region or session_region(), line=line, folder=place, answers=set_ or ()
    )
    target = Path(file) if file is not None else Path(f"{imported.draft.data()['name']}.yaml")
    if file != _PRINTED:
        write_job_file(target, imported.text)
    if output is OutputFormat.JSON:
        print_json(_json(None if file == _PRINTED else target, imported))
    else:
        _show(None if file == _PRINTED else target, imported)
    return 0


def _show(file: Path | None, imported: ImportedJob) -> None:
    from launcher.cli.plan import show_findings, summary_of

    if file is None:
        print(imported.text, end="")
    screen = console(stderr=file is None)
    show_findings(screen, imported.findings)
    for each in imported.draft.questions:
        message(f"open: {'.'.join(each.path)}: {each.sentence.removeprefix('TODO').lstrip(': ')}")
    said = ", ".join(filter(None, (summary_of(imported.findings), imported.draft.open_in_words)))
    if file is not None:
        message(f"{file} was written: {said}")
        message(f"next: launch check {file}")


def _json(file: Path | None, imported: ImportedJob) -> dict[str, Any]:
    return {
        "file": None if file is None else str(file),
        "job": imported.draft.data(),
        "text": imported.text,
        "questions": [
            {**each.to_json(), "cell": each.line and each.line.cell} for each in imported.draft.questions
        ],
        "findings": [each.to_json() for each in imported.findings],
    }
