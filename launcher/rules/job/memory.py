"""The memory of parameters, gradients and optimizer state against that of the accelerators."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import hardware
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import Strategy
from launcher.rules.job.degrees import state_shards
from launcher.rules.job.subject import JobSubject
from launcher.text.sizes import gibibytes

WEIGHT_AND_GRADIENT_BYTES, OPTIMIZER_BYTES = 4, 12
"""For each parameter, with Adam in mixed precision: a 2-byte weight and gradient; a 4-byte weight,
momentum and variance (ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, section 3.1).
"""

FULL = 0.9
"""The share of the memory beyond which next to nothing is left for activations."""


@finds(Stage.SPEC, hardware.CLOSE_TO_MEMORY_LIMIT)
def state_leaves_room(subject: JobSubject) -> Iterator[Finding]:
    """Rough on purpose: activations, buffers and fragmentation come on top of it."""
    model, shards, memory = subject.job.model, state_shards(subject), _memory_per_process(subject)
    if model is None or shards is None or memory is None:
        return
    needed = model.parameters * (WEIGHT_AND_GRADIENT_BYTES / shards[0] + OPTIMIZER_BYTES / shards[1])
    if needed <= FULL * memory:
        return
    world = subject.plan.world_size or 1
    yield hardware.CLOSE_TO_MEMORY_LIMIT.at(
        ("model", "parameters"),
        f"{model.parameters / 1e9:g} billion parameters x {_terms(*shards)} bytes (weight and gradient, "
        f"optimizer state of Adam in mixed precision) = {gibibytes(needed)} on each of {world} ranks, and "
        f"{subject.job.resources.instance_type} has {gibibytes(memory)} for one: "
        + ("it would run out of memory" if needed > memory else "activations would hardly fit in the rest"),
        remedy=_remedy(model.parameters, shards, world, memory),
    )


def _memory_per_process(subject: JobSubject) -> float | None:
    facts, processes = subject.facts, subject.plan.processes_per_host
    if facts is None or processes is None or not facts.accelerators or facts.accelerator_memory_mib is None:
        return None
    of_host = facts.accelerators * facts.accelerator_memory_mib * 2**20
    # A single process may use all accelerators; several use at most one each.
    if subject.job.distribution.strategy is Strategy.NONE:
        return float(of_host)
    return of_host / max(processes, facts.accelerators)


def _terms(weights: int, optimizer: int) -> str:
    if weights == optimizer == 1:
        return f"{WEIGHT_AND_GRADIENT_BYTES + OPTIMIZER_BYTES}"
    return f"({WEIGHT_AND_GRADIENT_BYTES}/{weights} + {OPTIMIZER_BYTES}/{optimizer})"


def _remedy(parameters: float, shards: tuple[int, int], world: int, memory: float) -> str:
    total = parameters * (WEIGHT_AND_GRADIENT_BYTES + OPTIMIZER_BYTES)
    least = int(-(-total // (FULL * memory)))
    if min(shards) < world and world >= least:
        return f"Shard the state, with FSDP: over all {world} ranks it is {gibibytes(total / world)} each."
    return (
        f"Shard it over at least {least} ranks of this type (more hosts, with FSDP), take a type with more "
        "memory, or an optimizer with less state."
    )
