"""The options that every command on a job file has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from launcher.cli.output import OutputFormat

JobFile = Annotated[Path, Parameter(help="The job file.")]
ClusterOption = Annotated[
    str | None, Parameter(name="--cluster", help="Cluster to use instead of the job file's.")
]
SetOption = Annotated[
    list[str] | None,
    Parameter(name="--set", negative="", help="Change a field: --set resources.instance_count=4"),
]
IgnoreOption = Annotated[
    list[str] | None, Parameter(name="--ignore", negative="", help="Accept the findings of a code.")
]
OutputOption = Annotated[OutputFormat, Parameter(name="--output", help="What stdout gets.")]
