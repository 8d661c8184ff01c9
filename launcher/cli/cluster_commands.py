"""`launch cluster`: what people who deploy do with a cluster: plan an update, show it, destroy it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from launcher.cli.interaction import OutputFormat, OutputOption, console, message, print_json
from launcher.cluster.names import CLUSTER_NAME
from launcher.failure_modes.model import Figure, Refusal

if TYPE_CHECKING:
    from launcher.session.destroy_cluster import Aftermath, Survey

cluster = App(
    name="cluster",
    help="See what would be done to a cluster, look at it, or take it away.",
    help_format="plaintext",
    result_action="return_value",
)
cluster.command("launcher.cli.cluster_commands:plan", name="plan", help="Show what `cdk deploy` would do.")
cluster.command("launcher.cli.cluster_commands:show", name="show", help="Show what there is of a cluster.")
cluster.command("launcher.cli.cluster_commands:destroy", name="destroy", help="Take a cluster away.")


FIGURES = (Figure("32", "characters of a cluster's name, a bound of our own", None),)

ClusterName = Annotated[str, Parameter(help="The cluster's name.")]


def region_of(name: str) -> str:
    """The region of the AWS configuration, else of the cluster's file, else of its manifest on this machine.

    Raises Refusal where none is known, or where the name is none.
    """
    from launcher.aws.session import session_region
    from launcher.cluster.files import region_in_file
    from launcher.cluster.manifest import cached_manifests

    if not re.fullmatch(CLUSTER_NAME, name):
        raise Refusal(
            f"{name} is not the name of a cluster: lower-case letters, digits and hyphens, at most 32.",
            "Give the name alone, such as p4d for the cluster of clusters/p4d.yaml.",
        )
    met = (each.region for each in cached_manifests() if each.name == name)
    known = session_region() or region_in_file(name) or next(met, None)
    if known is None:
        raise Refusal(f"no AWS region is known to look for the cluster {name} in.", "Set AWS_REGION.")
    return known


def plan(
    name: Annotated[str, Parameter(help="The cluster: a name in clusters/, or the path of its file.")],
    /,
    *,
    replace_data: Annotated[
        bool, Parameter(negative="", help="Accept that data are deleted, or left behind.")
    ] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Show what `cdk deploy` would do to a cluster, and what stands in its way; changes nothing."""
    from launcher.aws.clients import Clients
    from launcher.session.plan_update import plan_update, to_json

    found = plan_update(name, Clients(brisk=True), replace_data=replace_data, tell=message)
    if output is OutputFormat.JSON:
        print_json(to_json(found))
    else:
        from launcher.cli.cluster_view import show_plan

        show_plan(console(), found)
    return 1 if found.obstacles else 0


def show(
    name: ClusterName,
    /,
    *,
    picture: Annotated[
        Path | None, Parameter(help="Write the picture of what is deployed to this file, as SVG.")
    ] = None,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Show what there is of a cluster. Exit code 1 where something is missing or failed."""
    from launcher.aws.bounded_calls import LOOK_SECONDS, bounded
    from launcher.aws.clients import Clients
    from launcher.cli.cluster_view import cluster_table, shown_json
    from launcher.session.show_cluster import picture_of, show_cluster

    region = region_of(name)
    clients = Clients(brisk=True)
    cluster = bounded(
        LOOK_SECONDS, f"look at the cluster {name}", lambda: show_cluster(name, clients, region)
    )
    if picture is not None:
        _write_picture(picture, picture_of(cluster))
    if output is OutputFormat.JSON:
        print_json(shown_json(cluster))
    else:
        console().print(cluster_table(cluster))
    return 0 if cluster.is_well else 1


def _write_picture(path: Path, graph: str) -> None:
    from launcher.session.show_cluster import render

    svg = render(graph)
    try:
        path.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise Refusal(
            f"the picture could not be written to {path}: {error.strerror}.",
            "Name a file in a folder that is there and that you may write to.",
        ) from error
    message(f"wrote {path}")


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
    from launcher.cli.cluster_view import destroyed_json, destruction_table, show_aftermath
    from launcher.session import destroy_cluster as end
    from launcher.session.destroy_cluster import survey_cluster

    if confirm is not None and confirm != name:
        raise Refusal(
            f"--confirm {confirm} is not the name of the cluster, {name}; nothing was done.",
            f"Give --confirm {name}, if that is the one to destroy.",
        )
    region, clients, tell = region_of(name), Clients(), _Steps()
    survey = survey_cluster(name, clients, region, tell.report_count)
    is_text = output is OutputFormat.TEXT
    if is_text:
        console().print(destruction_table(survey))
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
            aftermath = end.collect_leftovers(survey, clients, tell)
    if is_text and aftermath is not None:
        show_aftermath(console(), survey, aftermath)
    elif not is_text:
        print_json(destroyed_json(survey, aftermath, obstacle))
    is_unclean = aftermath is not None and (aftermath.left_over or aftermath.unseen)
    return 1 if obstacle is not None or is_unclean else 0


class _Steps:
    """Messages on stderr, none twice in a row."""

    def __init__(self) -> None:
        self._last = ""
        self._last_reported = 0

    def __call__(self, text: str) -> None:
        if text != self._last:
            self._last = text
            message(text)

    def report_count(self, number: int) -> None:
        """How many objects were counted so far."""
        if number - self._last_reported >= 100_000:
            self._last_reported = number
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
