"""All rules on a job, in the order in which their findings are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from launcher.failure_modes.model import Finding
from launcher.rules.spec.instance_type import known_instance_type
from launcher.rules.spec.limits import checkpoint_way_is_built, max_wait_needs_spot
from launcher.rules.spec.processes import one_process_per_accelerator
from launcher.rules.spec.source import entry_point_is_there
from launcher.rules.spec.subject import JobSubject

RULES: tuple[Callable[[JobSubject], Iterator[Finding]], ...] = (
    known_instance_type,
    one_process_per_accelerator,
    entry_point_is_there,
    max_wait_needs_spot,
    checkpoint_way_is_built,
)


def check_job(subject: JobSubject) -> list[Finding]:
    """What every rule finds."""
    return [finding for rule in RULES for finding in rule(subject)]
