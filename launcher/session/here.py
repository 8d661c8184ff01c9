"""A diagnosis of a run on this machine: what the machine lacks is not called the script's fault."""

from __future__ import annotations

from dataclasses import dataclass, replace

from launcher.cluster.instances import instance_facts
from launcher.diagnosis.model import Diagnosis, RootCause
from launcher.diagnosis.signatures.table import FRAGMENTS, LACKS
from launcher.failure_modes import model_hub, training_script

_BY_DEVICE = (
    'To run it here as well, let the script choose by what is there: `device = "cuda" if '
    'torch.cuda.is_available() else "cpu"`, and init_process_group(backend="nccl" if device == "cuda" else '
    '"gloo").'
)
_NO_WAY_HERE = (
    "See whether this machine reaches it now; a run gets none of the launcher's variables, so that a proxy "
    "has to stand in the job's `environment`. On AWS subnets without a NAT gateway reach it neither: what is "
    "downloaded once beforehand and given as an input channel (`inputs`, here `--input NAME=DIR`), with "
    "HF_HUB_OFFLINE=1 and HF_HOME below it, needs no network."
)
_REPAIR = (
    "Repair what the traceback of the first failing rank names, and run it here again. A main() decorated "
    "with torch.distributed.elastic.multiprocessing.errors.record keeps tracebacks of all ranks apart."
)


@dataclass(frozen=True, slots=True)
class Place:
    """A run on this machine: whether its hosts saw GPUs, None where unknown, and the type they stand for."""

    gpus: bool | None
    instance_type: str | None


def as_met_here(diagnosis: Diagnosis, place: Place) -> Diagnosis:
    """The diagnosis of a local run, with a remedy that fits where the run was."""
    cause = diagnosis.root_cause
    remedy = _remedy(cause, place) if cause else None
    if cause is None or remedy is None:
        return diagnosis
    finding = replace(cause.finding, remedy=remedy)
    others = tuple(finding if each == cause.finding else each for each in diagnosis.findings)
    return replace(diagnosis, root_cause=replace(cause, finding=finding), findings=others)


def _remedy(cause: RootCause, place: Place) -> str | None:
    """What to do about the root cause here; None where what was said of it fits."""
    said = "\n".join((cause.finding.message, cause.log_line, *cause.evidence))
    lacks = [name for name, row in LACKS.items() if row.pattern.search(said)]
    for name in ("torch", "container"):
        if name in lacks:
            return LACKS[name].remedy
    if cause.finding.remedy in (FRAGMENTS["NO_WAY"], model_hub.HUB_UNREACHABLE.remedy):
        return _NO_WAY_HERE
    if lacks and place.gpus is not True:
        return f"{_no_gpu(place.instance_type)} {_BY_DEVICE}"
    if "build" in lacks:
        return LACKS["build"].remedy
    return _REPAIR if cause.finding.remedy == training_script.SCRIPT_RAISED.remedy else None


def _no_gpu(instance_type: str | None) -> str:
    facts = instance_facts(instance_type or "")
    if facts is None:
        return "The hosts of this run see no GPU; where there are some, the script would go on."
    if facts.has_gpus:
        return f"The hosts of this run see no GPU; on {instance_type} the script would go on."
    return f"The hosts of this run see no GPU, and {instance_type} has none either: it would fail there, too."
