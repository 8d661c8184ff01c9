"""The environment: what is set, what is left alone, what the user's values do, and the names of secrets."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from launcher.cluster.instances import InstanceFacts, instance_facts, training_instance_types
from launcher.failure_modes.model import Finding
from launcher.jobs.load_job import load_job
from launcher.jobs.specification import JobSpec
from launcher.planning.image_choice import job_image_software
from launcher.planning.planner import plan_job
from launcher.planning.request_view import RequestView
from launcher.planning.settings import choose_network_settings, choose_settings, job_environment
from launcher.planning.strategies.catalogue import strategy_of
from launcher.planning.training_plan import Setting, TrainingPlan
from launcher.session.prepare_plan import source_of
from tests.planning.test_tuning_job import TUNING

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
    return choose_settings(
        job,
        facts,
        processes,
        with_boot=strategy_of(job).with_boot,
        source_digest=DIGEST,
        checkpoints=None,
        software=job_image_software(job, facts),
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


G5 = "ml.g5.12xlarge"
OLD = {"FI_PROVIDER", "NCCL_PROTO", "FI_EFA_USE_DEVICE_RDMA"}
Chosen = Callable[..., dict[str, Setting]]


@pytest.fixture
def chosen_on(write_job: Callable[..., Path]) -> Chosen:
    """The settings of the network for a PyTorch version, an instance type and a number of hosts."""

    def chosen(version: str | None, instance_type: str, hosts: int = 2, **fields: Any) -> dict[str, Setting]:
        loaded = load_job(
            write_job(
                framework=version and {"version": version},
                resources={"instance_type": instance_type, "instance_count": hosts},
                **fields,
            )
        )
        assert loaded.spec is not None, loaded.findings
        facts = instance_facts(instance_type)
        found = list(choose_network_settings(loaded.spec, facts, job_image_software(loaded.spec, facts)))
        assert len({setting.name for setting in found}) == len(found)
        return {setting.name: setting for setting in found}

    return chosen


@pytest.mark.parametrize(
    ("version", "instance_type", "set_for_it"),
    [
        pytest.param("1.13.1", P4D, OLD, id="plugin 1.4 where GPUs and device read by RDMA"),
        pytest.param("2.0.1", "ml.p4de.24xlarge", OLD, id="plugin 1.5"),
        pytest.param("2.0.1", G5, OLD - {"FI_EFA_USE_DEVICE_RDMA"}, id="a device without RDMA read"),
        pytest.param("2.0.1", "ml.g6e.12xlarge", OLD - {"FI_EFA_USE_DEVICE_RDMA"}, id="no GPUDirect RDMA"),
        pytest.param("2.0.1", "ml.g5.2xlarge", set(), id="no EFA"),
        pytest.param("2.0.0", P4D, set(), id="a plugin whose version nobody knows"),
        pytest.param("2.1.0", P4D, set(), id="another"),
        pytest.param("2.5.1", P4D, set(), id="plugin 1.12"),
        pytest.param("2.13.0", P5, set(), id="plugin 1.20"),
    ],
)
def test_an_old_plugin_is_told_what_newer_ones_do_by_themselves(
    chosen_on: Chosen, version: str, instance_type: str, set_for_it: set[str]
) -> None:
    chosen = chosen_on(version, instance_type)
    assert OLD & set(chosen) == set_for_it
    assert {chosen[name].value for name in set_for_it} <= {"efa", "simple", "1"}
    assert all("1.4.0" in chosen[name].reason or "1.5.0" in chosen[name].reason for name in set_for_it)


@pytest.mark.parametrize(
    ("version", "instance_type", "hosts", "found"),
    [
        pytest.param("2.8.0", P5, 2, True, id="several hosts with EFA"),
        pytest.param("2.8.0", "ml.g5.8xlarge", 2, True, id="one EFA interface"),
        pytest.param("2.1.0", P4D, 2, True, id="unknown plugin"),
        pytest.param("2.0.1", P4D, 2, False, id="a libfabric that does not read it"),
        pytest.param("2.8.0", P5, 1, False, id="one host has no network"),
        pytest.param("2.8.0", "ml.g5.2xlarge", 2, False, id="no EFA"),
        pytest.param("2.8.0", "ml.c5n.18xlarge", 2, False, id="no GPUs"),
    ],
)
def test_forking_workers_do_not_meet_huge_pages(
    chosen_on: Chosen, version: str, instance_type: str, hosts: int, found: bool
) -> None:
    chosen = chosen_on(version, instance_type, hosts)
    assert ("FI_EFA_USE_HUGE_PAGE" in chosen) is found
    assert not found or chosen["FI_EFA_USE_HUGE_PAGE"].value == "0"


def test_the_reason_says_where_the_plugin_is_not_known(chosen_on: Chosen) -> None:
    known, unknown = chosen_on("2.8.0", P5), chosen_on("2.1.0", P5)
    assert "unknown" not in known["FI_EFA_USE_HUGE_PAGE"].reason
    assert "is not known" in unknown["FI_EFA_USE_HUGE_PAGE"].reason


@pytest.mark.parametrize(
    ("instance_type", "found"),
    [
        ("ml.g5.12xlarge", True),
        ("ml.g5.48xlarge", True),
        ("ml.g6.24xlarge", True),
        ("ml.g5.16xlarge", False),
        ("ml.g6e.12xlarge", False),
        (P4D, False),
    ],
)
def test_shared_memory_copies_by_engine_where_several_gpus_have_no_nvlink(
    chosen_on: Chosen, instance_type: str, found: bool
) -> None:
    chosen = chosen_on("2.8.0", instance_type, 1)
    assert ("NCCL_SHM_USE_CUDA_MEMCPY" in chosen) is found
    assert not found or chosen["NCCL_SHM_USE_CUDA_MEMCPY"].value == "1"


@pytest.mark.parametrize(
    ("version", "instance_type", "hosts", "strategy", "found"),
    [
        pytest.param("2.6.0", P5, 2, "torchrun", True, id="NCCL 2.23 and an unknown plugin"),
        pytest.param("2.4.0", P5, 2, "torchrun", True, id="NCCL 2.22 and plugin 1.15"),
        pytest.param("2.3.0", P5, 2, "torchrun", True, id="NCCL 2.21"),
        pytest.param("2.5.1", P5, 2, "torchrun", False, id="plugin 1.12 does not read it"),
        pytest.param("2.1.0", P5, 2, "torchrun", False, id="NCCL 2.18"),
        pytest.param("2.11.0", P5, 2, "torchrun", False, id="NCCL 2.28"),
        pytest.param("2.7.1", P5, 2, "torchrun", False, id="an unknown NCCL"),
        pytest.param("2.6.0", P5, 1, "torchrun", False, id="one host has no network"),
        pytest.param("2.6.0", "ml.g5.2xlarge", 2, "torchrun", False, id="no EFA"),
        pytest.param("2.6.0", "ml.g5.8xlarge", 2, "torchrun", True, id="one EFA interface"),
        pytest.param("2.4.1", P5, 2, "smp", False, id="an image with an NCCL of its own"),
    ],
)
def test_errors_of_the_plugin_end_the_job_where_nccl_ignores_them(
    chosen_on: Chosen, version: str, instance_type: str, hosts: int, strategy: str, found: bool
) -> None:
    chosen = chosen_on(version, instance_type, hosts, distribution={"strategy": strategy})
    assert ("OFI_NCCL_ABORT_ON_ERROR" in chosen) is found


def test_nothing_is_known_of_an_own_image(chosen_on: Chosen) -> None:
    image = "1.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.0.1-gpu-py310"
    assert set(chosen_on(None, P5, image=image)) == {"FI_EFA_USE_HUGE_PAGE"}


def test_an_unknown_type_and_one_without_gpus_get_nothing(chosen_on: Chosen) -> None:
    assert chosen_on("2.8.0", "ml.p9.48xlarge") == {}
    assert chosen_on("2.8.0", "ml.m5.xlarge") == {}


SECRETS = {"HF_TOKEN": "team/hf", "WANDB_API_KEY": "team/wandb"}
TWO_P4D: dict[str, Any] = {"instance_type": "ml.p4d.24xlarge", "instance_count": 2}
Plan = Callable[..., TrainingPlan]


@pytest.fixture
def plan_of(write_job: Callable[..., Path]) -> Plan:
    def plan(**fields: Any) -> TrainingPlan:
        job = load_job(write_job(**{"secrets": SECRETS, "resources": TWO_P4D, **fields})).spec
        assert job is not None
        source = source_of(job, Path(str(write_job(**fields))).parent)
        return plan_job(
            job, None, unique="0unique", source=source, session_region="us-west-2", today=date(2026, 11, 22)
        )

    return plan


def about_secrets(plan: TrainingPlan) -> list[Finding]:
    return [found for found in plan.findings if found.path == ("secrets",)]


@pytest.mark.parametrize(
    "distribution",
    [{"strategy": "torchrun"}, {"strategy": "none"}, {"strategy": "smp", "options": {"version": 2}}],
    ids=lambda value: value["strategy"],
)
def test_the_boot_is_told_the_names_in_one_variable(plan_of: Plan, distribution: dict[str, Any]) -> None:
    plan = plan_of(distribution=distribution, framework={"version": "2.5.1"})
    assert plan.request is not None
    environment = plan.request["Environment"]
    assert json.loads(environment["SLIPWAY_SECRETS"]) == SECRETS
    assert not set(SECRETS) & set(environment)
    assert RequestView(plan.request).secrets == SECRETS
    assert not about_secrets(plan)


def test_a_request_without_secrets_has_no_such_variable(plan_of: Plan) -> None:
    plan = plan_of(secrets={}, distribution={"strategy": "torchrun"})
    assert plan.request is not None
    assert "SLIPWAY_SECRETS" not in plan.request["Environment"]
    assert RequestView(plan.request).secrets == {}


@pytest.mark.parametrize("text", ["{", "[]", "1"])
def test_what_another_request_has_there_is_no_secret(text: str) -> None:
    assert RequestView({"Environment": {"SLIPWAY_SECRETS": text}}).secrets == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"distribution": {"strategy": "smddp"}},
        {"distribution": {"strategy": "mpi"}},
        {"distribution": {"strategy": "smp", "options": {"version": 1}}},
        {"distribution": {"strategy": "torch_xla"}},
        {"distribution": {"strategy": "torchrun"}, "tuning": TUNING},
        {"distribution": {"strategy": "smddp"}, "tuning": TUNING},
    ],
    ids=str,
)
def test_what_the_images_toolkit_starts_gets_none_and_is_refused(
    plan_of: Plan, fields: dict[str, Any]
) -> None:
    plan = plan_of(**fields)
    (found,) = about_secrets(plan)
    assert (found.code, found.blocks) == ("SPEC003", True)
    assert "the script would not have HF_TOKEN, WANDB_API_KEY" in found.message
    assert plan.request is None


def test_more_names_than_a_variable_holds_are_refused_at_their_field(plan_of: Plan) -> None:
    arn = "arn:aws:secretsmanager:us-west-2:111122223333:secret:team/hf-AbCdEf"
    plan = plan_of(secrets={f"TOKEN_{number}": arn for number in range(8)}, distribution={"strategy": "none"})
    (found,) = about_secrets(plan)
    assert (found.code, found.blocks) == ("SPEC004", True)
    assert found.remedy == "Change `secrets`: at most 512 characters."
