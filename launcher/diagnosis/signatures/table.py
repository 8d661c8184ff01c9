"""All rows, registered by the family that holds them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from launcher.diagnosis.signatures import (
    access,
    capacity,
    channels,
    checkpoints,
    code,
    collectives,
    degrees,
    devices,
    distribution,
    efa,
    exit_codes,
    extensions,
    framework_memory,
    gate,
    gloo,
    hardware,
    horovod,
    hosts,
    hub_exceptions,
    hubs,
    images,
    jax_and_tensorflow,
    kubernetes,
    limits,
    losses,
    memory,
    mpi,
    native_crashes,
    nccl,
    nccl_start,
    other_models,
    own_calls,
    packages,
    ray,
    rendezvous,
    schedulers,
    stalls,
    starters,
    stops,
    storage,
    toolkit,
    training,
    xla,
)
from launcher.diagnosis.signatures.signature import Context, Signature
from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import register

FAMILIES: Final[Mapping[str, tuple[Signature, ...]]] = MappingProxyType(
    {
        module.__name__: module.SIGNATURES
        for module in (
            own_calls,
            gate,
            memory,
            framework_memory,
            hardware,
            checkpoints,
            other_models,
            storage,
            images,
            hosts,
            access,
            channels,
            hubs,
            hub_exceptions,
            capacity,
            efa,
            collectives,
            nccl,
            nccl_start,
            devices,
            mpi,
            horovod,
            ray,
            xla,
            jax_and_tensorflow,
            rendezvous,
            gloo,
            degrees,
            distribution,
            stalls,
            training,
            losses,
            limits,
            stops,
            schedulers,
            kubernetes,
            packages,
            extensions,
            exit_codes,
            native_crashes,
            code,
            starters,
            toolkit,
        )
    }
)
"""The rows by their module; where two match the same line with the same weight, the first one counts."""

SIGNATURES: Final = tuple(row for rows in FAMILIES.values() for row in rows)
CONTEXTS: Final[tuple[Context, ...]] = (*memory.CONTEXTS, *checkpoints.CONTEXTS)

for _name, _rows in FAMILIES.items():
    register(Stage.LOG, dict.fromkeys(row.mode for row in _rows), _name)
for _context in CONTEXTS:
    register(Stage.LOG, (_context.mode,), "launcher.diagnosis.signatures.table.CONTEXTS")
