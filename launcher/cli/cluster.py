"""`launch cluster`: what people who deploy do with a cluster. One file for each of its commands."""

from __future__ import annotations

from cyclopts import App

cluster = App(
    name="cluster",
    help="See what would be done to a cluster, look at it, or take it away.",
    help_format="plaintext",
    result_action="return_value",
)
cluster.command("launcher.cli.cluster_plan:plan", name="plan", help="Show what `cdk deploy` would do.")
cluster.command("launcher.cli.cluster_show:show", name="show", help="Show what there is of a cluster.")
cluster.command("launcher.cli.cluster_destroy:destroy", name="destroy", help="Take a cluster away.")
