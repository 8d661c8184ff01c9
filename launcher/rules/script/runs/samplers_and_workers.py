"""The loaders and samplers that a rank of a job makes, as it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from launcher.cluster.instances import instance_facts
from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.program.execution.objects import CallMade
from launcher.rules.script.data.workers.worker_resources import too_many_workers
from launcher.rules.script.findings import finding_at, related_at
from launcher.rules.script.runs.rank_runs import TRAINING, RankRuns, loops_around, settings_of

_LOADER = "torch.utils.data.DataLoader"
_SAMPLER = "torch.utils.data.DistributedSampler"
_EPOCHS = re.compile(r"epoch|prepare|resume|state", re.IGNORECASE)
"""What functions are called of which nobody knows whether they tell a sampler the epoch."""


@finds(Stage.SCRIPT, data.TOO_MANY_WORKERS)
def loaders_leave_cpus_to_others(runs: RankRuns) -> Iterator[Finding]:
    """A DataLoader with more workers than the host has vCPUs for each process, by all that goes into it.

    Each process starts as many, and they take time and memory from each other and from the training.

    Bad: `num_workers=config["workers"]` with 32 in config.json, on 96 vCPUs and 8 processes. Good: 11.
    Source: torch.utils.data documentation; EC2's vCPUs of the instance type.
    """
    facts = instance_facts(runs.subject.job.resources.instance_type)
    if facts is None or runs.first is None or not runs.trains:
        return
    cpus = max(1, facts.vcpus // runs.processes)
    for event in runs.first.calls(_LOADER):
        workers = event.argument("num_workers", 5)
        if isinstance(workers, int) and workers > cpus and event.is_sure:
            related = settings_of(runs.first, [event.node])
            yield too_many_workers(event.node, workers, runs.processes, facts, related)
            return


@finds(Stage.SCRIPT, data.SET_EPOCH_NEVER_CALLED)
def ranks_tell_samplers_the_epoch(runs: RankRuns) -> Iterator[Finding]:
    """A sampler that shuffles, a loop over epochs, and no rank that calls set_epoch in this job.

    Every epoch then has the same order. Silent where a library has a part in it, and where a function that
    nobody knows may tell the sampler.

    Bad: a hook that calls `set_epoch` and is registered nowhere. Good: the same among the hooks of the run.
    Source: torch.utils.data.distributed.DistributedSampler.
    """
    first = runs.first
    if first is None or runs.by_libraries or not runs.trains or runs.may_call(_EPOCHS):
        return
    if next(runs.calls("*.set_epoch"), None) is not None:
        return
    trained = next((each for each in first.calls(*TRAINING) if loops_around(each) > 1), None)
    sampler = next((each for each in first.calls(_SAMPLER) if _shuffles(each)), None)
    if trained is None or sampler is None or loops_around(sampler):
        return
    yield finding_at(
        data.SET_EPOCH_NEVER_CALLED,
        sampler.node,
        "no rank calls set_epoch on this sampler in this job: every epoch repeats the same order",
        related=[related_at(trained.node, "trained here")],
    )


def _shuffles(sampler: CallMade) -> bool:
    return sampler.argument("shuffle", 3) in (None, True) and sampler.is_sure


LOADER_RUN_RULES = (loaders_leave_cpus_to_others, ranks_tell_samplers_the_epoch)
