"""Write docs/reference/job-file.md and docs/job.schema.json from the models of the job file.

    python -m tools.generate.job_file_page           write both files
    python -m tools.generate.job_file_page --check   exit 1 when one of them is not current

The fields come from launcher/jobs/, everything else from tools/generate/pages/job-file.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

from launcher.cli.interaction import as_json
from launcher.jobs.specification import job_schema
from tools.generate.generated import ROOT, write_or_check
from tools.generate.page_text import filled_in
from tools.generate.schema_tables import fields_of

PAGE = ROOT / "docs" / "reference" / "job-file.md"
SCHEMA = ROOT / "docs" / "job.schema.json"
COMMAND = "python -m tools.generate.job_file_page"


def generated() -> dict[Path, str]:
    """What each generated file should hold now."""
    schema = job_schema()
    page = filled_in(PAGE, COMMAND, "launcher/jobs/", {"fields": fields_of(schema)})
    return {PAGE: page, SCHEMA: as_json(schema) + "\n"}


if __name__ == "__main__":
    sys.exit(write_or_check(generated, COMMAND))
