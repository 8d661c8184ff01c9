"""What a rung changes of its job, in the words of `--set`: the plan of the rung is made as any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launcher.experiments.ladder.rungs import Rung, Where
from launcher.experiments.ladder.script_words import Words, settings_for
from launcher.jobs.specification import JobSpec

BEFORE_THE_SCRIPT_SECONDS = 900
"""On top of a rung's own limit on AWS: image, data and packages come first, and their time counts."""

GRACE_SECONDS = 60
"""The same here, where nothing comes first: who follows the rung ends it, before the limit does."""


def settings_of(
    rung: Rung,
    job: JobSpec,
    processes_per_host: int,
    told: Words,
    seconds: int,
    written: Mapping[str, Any],
) -> list[str]:
    """The settings that make the job the rung's.

    `processes_per_host` is the job's, `told` what the script is told on this rung, `seconds` how long the
    script may run; `written` is the job file's data, in which references to variables stand as they are.

    A rung is not tried again, keeps no warm pool (SageMaker gives one only to as many hosts) and starts from
    the beginning: a job that resumes behind its last step would hold without having run one.
    """
    found = []
    if rung.hosts != job.resources.instance_count:
        found.append(f"resources.instance_count={rung.hosts}")
    if rung.processes_per_host != processes_per_host:
        found.append(f"distribution.processes_per_host={rung.processes_per_host}")
    limit = seconds + (BEFORE_THE_SCRIPT_SECONDS if rung.place is Where.AWS else GRACE_SECONDS)
    if limit < job.limits.max_runtime:
        field = "max_runtime_seconds" if "max_runtime_seconds" in written.get("limits", {}) else "max_runtime"
        found.append(f"limits.{field}={limit}")
    if job.limits.max_retries:
        found.append("limits.max_retries=0")
    if job.resources.keep_alive is not None:
        found.append("resources.keep_alive=null")
    if job.checkpoint is not None and job.checkpoint.resume_from is not None:
        found.append("checkpoint.resume_from=null")
    arguments = [str(word) for word in written.get("code", {}).get("arguments", ())]
    return [*found, *settings_for(told, arguments)]
