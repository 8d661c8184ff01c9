"""`launch cluster destroy NAME`: show what goes, ask for the name, and take the cluster away."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from launcher.cli.cluster_options import ClusterName, region_of
from launcher.cli.job_options import OutputOption
from launcher.cli.output import OutputFormat, console, message, print_json
from launcher.failure_modes.refusal import Refusal

if TYPE_CHECKING:
    from launcher.session.clusters.destroy import Aftermath
    from launcher.session.clusters.survey import Survey


def destroy(
    name: ClusterName,
    /,
    *,
    confirm: Annotated[
        str | None, Parameter(help="The cluster's name once more: destroy it without asking.")
    ] = None,
    dry_run: Annotated[bool, Parameter(negative="", help="Only show what would go and what stays.")] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Take a cluster away, after showing what goes, what is kept and what that frees. Exit code 1 where jobs
    of it run, where a stack of it is being changed, or where something is left over that it cannot delete."""
    from launcher.aws.clients import Clients
    from launcher.cli.cluster_destroy_view import as_table, destroyed_json, tell_aftermath
    from launcher.session.clusters import destroy as end
    from launcher.session.clusters.survey import survey_cluster

    if confirm is not None and confirm != name:
        raise Refusal(
            f"--confirm {confirm} is not the name of the cluster, {name}; nothing was done.",
            f"Give --confirm {name}, if that is the one to destroy.",
        )
    region, clients, tell = region_of(name), Clients(), _Steps()
    survey = survey_cluster(name, clients, region, tell.counted)
    is_text = output is OutputFormat.TEXT
    if is_text:
        console().print(as_table(survey))
    if (obstacle := _obstacle(survey)) is not None:
        message(obstacle)
    aftermath: Aftermath | None = None
    if obstacle is None and not dry_run:
        if survey.stacks:
            _ask(name, confirm)
            try:
                aftermath = end.destroy(survey, clients, tell=tell)
            except KeyboardInterrupt:
                message(f"interrupted; run it again and it goes on: launch cluster destroy {name}")
                raise
        else:
            aftermath = end.look_after(survey, clients, tell)
    if is_text and aftermath is not None:
        tell_aftermath(console(), survey, aftermath)
    elif not is_text:
        print_json(destroyed_json(survey, aftermath, obstacle))
    is_unclean = aftermath is not None and (aftermath.left_over or aftermath.unseen)
    return 1 if obstacle is not None or is_unclean else 0


class _Steps:
    """Messages on stderr, none twice in a row."""

    def __init__(self) -> None:
        self._last = ""
        self._told = 0

    def __call__(self, text: str) -> None:
        if text != self._last:
            self._last = text
            message(text)

    def counted(self, number: int) -> None:
        """How many objects were counted so far."""
        if number - self._told >= 100_000:
            self._told = number
            self(f"counted {number:,} versions so far")


def _obstacle(survey: Survey) -> str | None:
    """What must end first, in words; None where nothing stands in the way."""
    if survey.jobs:
        names = "\n".join(f"  {each.name} ({each.place})" for each in survey.jobs)
        return (
            f"not destroyed: jobs of the cluster have not ended:\n{names}\n"
            "  → Wait for their end, or stop each with: launch stop JOB"
        )
    if survey.busy:
        names = ", ".join(f"{each.name} ({each.status})" for each in survey.busy)
        return f"not destroyed: something else is being done to it: {names}\n  → Wait for its end."
    return None


def _ask(name: str, confirm: str | None) -> None:
    if confirm == name:
        return
    if not sys.stdin.isatty():
        raise Refusal(
            f"there is no terminal to ask on whether {name} is to be destroyed; nothing was done.",
            f"Give --confirm {name}, or --dry-run to see only.",
        )
    print(f"Type the cluster's name ({name}) to destroy it: ", end="", file=sys.stderr, flush=True)
    try:
        typed = sys.stdin.readline().strip()
    except KeyboardInterrupt:
        message("\nnothing was done")
        raise
    if typed != name:
        raise Refusal(
            f"{typed!r} is not {name}; nothing was done.", "Run it again, and type the name as it is shown."
        )
