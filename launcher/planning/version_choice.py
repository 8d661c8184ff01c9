"""Which version of its framework a job takes that names none: the newest patched one that runs it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from launcher.cluster.instances import instance_facts
from launcher.failure_modes.model import Finding, Severity
from launcher.jobs.code import LATEST
from launcher.jobs.specification import JobSpec
from launcher.planning.alternatives import job_on
from launcher.planning.image_choice import choose_image, image_table_of
from launcher.planning.image_software import image_software, is_patched
from launcher.planning.images import image_versions
from launcher.planning.strategies.strategy import LaunchStrategy
from launcher.planning.strategies.support import PYTHON, VERSION, framework_is_started


@dataclass(frozen=True, slots=True)
class VersionChoice:
    """The version that was chosen for a job, in full, and why."""

    framework: str
    version: str
    reason: str


def with_chosen_version(
    job: JobSpec, strategy: LaunchStrategy, region: str, today: date
) -> tuple[JobSpec, VersionChoice | None]:
    """The job with a version of its framework, and what was chosen where it named none.

    The newest that AWS patches and that all of the job's instance types, the region and the strategy can
    run; where none of them is patched, the newest of these. Where none fits at all it is the newest there
    is, and what is found of it says why it does not fit.
    """
    if job.framework is None or job.framework.version != LATEST:
        return job, None
    facts = instance_facts(job.resources.instance_type)
    table = image_table_of(job, facts, strategy)
    versions = image_versions(table)[::-1]
    fitting = [version for version in versions if _fits(_at(job, version), strategy, region)]
    patched = [version for version in fitting if is_patched(table, version, today) is not False]
    version = (patched or fitting or versions)[0]
    if not fitting:
        reason = "the newest there is; none fits"
    elif is_patched(table, version, today) is None:
        reason = "newest that fits"
    else:
        reason = _about_patches(table, version, bool(patched))
    return _at(job, version), VersionChoice(job.framework.name, version, reason)


def _about_patches(table: str, version: str, patched: bool) -> str:
    software = image_software(table, version)
    until = software.patched_until if software else None
    if not patched:
        return "newest that fits; no patches" + (f" since {until}" if until else "")
    return "newest patched that fits; " + (
        f"patches until {until}" if until else "the end of its patches is not known here"
    )


def _fits(job: JobSpec, strategy: LaunchStrategy, region: str) -> bool:
    """Whether nothing about the version keeps the job from running, on any of its instance types."""
    types = [job.resources.instance_type, *job.resources.instance_types]
    return not any(
        finding.severity is Severity.ERROR
        for instance_type in types
        for finding in _about_the_version(job_on(job, instance_type), strategy, region)
    )


def _about_the_version(job: JobSpec, strategy: LaunchStrategy, region: str) -> Iterator[Finding]:
    facts = instance_facts(job.resources.instance_type)
    yield from choose_image(job, facts, strategy, region)[1]
    processes = strategy.processes_per_host(job, facts)
    for finding in (*framework_is_started(job), *strategy.supported(job, facts, processes)):
        if finding.path in (VERSION, PYTHON):
            yield finding


def _at(job: JobSpec, version: str) -> JobSpec:
    framework = None if job.framework is None else job.framework.model_copy(update={"version": version})
    return job.model_copy(update={"framework": framework})
