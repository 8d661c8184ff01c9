"""The plan's requests beside those of the SageMaker Python SDK, version 2."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.planning.comparison import differences, plan_of
from tests.planning.plan_cases import STARTS

GOLDEN = {
    file.stem: json.loads(file.read_text("utf-8"))
    for file in sorted((Path(__file__).parents[1] / "golden").glob("*.json"))
}

EVERYWHERE = {
    "Environment": "the planned settings; the SDK sends none",
    "ProfilerConfig.DisableProfiler": "Debugger is off unless the job asks for it, its profiler too",
    "ProfilerConfig.S3OutputPath": "as above",
}
HOOK = {
    "DebugHookConfig.S3OutputPath": "Debugger is off unless the job asks for it",
    "DebugHookConfig.CollectionConfigurations": "as above",
}
PROCESSES = {
    "HyperParameters.sagemaker_mpi_num_of_processes_per_host": (
        "the toolkit's runner reads it in every mode; the SDK sends it with MPI alone"
    ),
}
CHECKPOINTS = {"CheckpointConfig.S3Uri": "the prefix ends in the job's own name, so no two jobs share one"}
BOOT = {
    "AlgorithmSpecification.ContainerEntrypoint": "the boot starts the script, not the toolkit",
    "AlgorithmSpecification.ContainerArguments": "as above",
    "InputDataConfig.code.ChannelName": "the source and the boot come in a channel of their own",
    "InputDataConfig.code.DataSource.S3DataSource.S3DataType": "as above",
    "InputDataConfig.code.DataSource.S3DataSource.S3Uri": "as above",
    "InputDataConfig.code.DataSource.S3DataSource.S3DataDistributionType": "as above",
    **{
        f"HyperParameters.sagemaker_{name}": "an instruction to the toolkit"
        for name in ("submit_directory", "program", "container_log_level", "job_name", "region")
    },
}
TORCHRUN = {
    **BOOT,
    "HyperParameters.sagemaker_torch_distributed_enabled": "an instruction to the toolkit",
    "HyperParameters.sagemaker_instance_type": "as above",
}

EXPECTED: dict[str, dict[str, str]] = {
    "mpi-options": {**EVERYWHERE, **HOOK},
    "mpi-p4d": {**EVERYWHERE, **HOOK},
    "none-single": {**EVERYWHERE, **HOOK, **BOOT},
    "smddp-mpi-options": {**EVERYWHERE, **HOOK, **PROCESSES},
    "smddp-p4d": {**EVERYWHERE, **HOOK, **PROCESSES},
    "smddp-p4de-checkpoint": {**EVERYWHERE, **PROCESSES, **CHECKPOINTS},
    "smp1-checkpoint": {**EVERYWHERE, **CHECKPOINTS},
    "smp1-p4d": {**EVERYWHERE, **HOOK},
    "smp2-p4d": {
        **EVERYWHERE,
        **HOOK,
        **TORCHRUN,
        "HyperParameters.sagemaker_distributed_dataparallel_enabled": "an instruction to the toolkit",
    },
    "torch-xla-p3": {**EVERYWHERE, **HOOK, **PROCESSES},
    "torchrun-checkpoint": {
        **EVERYWHERE,
        **CHECKPOINTS,
        **TORCHRUN,
        "HyperParameters.name": "the boot passes texts as they are; the toolkit expects them in JSON",
    },
    "torchrun-p4d": {**EVERYWHERE, **HOOK, **TORCHRUN},
}
"""Every difference of a job's request, with what makes ours the better one."""

NOT_FOR_SMP = {
    "DebugHookConfig.S3OutputPath": "Debugger is not available for SMP (DBG002); the SDK leaves it on",
    "DebugHookConfig.CollectionConfigurations": "as above",
    "ProfilerConfig.DisableProfiler": "as above",
    "ProfilerConfig.S3OutputPath": "as above",
}
WITH_DEBUGGER = {
    "smddp-p4de-checkpoint": {
        "ProfilerConfig.DisableProfiler": "Debugger, SMDDP and checkpoints do not go together (DBG001): the "
        "SDK turns the hook off, the launcher all of it",
        "ProfilerConfig.S3OutputPath": "as above",
    },
    "torchrun-checkpoint": {
        "ProfilerConfig.DisableProfiler": "the same for torchrun (DBG001)",
        "ProfilerConfig.S3OutputPath": "as above",
    },
    "smp1-checkpoint": {
        "ProfilerConfig.DisableProfiler": "Debugger is not available for SMP (DBG002)",
        "ProfilerConfig.S3OutputPath": "as above",
    },
    "smp1-p4d": NOT_FOR_SMP,
    "smp2-p4d": NOT_FOR_SMP,
}


def masked(request: dict[str, Any]) -> dict[str, Any]:
    """The request with one name for what differs from account to account and from job to job."""
    text = json.dumps(request)
    text = text.replace(request["TrainingJobName"], "JOBNAME").replace("s3://placeholder/", "s3://BUCKET/")
    text = re.sub(r'arn:aws:iam::\d{12}:role/[^"]+', "ROLE", text)
    text = re.sub(r"s3://[A-Za-z0-9/]+/sourcedir\.tar\.gz", "ARCHIVE", text)
    return json.loads(text)


def test_every_golden_request_is_compared() -> None:
    assert sorted(EXPECTED) == sorted(GOLDEN)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_request_differs_from_the_sdks_only_where_it_is_better(name: str) -> None:
    plan = plan_of(GOLDEN[name]["job"])
    assert not plan.refused, plan.findings
    found = differences(masked(plan.request), masked(GOLDEN[name]["request"]))
    assert {path: found[path] for path in found if path not in EXPECTED[name]} == {}
    assert [path for path in EXPECTED[name] if path not in found] == []


@pytest.mark.parametrize("name", GOLDEN)
def test_with_debugger_asked_for_its_configuration_is_the_sdks(name: str) -> None:
    plan = plan_of({**GOLDEN[name]["job"], "debugger": True})
    found = {
        path: values
        for path, values in differences(masked(plan.request), masked(GOLDEN[name]["request"])).items()
        if path.startswith(("DebugHookConfig", "ProfilerConfig"))
    }
    assert sorted(found) == sorted(WITH_DEBUGGER.get(name, {})), found


@pytest.mark.parametrize("name", [name for name in GOLDEN if GOLDEN[name]["job"].get("checkpoint")])
def test_the_checkpoint_prefix_is_the_jobs_own(name: str) -> None:
    job = GOLDEN[name]["job"]
    assert plan_of(job).request["CheckpointConfig"] == {
        "S3Uri": f"{job['checkpoint']['s3_uri']}/g-0unique",
        "LocalPath": job["checkpoint"]["local_path"],
    }


@pytest.mark.parametrize("name", ["torchrun-p4d", "none-single", "smp2-p4d", "mpi-p4d", "smddp-p4d"])
def test_the_toolkit_is_told_of_a_search_what_the_sdk_tells_it(name: str) -> None:
    sent = GOLDEN[name]["request"]["HyperParameters"]
    tuning = {**STARTS["tuned"]["tuning"], "ranges": {"momentum": {"min": 0.1, "max": 0.9}}}
    plan = plan_of({"distribution": {"strategy": "none"}, **GOLDEN[name]["job"], "tuning": tuning})
    assert not plan.refused and plan.view is not None, plan.findings
    ours = dict(plan.view.training["StaticHyperParameters"])
    assert ours["sagemaker_submit_directory"].endswith('/sourcedir.tar.gz"')
    varying = {"sagemaker_submit_directory", "sagemaker_job_name"}
    # The toolkit's runner reads it in every mode; the SDK sends it with MPI alone.
    extra = {"sagemaker_mpi_num_of_processes_per_host"} - sent.keys()
    # It says what is off, which the toolkit takes for granted.
    missing = {key for key, value in sent.items() if value == "false" and key not in ours}
    assert {key: value for key, value in ours.items() if key not in varying | extra} == {
        key: value for key, value in sent.items() if key not in varying | missing
    }
