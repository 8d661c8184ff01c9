"""`launch schema`: the job file's JSON schema, for editors and for other programs."""

from __future__ import annotations

from launcher.cli.output import print_json


def schema() -> int:
    """Print the JSON schema of job files."""
    from launcher.jobs.specification import job_schema

    print_json(job_schema())
    return 0
