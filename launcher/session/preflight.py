"""What this machine lacks for a job, before the job is run on it.

Facts come in, sentences go out: nothing is started here. `launcher.session.here` says the same of what lacked
when a run has failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.backends.interface import BackendError
from launcher.failure_modes.refusal import Refusal

if TYPE_CHECKING:
    from launcher.backends.local.machine import Machine
    from launcher.planning.request_view import RequestView
    from launcher.planning.training_plan import TrainingPlan

MOST_PROCESSES_PER_CORE = 2
"""More than so many for each core are asked about: each waits for the others at every step, and each takes
memory of its own."""

BRING_TORCH = frozenset(
    {
        "torch", "torchvision", "torchaudio", "torchdata", "torchmetrics", "torchtitan", "accelerate",
        "deepspeed", "fairscale", "lightning", "peft", "pytorch-lightning", "sentence-transformers", "timm",
        "trl",
    }
)  # fmt: skip
"""Packages that depend on torch, by what they declare on PyPI: pip installs it with them."""

_MINOR = re.compile(r"(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Crowd:
    """More processes than this machine is made for: how many, what comes of it, and how to have fewer."""

    what: str
    consequence: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Preflight:
    """What is to be said of this machine, a sentence each, and the crowd that the job would be on it."""

    notes: tuple[str, ...] = ()
    crowd: Crowd | None = None


def look_before(
    plan: TrainingPlan,
    machine: Machine,
    inputs: Mapping[str, Path],
    processes: int | None = None,
) -> Preflight:
    """Hold a plan that is not refused against this machine; `processes` is what was asked for on each host.

    Raises Refusal where the job cannot run here: without torch where it is needed, with a channel that has
    no folder, with processes that its strategy does not start.
    """
    from launcher.backends.local.layout import check_inputs
    from launcher.planning.torch_version import torch_version

    if plan.view is None or not plan.with_boot or plan.operation != "CreateTrainingJob":
        return Preflight()  # The backend refuses it, and says why.
    if processes is not None and processes != plan.processes_per_host:
        strategy = plan.job["distribution"]["strategy"]
        raise Refusal(
            f"--processes {processes}: the strategy {strategy} starts {plan.processes_per_host} per host.",
            "Leave --processes out.",
        )
    check_inputs(plan.view, inputs)
    notes = list(_gpus(plan, machine))
    why = _why_torch(plan)
    if why is not None and not (machine.python.torch is None and _is_installed_with(plan)):
        _check_torch(machine, why)
        wanted = torch_version(plan.spec) if plan.spec else None
        notes = [*_version(machine, wanted), *notes]
    notes += _without_the_service(plan.view)
    return Preflight(tuple(notes), _crowd(plan, machine))


def _without_the_service(request: RequestView) -> Iterator[str]:
    from launcher.planning.service_options import on_aws_alone

    missing = on_aws_alone(request)
    if missing:
        named = "; ".join(f"{field}: {what}" for field, what in missing.items())
        yield f"what only AWS does has no effect here: {named}"


def _why_torch(plan: TrainingPlan) -> str | None:
    """What of the job needs torch; None where nothing is known to."""
    if plan.job["distribution"]["strategy"] == "torchrun":
        return "torchrun, which starts the processes, is a part of it"
    if plan.package is not None and plan.package.source.uses({"torch"}):
        return "the code imports it"
    return None


def _is_installed_with(plan: TrainingPlan) -> bool:
    """Whether torch may come with what the job requires; what only pip can read may bring it, too."""
    wanted = plan.package.source.requirements if plan.package is not None else None
    if wanted is None:
        return False
    named = [each.requirement for each in wanted.packages]
    return bool(wanted.fetched) or any(
        each is None or each.name.lower().replace("_", "-") in BRING_TORCH for each in named
    )


def _check_torch(machine: Machine, why: str) -> None:
    if machine.python.torch is None:
        path = machine.python.path
        raise BackendError(
            f"{path} has no torch, and {why}: the run would end at once.",
            "Give a Python that has it with --python PATH, activate its environment, or install it: "
            f"{path} -m pip install torch",
        )


def _version(machine: Machine, wanted: tuple[int, int] | None) -> Iterator[str]:
    found = _MINOR.match(machine.python.torch or "")
    if found is None or wanted is None or (int(found[1]), int(found[2])) == wanted:
        return
    yield (
        f"the run gets torch {machine.python.torch}, and the job's image has {wanted[0]}.{wanted[1]}: what "
        "differs between them shows only on AWS, or only here"
    )


def _gpus(plan: TrainingPlan, machine: Machine) -> Iterator[str]:
    from launcher.backends.local.layout import share_devices
    from launcher.cluster.instances import instance_facts

    view, per_host = plan.view, plan.processes_per_host or 1
    facts = instance_facts(view.instance_type or "") if view else None
    if view is None or facts is None or not facts.has_gpus:
        return
    hosts = view.hosts or 1
    if not machine.gpus:
        lacking = "there is no GPU on this machine"
    elif not share_devices(machine.gpus, hosts, per_host)[0].get("CUDA_VISIBLE_DEVICES"):
        lacking = f"there are {len(machine.gpus)} GPUs on this machine for {hosts * per_host} processes"
    elif machine.python.torch and machine.python.cuda is None:
        lacking = f"torch {machine.python.torch} is a build without CUDA, so that it sees no GPU"
    else:
        return
    yield (
        f"{lacking}: everything runs on CPUs, over gloo; a script that asks for cuda or nccl fails here, and "
        f"would not on {view.instance_type}"
    )


def _crowd(plan: TrainingPlan, machine: Machine) -> Crowd | None:
    ranks, hosts = plan.world_size, plan.view.hosts if plan.view else None
    if ranks is None or hosts is None or ranks <= MOST_PROCESSES_PER_CORE * machine.cores:
        return None
    remedies = []
    if plan.processes_per_host != 1:
        remedies.append("fewer on each host with --processes 1")
    if hosts > 1:
        remedies.append("fewer hosts with --set resources.instance_count=1")
    cores = "1 core" if machine.cores == 1 else f"{machine.cores} cores"
    each = f"{hosts} hosts with {plan.processes_per_host} each" if hosts > 1 else "1 host"
    return Crowd(
        f"{ranks} processes ({each}) would start on this machine with {cores}",
        "they would wait for each other most of the time, and may fill the memory",
        f"Start {', or '.join(remedies)}; all of them with --yes.",
    )
