"""The environment: what is set, what is left alone, and what stands when the user says otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.cluster.instances import InstanceFacts, instance_facts, training_instance_types
from launcher.jobs.load import load_job
from launcher.jobs.specification import JobSpec
from launcher.planning.setting import Setting
from launcher.planning.settings import job_environment, settings
from launcher.planning.software_of_job import software_of
from launcher.planning.strategies.catalogue import strategy_of

DIGEST = "5" * 64
P4D, P5 = "ml.p4d.24xlarge", "ml.p5.48xlarge"
Settings = Callable[..., list[Setting]]

LEFT_TO_OTHERS = {
    "FI_PROVIDER", "FI_EFA_FORK_SAFE", "FI_EFA_USE_DEVICE_RDMA", "FI_EFA_SET_CUDA_SYNC_MEMOPS",
    "RDMAV_FORK_SAFE", "RDMAV_HUGEPAGES_SAFE", "NCCL_PROTO", "NCCL_ALGO",
    "NCCL_SOCKET_IFNAME", "NCCL_TUNER_PLUGIN", "NCCL_BUFFSIZE", "NCCL_P2P_NET_CHUNKSIZE",
    "NCCL_NVLS_ENABLE", "NCCL_IB_DISABLE", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_BLOCKING_WAIT",
    "PYTORCH_CUDA_ALLOC_CONF", "CUDA_DEVICE_MAX_CONNECTIONS",
}  # fmt: skip


@pytest.fixture
def job_of(write_job: Callable[..., Path]) -> Callable[..., JobSpec]:
    def job(**fields: Any) -> JobSpec:
        loaded = load_job(write_job(**fields))
        assert loaded.spec is not None, loaded.findings
        return loaded.spec

    return job


@pytest.fixture
def settings_of(job_of: Callable[..., JobSpec]) -> Settings:
    def chosen(**fields: Any) -> list[Setting]:
        job = job_of(**fields)
        facts = instance_facts(job.resources.instance_type)
        return chosen_for(job, facts, facts.processes_per_host if facts else 8)

    return chosen


def chosen_for(job: JobSpec, facts: InstanceFacts | None, processes: int) -> list[Setting]:
    """The settings of a job that keeps no checkpoints."""
    return settings(
        job,
        facts,
        processes,
        with_boot=strategy_of(job).with_boot,
        source_digest=DIGEST,
        checkpoints=None,
        software=software_of(job, facts),
    )


def values(chosen: list[Setting]) -> dict[str, str]:
    return {setting.name: setting.value for setting in chosen}


def test_a_normal_job_gets_these_and_no_others(settings_of: Settings) -> None:
    assert values(settings_of()) == {
        "SLIPWAY_CODE_SHA256": DIGEST,
        "NCCL_DEBUG": "WARN",
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/opt/ml/output/data/flight_recorder/rank_",
        "OMP_NUM_THREADS": "12",
        "FI_EFA_USE_HUGE_PAGE": "0",
    }


def test_the_debug_profile_adds_the_verbose_set_as_a_whole(settings_of: Settings) -> None:
    normal, debug = values(settings_of()), values(settings_of(profile="debug"))
    assert {name: value for name, value in debug.items() if normal.get(name) != value} == {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV",
        "TORCH_DISTRIBUTED_DEBUG": "DETAIL",
        "CUDA_LAUNCH_BLOCKING": "1",
        "SLIPWAY_DETECT_ANOMALY": "1",
    }
    assert set(normal) <= set(debug)


@pytest.mark.parametrize(
    ("distribution", "found"),
    [
        ({"strategy": "torchrun"}, True),
        ({"strategy": "none"}, True),
        ({"strategy": "smp", "options": {"version": 2}}, True),
        ({"strategy": "smp", "options": {"version": 1}}, False),
        ({"strategy": "smddp"}, False),
        ({"strategy": "mpi"}, False),
        ({"strategy": "torch_xla"}, False),
    ],
)
def test_anomalies_are_detected_where_the_boot_starts_the_script(
    settings_of: Settings, distribution: dict, found: bool
) -> None:
    chosen = values(settings_of(distribution=distribution, profile="debug"))
    assert ("SLIPWAY_DETECT_ANOMALY" in chosen) is found


@pytest.mark.parametrize(
    ("instance_type", "level"), [(P4D, "DETAIL"), ("ml.p9.48xlarge", "DETAIL"), ("ml.m5.xlarge", "INFO")]
)
def test_collectives_are_compared_but_for_those_of_gloo(
    settings_of: Settings, instance_type: str, level: str
) -> None:
    chosen = values(settings_of(profile="debug", resources={"instance_type": instance_type}))
    assert chosen["TORCH_DISTRIBUTED_DEBUG"] == level


def test_a_search_is_started_by_the_toolkit_which_detects_nothing(settings_of: Settings) -> None:
    tuning = {
        "objective": {"metric": "loss", "goal": "minimize", "regex": "loss=([0-9.]+)"},
        "ranges": {"lr": [0.1, 0.2]},
        "max_jobs": 2,
    }
    chosen = values(settings_of(tuning=tuning, profile="debug"))
    assert "SLIPWAY_DETECT_ANOMALY" not in chosen
    assert "/flight_recorder/" not in chosen["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"]


@pytest.mark.parametrize("profile", ["normal", "debug"])
@pytest.mark.parametrize("strategy", ["torchrun", "smddp", "smp", "mpi", "torch_xla", "none"])
def test_what_the_plugin_does_better_is_left_to_it_on_every_type(
    job_of: Callable[..., JobSpec], strategy: str, profile: str
) -> None:
    job = job_of(distribution={"strategy": strategy}, profile=profile)
    for instance_type in training_instance_types():
        resources = job.resources.model_copy(update={"instance_type": instance_type})
        facts = instance_facts(instance_type)
        names = set(
            values(
                chosen_for(job.model_copy(update={"resources": resources}), facts, facts.processes_per_host)
            )
        )
        assert not names & LEFT_TO_OTHERS
        assert not names & set(facts.plugin_environment)


@pytest.mark.parametrize(
    ("framework", "image", "renamed"),
    [
        pytest.param("2.8.0", None, False, id="before torch 2.9"),
        pytest.param("2.9.0", None, True, id="torch 2.9"),
        pytest.param("2.10.0", None, True, id="ten is more than nine"),
        pytest.param("2.9", None, True, id="an alias"),
        pytest.param(None, "1.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.9.0-gpu", True, id="image"),
        pytest.param(None, "mine/torch:2.9.0", False, id="an own image tells nothing: the names all know"),
    ],
)
def test_the_flight_recorder_has_the_names_of_its_torch(
    settings_of: Settings, framework: str | None, image: str | None, renamed: bool
) -> None:
    chosen = values(settings_of(framework=framework and {"version": framework}, image=image))
    assert ("TORCH_FR_BUFFER_SIZE" in chosen) is renamed
    assert ("TORCH_FR_DUMP_TEMP_FILE" in chosen) is renamed
    assert ("TORCH_NCCL_TRACE_BUFFER_SIZE" in chosen) is not renamed
    assert ("TORCH_NCCL_DEBUG_INFO_TEMP_FILE" in chosen) is not renamed


@pytest.mark.parametrize(
    ("distribution", "folder"),
    [
        ({"strategy": "torchrun"}, True),
        ({"strategy": "none"}, True),
        ({"strategy": "smp"}, True),
        ({"strategy": "smp", "options": {"version": 2}}, True),
        ({"strategy": "smp", "options": {"version": 1}}, False),
        ({"strategy": "smddp"}, False),
        ({"strategy": "mpi"}, False),
    ],
)
def test_a_record_needs_no_folder_that_nobody_makes(
    settings_of: Settings, distribution: dict, folder: bool
) -> None:
    path = values(settings_of(distribution=distribution))["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"]
    assert path.startswith("/opt/ml/output/data/")
    assert ("/flight_recorder/" in path) is folder


def test_the_compiler_is_told_its_gpus(settings_of: Settings) -> None:
    compiled = {"strategy": "torch_xla"}
    chosen = settings_of(distribution=compiled, resources={"instance_type": "ml.p3.8xlarge"})
    assert values(chosen)["GPU_NUM_DEVICES"] == "4"
    assert "GPU_NUM_DEVICES" not in values(settings_of())


@pytest.mark.parametrize(
    ("instance_type", "processes", "threads"),
    [
        (P4D, 8, "12"),
        (P4D, 7, "13"),
        ("ml.m5.xlarge", 1, "4"),
        ("ml.m5.xlarge", 9, "1"),
        ("ml.p9.48xlarge", 8, None),
    ],
)
def test_the_cpus_of_the_host_are_shared(
    job_of: Callable[..., JobSpec], instance_type: str, processes: int, threads: str | None
) -> None:
    job = job_of(resources={"instance_type": instance_type})
    chosen = values(chosen_for(job, instance_facts(instance_type), processes))
    assert chosen.get("OMP_NUM_THREADS") == threads


@pytest.mark.parametrize(
    ("version", "given", "replaced"),
    [
        pytest.param("2.8.0", "NCCL_DEBUG", "NCCL_DEBUG", id="the same name"),
        pytest.param(
            "2.9.0", "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE", id="the older name of it"
        ),
    ],
)
def test_the_users_value_stands_and_is_said_to(
    job_of: Callable[..., JobSpec], version: str, given: str, replaced: str
) -> None:
    job = job_of(environment={given: "mine", "OTHER": "too"}, framework={"version": version})
    chosen = chosen_for(job, instance_facts(P4D), 8)
    environment = job_environment(job.environment, chosen)
    assert environment[given] == "mine"
    assert environment["OTHER"] == "too"
    assert [item.name for item in chosen if item.overridden_by == given] == [replaced]
    assert given == replaced or replaced not in environment


def test_every_setting_has_a_reason_and_a_source(settings_of: Settings) -> None:
    everything = settings_of(
        profile="debug",
        framework={"version": "2.6.0"},
        resources={"instance_type": "ml.g5.12xlarge", "instance_count": 2},
    ) + settings_of(distribution={"strategy": "torch_xla"})
    for setting in everything:
        assert len(setting.reason) > 20
        assert setting.sources
        assert all(source.title and source.as_of for source in setting.sources)
        assert len(setting.name) <= 512 and len(setting.value) <= 512
