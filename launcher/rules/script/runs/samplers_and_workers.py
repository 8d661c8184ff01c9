"""The loaders and samplers that a rank of a job makes, as it runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from launcher.cluster.instances import instance_facts
from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.program.execution.objects import CallMade
from launcher.program.index import ancestors, scope_of
from launcher.rules.script.findings import finding_at, related_at
from launcher.rules.script.runs.rank_runs import TRAINING, RankRuns

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
            yield finding_at(
                data.TOO_MANY_WORKERS,
                event.node,
                f"{workers} workers in each of {runs.processes} processes make {workers * runs.processes} on "
                f"the {facts.vcpus} vCPUs of {facts.instance_type}",
                remedy=f"Use at most {max(1, cpus - 1)}: {cpus} vCPUs a process, less one.",
            )
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
    trained = next((each for each in first.calls(*TRAINING) if _loops_around(each) > 1), None)
    sampler = next((each for each in first.calls(_SAMPLER) if _shuffles(each)), None)
    if trained is None or sampler is None or _is_made_in_a_loop(sampler):
        return
    yield finding_at(
        data.SET_EPOCH_NEVER_CALLED,
        sampler.node,
        "no rank calls set_epoch on this sampler in this job: every epoch repeats the same order",
        related=[related_at(trained.node, "trained here")],
    )


def _shuffles(sampler: CallMade) -> bool:
    return sampler.argument("shuffle", 3) in (None, True) and sampler.is_sure


def _loops_around(event: CallMade) -> int:
    """How many loops a call stands in, with those around the calls of its functions."""
    calls = (event.node, *event.callers)
    return sum(isinstance(outer, ast.For | ast.While) for call in calls for outer in ancestors(call))


def _is_made_in_a_loop(event: CallMade) -> bool:
    calls = (each for each in (event.node, *event.callers) if scope_of(each) is not None)
    return any(isinstance(outer, ast.For | ast.While) for call in calls for outer in ancestors(call))


LOADER_RUN_RULES = (loaders_leave_cpus_to_others, ranks_tell_samplers_the_epoch)
