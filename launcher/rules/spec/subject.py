"""What the rules on a job judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from launcher.cluster.instances import InstanceFacts
from launcher.failure_modes.model import Location
from launcher.jobs.source import SourceTree
from launcher.jobs.specification import JobSpec


@dataclass(frozen=True, slots=True)
class JobSubject:
    """A job with the facts about it; `facts` is None for an unknown instance type.

    `locate("resources", "instance_type")` says where a field stands in the job file.
    """

    job: JobSpec
    facts: InstanceFacts | None
    source: SourceTree
    locate: Callable[..., Location | None]
