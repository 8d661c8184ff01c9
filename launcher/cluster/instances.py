"""Instance facts: what each SageMaker training instance type has.

The table `instances.json` covers every type of the API's TrainingInstanceType enum. Its figures are
those of EC2's DescribeInstanceTypes, but for the gaps that EC2's data leaves, filled from what AWS
publishes: p2 and p3 (EC2 instance type pages), p6e-gb200 (Amazon EC2 P6e page: 740 GB of GPU memory
over 4 GPUs, 144 vCPUs, 960 GiB) and trn2 (AWS Neuron documentation, Trainium2 architecture: 96 GiB a
chip). None means unknown: no rule may judge by it.

Beside the types stand how fast each accelerator is, by its maker's figures, which types with accelerators
EC2 offers in which region (SageMaker may lack one that EC2 has), and of which types HyperPod has nodes: those
of the API's ClusterInstanceType enum, some of which no training job can have.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from launcher.facts import read_data_file
from launcher.frozen import frozen
from launcher.text.values import nearest


@frozen
class InstanceFacts:
    """One training instance type.

    `accelerators` counts GPUs or Neuron devices per host and `accelerator_memory_mib` is per device;
    `compute_capability` is the GPUs' (`9.0`), None where there are none; `cpu_architecture` is `x86_64`
    or `arm64`. `efa_interfaces` is 0 where the type has no EFA, and so is `efa_gbps`, the
    Gbit/s of all interfaces of a host together; `gpudirect_rdma` says whether the adapter reaches the
    memory of the accelerators, `efa_rdma_read` whether the device itself can read by RDMA, which is less.
    `plugin_environment` holds the NCCL settings that the aws-ofi-nccl plugin makes on this type by itself.
    """

    instance_type: str
    accelerator: str | None
    accelerator_kind: str | None
    accelerators: int
    neuron_cores_per_accelerator: int | None
    accelerator_memory_mib: int | None
    compute_capability: str | None
    vcpus: int
    cpu_architecture: str
    local_nvme_gb: int
    efa_interfaces: int
    efa_gbps: int
    gpudirect_rdma: bool | None
    efa_rdma_read: bool | None
    plugin_environment: dict[str, str]

    @property
    def has_gpus(self) -> bool:
        """Whether the host has accelerators, and they are GPUs."""
        return self.accelerator_kind == "gpu" and self.accelerators > 0

    @property
    def has_efa(self) -> bool:
        """Whether the host has an Elastic Fabric Adapter."""
        return self.efa_interfaces > 0

    @property
    def processes_per_host(self) -> int:
        """One process per GPU or Neuron core; 1 on types without an accelerator."""
        return self.accelerators * (self.neuron_cores_per_accelerator or 1) or 1


def instance_facts(instance_type: str) -> InstanceFacts | None:
    """The facts of a type such as `ml.p5.48xlarge`, or None for an unknown one."""
    row = _types().get(instance_type)
    return None if row is None else InstanceFacts(instance_type=instance_type, **row)


def training_instance_types() -> list[str]:
    """All known training instance types, sorted."""
    return sorted(_types())


def nearest_instance_types(instance_type: str) -> list[str]:
    """Up to three known types that look like the given one."""
    return nearest(instance_type, _types(), most=3)


def hyperpod_instance_types() -> list[str]:
    """All types that a node of a HyperPod cluster can have, sorted."""
    return list(_table()["hyperpod"])


def find_hint(instance_type: str, hosts: int | None = None, *, live: bool = False) -> str:
    """A last sentence for a remedy: the command that lists types with the accelerators of so many hosts.

    For an unknown type it lists all; for one without accelerators there is none, and the result is empty.
    `live` is for where quotas matter.
    """
    facts = instance_facts(instance_type)
    if facts is None:
        return " `launch find` lists the types with GPUs."
    if facts.accelerator is None:
        return ""
    name = f'"{facts.accelerator}"' if " " in facts.accelerator else facts.accelerator
    count = "" if hosts is None else f" --count {hosts * facts.accelerators}"
    command = f"launch find --gpu {name}{count}{' --live' if live else ''}"
    return f" `{command}` lists what has such GPUs{', with quotas' if live else ''}."


def accelerator_names() -> list[str]:
    """What the accelerators of all types are called, sorted."""
    return sorted(_table()["accelerators"])


def bf16_tflops(accelerator: str) -> float | None:
    """The dense BF16 TFLOPS of one accelerator, by its maker's figures; None where those are not known.

    It is 0 where the accelerator has no fast arithmetic for BF16. Raises KeyError for an unknown name.
    """
    tflops: float | None = _table()["accelerators"][accelerator]["bf16_tflops"]
    return tflops


def offered_types(region: str) -> frozenset[str] | None:
    """The types with accelerators that EC2 offers in a region; None where that is not known."""
    return _offered().get(region)


def regions_with_offers() -> list[str]:
    """The regions of which it is known what EC2 offers there, sorted."""
    return sorted(_offered())


def _types() -> dict[str, dict[str, Any]]:
    types: dict[str, dict[str, Any]] = _table()["types"]
    return types


@cache
def _offered() -> dict[str, frozenset[str]]:
    return {region: frozenset(types) for region, types in _table()["offered"].items()}


@cache
def _table() -> dict[str, Any]:
    return read_data_file(__file__, "instances.json")
