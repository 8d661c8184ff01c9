"""launcher/cluster/instances.json against karpenter, EC2's data, the API's enum and the EFA plugin."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from importlib import resources
from importlib.metadata import version
from typing import Any

import botocore.session

from launcher.cluster.instances import (
    InstanceFacts,
    hyperpod_instance_types,
    instance_facts,
    offered_types,
    regions_with_offers,
    training_instance_types,
)
from tools.facts.comparison import Comparison, Figure, compare, memberships
from tools.facts.references import quoted


def comparisons() -> Iterator[Comparison]:
    """Each source in turn."""
    yield against_karpenter()
    yield against_ec2()
    yield against_offerings()
    yield against_the_api()
    yield against_the_plugin()


def against_karpenter() -> Comparison:
    """Figures of the hardware: karpenter asks EC2 itself, with its own program."""
    quotation = quoted("aws/karpenter-provider-aws")
    figures = (
        (f"{column} of {facts.instance_type}", getattr(facts, column), theirs)
        for facts in _all_facts()
        for column, theirs in quotation.rows.get(_ec2_name(facts), {}).items()
    )
    return compare(str(quotation), figures, independent=True)


def against_ec2() -> Comparison:
    """The same of EC2's DescribeInstanceTypes as moto has it, and what karpenter does not tell."""
    packed = resources.files("moto.ec2").joinpath("resources/instance_types.json.gz").read_bytes()
    published = json.loads(gzip.decompress(packed))
    figures = (
        (f"{column} of {facts.instance_type}", getattr(facts, column), theirs)
        for facts in _all_facts()
        if _ec2_name(facts) in published
        for column, theirs in _of_ec2(published[_ec2_name(facts)])
    )
    return compare(
        f"moto {version('moto')}, EC2's DescribeInstanceTypes",
        figures,
        independent=False,
        known=EC2_COUNTS_OTHERWISE,
    )


EC2_COUNTS_OTHERWISE = {
    "neuron_cores_per_accelerator of ml.trn2.48xlarge": (
        "EC2 counts physical cores; by default two of them are one logical core, which a process gets"
    )
}
"""Where EC2 means something else by a figure."""


def _of_ec2(described: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    gpus = described.get("GpuInfo", {}).get("Gpus", [])
    neuron = described.get("NeuronInfo", {}).get("NeuronDevices", [])
    yield "accelerators", sum(each["Count"] for each in [*gpus, *neuron])
    yield "vcpus", described["VCpuInfo"]["DefaultVCpus"]
    yield "efa_interfaces", described["NetworkInfo"].get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)
    yield "efa_gbps", _efa_gbps(described)
    yield "local_nvme_gb", _nvme(described)
    if gpus:
        yield "accelerator_memory_mib", gpus[0]["MemoryInfo"]["SizeInMiB"]
    if neuron and "CoreInfo" in neuron[0]:
        yield "neuron_cores_per_accelerator", neuron[0]["CoreInfo"]["Count"]


def _efa_gbps(described: dict[str, Any]) -> int:
    """All cards together, of hosts with EFA: `3200 Gigabit`, or `4x 100 Gigabit`."""
    network = described["NetworkInfo"]
    speed = re.fullmatch(r"(?:(\d+)x )?(\d+) Gigabit", network["NetworkPerformance"])
    return int(speed[1] or 1) * int(speed[2]) if speed and network.get("EfaSupported") else 0


def against_offerings() -> Comparison:
    """Which types with accelerators EC2 offers in which region, as moto has it."""
    folder = resources.files("moto.ec2").joinpath("resources/instance_type_offerings/region")
    accelerated = {facts.instance_type for facts in _all_facts() if facts.accelerators}
    rows = {
        file.name.partition(".")[0]: json.loads(gzip.decompress(file.read_bytes()))
        for file in folder.iterdir()
    }
    figures = (
        (
            f"types that EC2 offers in {region}",
            sorted(offered_types(region) or ()),
            sorted(accelerated & {f"ml.{each['InstanceType']}" for each in rows.get(region, ())}),
        )
        for region in sorted({*rows, *regions_with_offers()})
    )
    return compare(f"moto {version('moto')}, EC2's DescribeInstanceTypeOfferings", figures, independent=False)


def _nvme(described: dict[str, Any]) -> int:
    storage = described.get("InstanceStorageInfo", {})
    return int(storage.get("TotalSizeInGB", 0)) if storage.get("NvmeSupport") == "required" else 0


def against_the_api() -> Comparison:
    """Which types train, and which HyperPod has: the enums in SageMaker's API."""
    model = botocore.session.get_session().get_service_model("sagemaker")
    training, hyperpod = (model.shape_for(f"{name}InstanceType").enum for name in ("Training", "Cluster"))
    return compare(
        f"botocore {version('botocore')}, TrainingInstanceType and ClusterInstanceType",
        (
            *memberships("training types", training_instance_types(), training),
            *memberships("types of HyperPod", hyperpod_instance_types(), hyperpod),
        ),
        independent=True,
    )


def against_the_plugin() -> Comparison:
    """What the EFA plugin sets on a type by itself, and where it demands GPUDirect RDMA."""
    quotation = quoted("aws/aws-ofi-nccl")
    return compare(str(quotation), _plugin_figures(quotation.rows), independent=False)


def _plugin_figures(platforms: dict[str, Any]) -> Iterator[Figure]:
    for facts in _all_facts():
        platform = _platform(_ec2_name(facts), platforms)
        if not facts.has_efa or not facts.accelerators:
            continue
        theirs = {} if platform is None else platform["environment"]
        yield f"plugin_environment of {facts.instance_type}", facts.plugin_environment, theirs
        if platform is not None and facts.has_gpus:
            yield f"gpudirect_rdma of {facts.instance_type}", facts.gpudirect_rdma, platform["gdr_required"]


def _platform(name: str, platforms: dict[str, Any]) -> dict[str, Any] | None:
    """The first entry that matches, as the plugin looks for it."""
    return next((row for key, row in platforms.items() if _fits(name, key, row["regex"])), None)


def _fits(name: str, key: str, regex: str | None) -> bool:
    return name == key if regex is None else re.search(regex, name) is not None


def _all_facts() -> list[InstanceFacts]:
    known = (instance_facts(instance_type) for instance_type in training_instance_types())
    return [facts for facts in known if facts is not None]


def _ec2_name(facts: InstanceFacts) -> str:
    return facts.instance_type.removeprefix("ml.")
