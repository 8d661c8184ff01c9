"""torchrun: one process per accelerator, started by PyTorch's own launcher on every host."""

from __future__ import annotations

from launcher.cluster.instances import InstanceFacts
from launcher.jobs.specification import JobSpec
from launcher.plan.strategies.strategy import Entry, boot_entry


class Torchrun:
    """PyTorch's elastic launcher with a static rendezvous on the first host."""

    def processes_per_host(self, job: JobSpec, facts: InstanceFacts | None) -> int | None:
        """The user's number, else one per GPU or Neuron core, else 1 on a host without them."""
        return job.distribution.processes_per_host or (facts.processes_per_host if facts else None)

    def entry(self, job: JobSpec, processes_per_host: int) -> Entry:
        """The boot, which starts torchrun."""
        return boot_entry(job, processes_per_host)
