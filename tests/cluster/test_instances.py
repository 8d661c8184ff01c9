"""The instance facts against the API and against EC2's own data."""

from __future__ import annotations

import gzip
import json
from importlib import resources

import botocore.session
import pytest

from launcher.cluster.instances import instance_facts, nearest_instance_types, training_instance_types


def ec2_data() -> dict:
    packed = resources.files("moto.ec2").joinpath("resources/instance_types.json.gz").read_bytes()
    return json.loads(gzip.decompress(packed))


def test_the_table_holds_exactly_the_training_instance_types_of_the_api() -> None:
    model = botocore.session.get_session().get_service_model("sagemaker")
    assert set(training_instance_types()) == set(model.shape_for("TrainingInstanceType").enum)


def test_the_figures_are_those_of_ec2() -> None:
    compared, published = 0, ec2_data()
    for instance_type in training_instance_types():
        ec2 = published.get(instance_type.removeprefix("ml."))
        if ec2 is None:
            continue
        facts = instance_facts(instance_type)
        gpus = sum(gpu["Count"] for gpu in ec2.get("GpuInfo", {}).get("Gpus", []))
        neuron = sum(device["Count"] for device in ec2.get("NeuronInfo", {}).get("NeuronDevices", []))
        efa = ec2["NetworkInfo"].get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)
        assert facts.accelerators == gpus + neuron, instance_type
        assert facts.vcpus == ec2["VCpuInfo"]["DefaultVCpus"], instance_type
        assert facts.efa_interfaces == efa, instance_type
        if gpus:
            memory = ec2["GpuInfo"]["Gpus"][0]["MemoryInfo"]["SizeInMiB"]
            assert facts.accelerator_memory_mib == memory, instance_type
        compared += 1
    assert compared > 200


def test_no_accelerated_type_has_a_gap_that_a_rule_could_fall_into() -> None:
    for instance_type in training_instance_types():
        facts = instance_facts(instance_type)
        assert None not in (facts.vcpus, facts.efa_interfaces), instance_type
        if facts.accelerators:
            assert facts.accelerator_memory_mib, instance_type


@pytest.mark.parametrize(
    ("instance_type", "processes"),
    [
        ("ml.p5.48xlarge", 8),
        ("ml.g5.12xlarge", 4),
        ("ml.trn1.32xlarge", 32),
        ("ml.trn2.48xlarge", 64),
        ("ml.m5.xlarge", 1),
    ],
)
def test_processes_per_host_are_the_gpus_or_neuron_cores(instance_type: str, processes: int) -> None:
    assert instance_facts(instance_type).processes_per_host == processes


def test_trainium2_has_its_published_memory_and_not_the_implausible_figure_of_ec2() -> None:
    assert instance_facts("ml.trn2.48xlarge").accelerator_memory_mib == 96 * 1024


def test_efa_devices_read_by_rdma_but_for_the_first_ones() -> None:
    """Amazon EC2 user guide, efa: all on Nitro 4 and later, and of Nitro 3 p4d and p4de alone."""
    first = {"c5n", "g4dn", "g5", "p3dn"}
    for instance_type in training_instance_types():
        facts = instance_facts(instance_type)
        reads = facts.has_efa and instance_type.split(".")[1] not in first
        assert facts.efa_rdma_read is reads, instance_type


def test_what_reaches_the_accelerators_memory_can_read_by_rdma() -> None:
    for instance_type in training_instance_types():
        facts = instance_facts(instance_type)
        assert facts.efa_rdma_read or not facts.gpudirect_rdma, instance_type


def test_an_unknown_type_has_no_facts_and_near_names() -> None:
    assert instance_facts("ml.p5.48xlarg") is None
    assert nearest_instance_types("ml.p5.48xlarg")[0] == "ml.p5.48xlarge"
