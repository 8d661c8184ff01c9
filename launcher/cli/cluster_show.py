"""`launch cluster show NAME`: what there is of a cluster, with its cost at rest and its picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from launcher.cli.cluster_options import ClusterName, region_of
from launcher.cli.job_options import OutputOption
from launcher.cli.output import OutputFormat, console, message, print_json
from launcher.failure_modes.refusal import Refusal


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
    from launcher.aws.bounded import LOOK_SECONDS, bounded
    from launcher.aws.clients import Clients
    from launcher.cli.cluster_show_view import as_table, shown_json
    from launcher.session.clusters.show import picture_of, show_cluster

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
        console().print(as_table(cluster))
    return 0 if cluster.is_well else 1


def _write_picture(path: Path, graph: str) -> None:
    from launcher.session.clusters.graphviz import render

    svg = render(graph)
    try:
        path.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise Refusal(
            f"the picture could not be written to {path}: {error.strerror}.",
            "Name a file in a folder that is there and that you may write to.",
        ) from error
    message(f"wrote {path}")
