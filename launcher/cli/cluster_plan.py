"""`launch cluster plan NAME`: what `cdk deploy` would do to a cluster, before it does."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from launcher.cli.job_options import OutputOption
from launcher.cli.output import OutputFormat, console, message, print_json


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
    from launcher.session.clusters.plan import plan_update, to_json

    found = plan_update(name, Clients(brisk=True), replace_data=replace_data, tell=message)
    if output is OutputFormat.JSON:
        print_json(to_json(found))
    else:
        from launcher.cli.cluster_plan_view import show_plan

        show_plan(console(), found)
    return 1 if found.obstacles else 0
