"""Draw docs/architecture.svg from the synthesized app.

It is the picture that `launch cluster show --picture` draws of what is deployed, with the constructs called
by their classes.
"""

from __future__ import annotations

from pathlib import Path

from launcher.provisioning import picture
from launcher.session.show_cluster import render
from tools.generate.generated import ROOT
from tools.generate.synthesis import synthesize

PICTURE = ROOT / "docs" / "architecture.svg"
CLUSTER = "p5-large"
"""The cluster that is drawn: the one with every part."""


def generated() -> dict[Path, str]:
    """What the picture should be now."""
    return {PICTURE: render(graph_of(CLUSTER))}


def graph_of(cluster: str) -> str:
    """The graph of a cluster file, in Graphviz' language."""
    app = synthesize(cluster)
    return picture.graph_of(app.templates, app.titles)
