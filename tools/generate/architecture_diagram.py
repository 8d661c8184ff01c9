"""Draw docs/architecture.svg from the synthesized app.

    python -m tools.generate.architecture_diagram           write the picture
    python -m tools.generate.architecture_diagram --check   exit 1 when it is not current

It is the picture that `launch cluster show --picture` draws of what is deployed, with the constructs called
by their classes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from launcher.provisioning import picture
from launcher.session.clusters.show_cluster import render
from tools.generate.generated import ROOT, write_or_check
from tools.generate.synthesis import synthesize

PICTURE = ROOT / "docs" / "architecture.svg"
CLUSTER = "p5-large"
"""The cluster that is drawn: the one with every part."""

COMMAND = "python -m tools.generate.architecture_diagram"


def generated() -> dict[Path, str]:
    """What the picture should be now."""
    return {PICTURE: render(graph_of(CLUSTER))}


def graph_of(cluster: str) -> str:
    """The graph of a cluster file, in Graphviz' language."""
    app = synthesize(cluster)
    return picture.graph_of(app.templates, app.titles)


if __name__ == "__main__":
    sys.exit(write_or_check(generated, COMMAND))
