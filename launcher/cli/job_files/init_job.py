"""`launch init`: a job file of a training script, with what could not be read as questions in it.

On a terminal a few of the questions are asked at once. The job file that is made is checked as
`launch check` does it.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from launcher.cli.interaction import (
    ClusterOption,
    OutputFormat,
    OutputOption,
    console,
    message,
    print_json,
)
from launcher.failure_modes.model import Refusal

if TYPE_CHECKING:
    from launcher.drafts.job_draft import JobDraft
    from launcher.drafts.script_draft import GivenByUser, ScriptSource
    from launcher.planning.training_plan import TrainingPlan
    from launcher.program.program import FileCache
    from launcher.source.tree import SourceTree

_DEFAULT_FILE = Path("job.yaml")


def init(
    script: Annotated[Path, Parameter(help="The training script, or its folder.")],
    /,
    *,
    instance_type: Annotated[str | None, Parameter(help="The hosts' type, such as ml.p5.48xlarge.")] = None,
    count: Annotated[int | None, Parameter(help="How many hosts.")] = None,
    cluster: ClusterOption = None,
    file: Annotated[
        Path, Parameter(help="Where the job file is written; never over another.")
    ] = _DEFAULT_FILE,
    yes: Annotated[bool, Parameter(negative="", help="Ask nothing.")] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Write a job file for a training script: what can be read from it, and questions about the rest."""
    from launcher.cli.interaction import is_asking_possible
    from launcher.drafts.job_draft import render_draft
    from launcher.drafts.script_draft import GivenByUser, draft_script
    from launcher.program.program import FileCache, collection_paused
    from launcher.session.drafting.read_script import read_script
    from launcher.session.drafting.write_job_file import check_is_new, write_job_file

    check_is_new(file)
    cache = FileCache()
    found, source = read_script(script, file, cache)
    wanted = GivenByUser(instance_type, count, cluster=cluster)
    if is_asking_possible(yes, output):
        wanted = _ask(found, wanted)
    with collection_paused():
        draft = draft_script(found, wanted)
        text = render_draft(draft)
        plan, following = _planned(file, text, source, cache)
    write_job_file(file, text)
    if output is OutputFormat.JSON:
        print_json(_json(file, draft, plan, following))
    else:
        _show(file, text, draft, plan, following)
    return 0


def _planned(file: Path, text: str, source: SourceTree, cache: FileCache) -> tuple[TrainingPlan, str]:
    """What `launch check` says of the file, and the command that comes next: a run on this machine where
    nothing speaks against that, else the check, after the file was changed.

    Raises Refusal where what the user said cannot stand in it.
    """
    from launcher.aws.session import session_region
    from launcher.session.prepare_plan import JobSource, prepare, read_job

    loaded = read_job(JobSource(file, text=text))
    for each in loaded.findings:
        if each.subject and each.subject.partition(".")[0] in ("resources", "cluster"):
            raise Refusal(f"{each.message}; no job file was written.", each.remedy)
    plan = prepare(loaded, session_region=session_region(), source=source, cache=cache)
    here = plan
    if plan.refused:
        here = prepare(loaded, session_region=session_region(), source=source, cache=cache, here=True)
    words = ["check", str(file)] if here.refused else [str(file), "--local"]
    return plan, shlex.join(["launch", *words])


def _ask(found: ScriptSource, wanted: GivenByUser) -> GivenByUser:
    """Ask for what has not been said: at most three things, each with its default."""
    from dataclasses import replace

    from launcher.drafts.script_draft import default_instance_type

    if wanted.instance_type is None:
        default = default_instance_type(found)
        answer = _answer("Instance type?", default)
        wanted = wanted if answer == default else replace(wanted, instance_type=answer)
    if wanted.instance_count is None:
        answer = _answer("How many hosts?", "1")
        if not answer.isdecimal():
            raise Refusal(f"{answer!r} is no number of hosts; no job file was written.", "Give one, or 1.")
        wanted = replace(wanted, instance_count=int(answer))
    if wanted.cluster is None:
        answer = _answer("Which cluster?", "left open")
        wanted = wanted if answer == "left open" else replace(wanted, cluster=answer)
    return wanted


def _answer(question: str, default: str) -> str:
    """The answer of the terminal, or the default where there is none."""
    try:
        given = console(stderr=True).input(f"{question} [{default}] ", markup=False)
    except (KeyboardInterrupt, EOFError):
        message("")
        given = ""
    return given.strip() or default


def _show(file: Path, text: str, draft: JobDraft, plan: TrainingPlan, following: str) -> None:
    from launcher.cli.plan import show_findings, summary_of

    sys.stdout.flush()
    print(text, end="\n")
    show_findings(console(), [each for each in plan.findings if not each.ignored])
    said = ", ".join(filter(None, (summary_of(plan.findings), draft.open_in_words)))
    message(f"{file} was written: {said}")
    message(f"next: {following}")


def _json(file: Path, draft: JobDraft, plan: TrainingPlan, following: str) -> dict[str, object]:
    return {
        "file": str(file),
        "job": draft.data(),
        "questions": [each.to_json() for each in draft.questions],
        "findings": [each.to_json() for each in plan.findings],
        "next": following,
    }
