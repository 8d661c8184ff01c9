"""Write docs/reference/cluster-file.md from the models of the cluster file.

    python -m tools.generate.cluster_file_page           write the page
    python -m tools.generate.cluster_file_page --check   exit 1 when it is not current

The fields come from launcher/cluster/, everything else from tools/generate/pages/cluster-file.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

from launcher.cluster.specification import ClusterSpec
from launcher.cluster.updates import POLICIES
from tools.generate.generated import ROOT, write_or_check
from tools.generate.page_text import filled_in
from tools.generate.schema_tables import fields_of

PAGE = ROOT / "docs" / "reference" / "cluster-file.md"
COMMAND = "python -m tools.generate.cluster_file_page"


def generated() -> dict[Path, str]:
    """What the page should hold now."""
    # The page's headings have no mark for the items of a list, and NAME for those of a mapping.
    policies = {path.replace("[]", "").replace("{}", ".NAME"): row.words for path, row in POLICIES.items()}
    fields = fields_of(ClusterSpec.model_json_schema(), policies)
    return {PAGE: filled_in(PAGE, COMMAND, "launcher/cluster/", {"fields": fields})}


if __name__ == "__main__":
    sys.exit(write_or_check(generated, COMMAND))
