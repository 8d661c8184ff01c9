"""The strategies whose script the boot starts: torchrun, and none.

torchrun: one process per accelerator, started by PyTorch's own launcher on every host. none: the script
alone, one process per host. smp version 2 is carried out by the boot as well, in `model_parallel`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from launcher.cluster.instances import InstanceFacts
from launcher.documents.document import AsWritten
from launcher.failure_modes.model import Finding
from launcher.jobs.job_sections import RESERVED_CHANNEL
from launcher.jobs.script_inputs import channel_folder
from launcher.jobs.specification import JobSpec
from launcher.planning.request_view import (
    ARGUMENT_STYLE_OPTION,
    CHECKPOINT_SYNC_OPTION,
    ENTRY_POINT_OPTION,
    FIRST_STEP_OPTION,
    GATE_OPTION,
    MODULE_OPTION,
    PROCESSES_OPTION,
    REQUIREMENTS_OPTION,
    RESTARTS_OPTION,
    STALL_OPTION,
)
from launcher.planning.strategies.strategy import (
    OPTIONS,
    PYTORCH,
    PYTORCH_NEURON,
    Entry,
    StartParameters,
    accelerated_processes,
    check_boot_python,
    check_crowding,
    check_options,
    check_program,
    check_python_program,
)
from launcher.source.packaging import BOOT_NAME, SOURCE_NAME

BOOT_ENTRYPOINT = ("python3", f"{channel_folder(RESERVED_CHANNEL)}/{BOOT_NAME}")
"""What the container runs: the boot, from the code's channel."""


class BootStrategy:
    """A strategy that the boot carries out; `boot_name` is what the boot calls it.

    Arguments and hyperparameters reach the script as a list of words that no shell reads.
    """

    archive_name = SOURCE_NAME
    with_boot = True
    boot_name: str

    def processes_per_host(self, job: JobSpec, facts: InstanceFacts | None) -> int | None:
        """The user's number, else one per GPU or Neuron core; None for an unknown type without a number."""
        return accelerated_processes(job, facts)

    def supported(
        self, job: JobSpec, facts: InstanceFacts | None, processes_per_host: int | None
    ) -> Iterator[Finding]:
        """Runs on every type and version; finds options, of which it has none, and crowded devices."""
        yield from check_options(job.distribution.options, {}, OPTIONS, f"the strategy {self.boot_name}")
        yield from self.startable(job)
        yield from check_boot_python(job, self.image(facts))
        yield from check_crowding(facts, processes_per_host)

    def startable(self, job: JobSpec) -> Iterator[Finding]:
        """A program that is not Python's own cannot be started under a launcher of ranks."""
        yield from check_python_program(job, self.boot_name)

    def image(self, facts: InstanceFacts | None) -> str:
        """PyTorch's own images, or those for Neuron devices."""
        neuron = facts is not None and facts.accelerator_kind == "neuron"
        return PYTORCH_NEURON if neuron else PYTORCH

    def hyperparameters(self, job: JobSpec, start: StartParameters) -> dict[str, str]:
        """The user's, as text; the container reads them from a file, where no encoding is undone."""
        return {key: plain_text(value) for key, value in job.hyperparameters.items()}

    def entry(self, job: JobSpec, processes_per_host: int, requirements: str | None) -> Entry:
        """The boot's command: strategy, processes, script or module, what to install, and the arguments."""
        arguments: tuple[str, ...] = (
            "--strategy", self.boot_name,
            PROCESSES_OPTION, str(processes_per_host),
        )  # fmt: skip
        if job.code.module is not None:
            arguments += (MODULE_OPTION, job.code.module)
        elif job.code.entry_point is not None:
            arguments += (ENTRY_POINT_OPTION, job.code.entry_point)
        if job.code.argument_style != "spaced":
            arguments += (ARGUMENT_STYLE_OPTION, job.code.argument_style)
        arguments += (GATE_OPTION, gate_action(job))
        arguments += watchdog_options(job)
        arguments += (RESTARTS_OPTION, str(job.limits.restarts))
        if requirements is not None:
            arguments += (REQUIREMENTS_OPTION, requirements)
        if job.checkpoint is not None and job.checkpoint.sync == "slipway":
            arguments += (CHECKPOINT_SYNC_OPTION, job.checkpoint.sync)
        if job.code.arguments:
            arguments += ("--", *job.code.arguments)
        return Entry(BOOT_ENTRYPOINT, arguments)


def watchdog_options(job: JobSpec) -> tuple[str, ...]:
    """When the boot takes the job for stalled, always said: a boot that is told nothing watches nobody."""
    if job.watchdog == "off":
        return STALL_OPTION, "off"
    stall = "auto" if job.watchdog.stall is None else str(job.watchdog.stall)
    return STALL_OPTION, stall, FIRST_STEP_OPTION, str(job.watchdog.first_step)


def gate_action(job: JobSpec) -> str:
    """What comes of a host that is not sound: several wait for each other, so it ends their job; one alone
    fails by itself, so it is told."""
    return job.gate or ("on" if job.resources.instance_count > 1 else "warn")


def plain_text(value: Any) -> str:
    """Text as the user wrote it; lists and mappings as JSON."""
    return str(value) if isinstance(value, str | AsWritten) else json.dumps(value)


class Torchrun(BootStrategy):
    """PyTorch's elastic launcher with a static rendezvous on the first host."""

    boot_name = "torchrun"


class SingleProcess(BootStrategy):
    """No launcher: each host runs the script once."""

    boot_name = "none"

    def processes_per_host(self, job: JobSpec, facts: InstanceFacts | None) -> int | None:
        """Always one: without a launcher there is nobody to start more."""
        return 1

    def startable(self, job: JobSpec) -> Iterator[Finding]:
        """Python programs and shell scripts; what is neither, by its name, cannot be started."""
        yield from check_program(job)
