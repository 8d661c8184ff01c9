"""The settings of the environment: whence they come; which there are is in `cases/environment.yaml`."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.cluster.instances import InstanceFacts, instance_facts, training_instance_types
from launcher.jobs.specification import JobSpec
from launcher.planning.image_choice import job_image_software
from launcher.planning.request_view import RequestView
from launcher.planning.settings import choose_settings
from launcher.planning.strategies.catalogue import strategy_of
from launcher.planning.training_plan import Setting
from tests.planning.plan_cases import JOB, make_plan

DIGEST = "5" * 64
LEFT_TO_OTHERS = {
    "FI_PROVIDER", "FI_EFA_FORK_SAFE", "FI_EFA_USE_DEVICE_RDMA", "FI_EFA_SET_CUDA_SYNC_MEMOPS",
    "RDMAV_FORK_SAFE", "RDMAV_HUGEPAGES_SAFE", "NCCL_PROTO", "NCCL_ALGO",
    "NCCL_SOCKET_IFNAME", "NCCL_TUNER_PLUGIN", "NCCL_BUFFSIZE", "NCCL_P2P_NET_CHUNKSIZE",
    "NCCL_NVLS_ENABLE", "NCCL_IB_DISABLE", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_BLOCKING_WAIT",
    "PYTORCH_CUDA_ALLOC_CONF", "CUDA_DEVICE_MAX_CONNECTIONS",
}  # fmt: skip


def chosen_for(job: JobSpec, facts: InstanceFacts) -> list[Setting]:
    """The settings of a job that keeps no checkpoints."""
    return choose_settings(
        job,
        facts,
        facts.processes_per_host,
        with_boot=strategy_of(job).with_boot,
        source_digest=DIGEST,
        checkpoints=None,
        software=job_image_software(job, facts),
    )


def settings_of(**changes: Any) -> dict[str, Setting]:
    return {setting.name: setting for setting in make_plan(changes).settings}


@pytest.mark.parametrize("profile", ["normal", "debug"])
@pytest.mark.parametrize("strategy", ["torchrun", "smddp", "smp", "mpi", "torch_xla", "none"])
def test_what_the_plugin_does_better_is_left_to_it_on_every_type(strategy: str, profile: str) -> None:
    job = JobSpec.model_validate({**JOB, "distribution": {"strategy": strategy}, "profile": profile})
    for instance_type in training_instance_types():
        resources = job.resources.model_copy(update={"instance_type": instance_type})
        facts = instance_facts(instance_type)
        assert facts is not None
        chosen = chosen_for(job.model_copy(update={"resources": resources}), facts)
        assert not {setting.name for setting in chosen} & (LEFT_TO_OTHERS | set(facts.plugin_environment))


def test_the_boot_is_told_the_digest_of_the_code() -> None:
    facts = instance_facts(JOB["resources"]["instance_type"])
    assert facts is not None
    told = {each.name: each.value for each in chosen_for(JobSpec.model_validate(JOB), facts)}
    assert told["SLIPWAY_CODE_SHA256"] == DIGEST


@pytest.mark.parametrize(
    ("version", "given", "replaced"),
    [
        pytest.param("2.8.0", "NCCL_DEBUG", "NCCL_DEBUG", id="the same name"),
        pytest.param(
            "2.9.0", "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE", id="the older name of it"
        ),
    ],
)
def test_a_setting_says_what_the_user_chose_instead(version: str, given: str, replaced: str) -> None:
    chosen = settings_of(version=version, environment={given: "mine", "OTHER": "too"})
    assert [item.name for item in chosen.values() if item.overridden_by == given] == [replaced]


def test_every_setting_has_a_reason_and_a_source() -> None:
    everything = [
        *settings_of(version="2.6.0", type="ml.g5.12xlarge", profile="debug").values(),
        *settings_of(strategy="torch_xla").values(),
    ]
    for setting in everything:
        assert len(setting.reason) > 20
        assert setting.sources
        assert all(source.title and source.as_of for source in setting.sources)
        assert len(setting.name) <= 512 and len(setting.value) <= 512


@pytest.mark.parametrize(
    ("name", "changes", "says"),
    [
        ("FI_EFA_USE_HUGE_PAGE", {"version": "2.1.0", "type": "ml.p5.48xlarge"}, "is not known"),
        ("FI_PROVIDER", {"version": "1.13.1"}, "1.4.0"),
        ("NCCL_PROTO", {"version": "1.13.1"}, "1.4.0"),
        ("FI_EFA_USE_DEVICE_RDMA", {"version": "1.13.1"}, "1.4.0"),
        ("NCCL_PROTO", {"version": "2.0.1", "type": "ml.p4de.24xlarge"}, "1.5.0"),
        (
            "SLIPWAY_CHECKPOINT_DIR",
            {"checkpoint": {"lustre": "/c"}, "cluster": "dev"},
            "/c on the file system",
        ),
    ],
)
def test_a_reason_says_what_is_known(name: str, changes: dict[str, Any], says: str) -> None:
    assert says in settings_of(**changes)[name].reason


def test_a_known_plugin_is_not_said_to_be_unknown() -> None:
    assert "known" not in settings_of(type="ml.p5.48xlarge")["FI_EFA_USE_HUGE_PAGE"].reason


def test_the_view_of_a_request_has_its_secrets() -> None:
    secrets = {"HF_TOKEN": "team/hf", "WANDB_API_KEY": "team/wandb"}
    assert RequestView(make_plan({"secrets": secrets}).request or {}).secrets == secrets
    assert RequestView(make_plan({}).request or {}).secrets == {}


@pytest.mark.parametrize("text", ["{", "[]", "1"])
def test_what_another_request_has_there_is_no_secret(text: str) -> None:
    assert RequestView({"Environment": {"SLIPWAY_SECRETS": text}}).secrets == {}
