"""The hosts of a job: types, networks, processes, CPUs, disks, spot capacity, and images.

EFA006, DIST001, DIST002, DATA006, SPEC003, SPEC004, IMG001, IMG002, XLA001, XLA007 to XLA009. A p4d has 96
vCPUs, 12 for each of its processes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest

from launcher.session.prepare_plan import JobSource, prepare, read_job
from tests.rules.job.tuning_job import TUNING

KNOWN = "ml.p4d.24xlarge"


@pytest.mark.parametrize(
    ("resources", "subjects"),
    [
        ({"instance_type": KNOWN, "instance_types": ["ml.p5.48xlarge"]}, []),
        ({"instance_type": "ml.p4d.25xlarge"}, ["resources.instance_type"]),
        (
            {"instance_type": KNOWN, "instance_types": ["ml.p5.48xlarge", "ml.p5.49xlarge"]},
            ["resources.instance_types.1"],
        ),
    ],
)
def test_an_unknown_type_is_named_at_its_place(judge, resources: dict, subjects: list[str]) -> None:
    found = judge("SPEC004", resources=resources)
    assert [finding.subject for finding in found] == subjects
    assert all("Did you mean ml.p" in finding.remedy for finding in found)


def test_another_type_stands_at_its_own_line(judge) -> None:
    resources = {"instance_type": KNOWN, "instance_types": ["ml.p5.48xlarge", "ml.p5.49xlarge"]}
    first = judge("SPEC004", resources={"instance_type": "ml.p4d.25xlarge"})
    (later,) = judge("SPEC004", resources=resources)
    assert later.location.line > first[0].location.line


@pytest.mark.parametrize(
    ("types", "choice", "retries", "found"),
    [
        (["ml.p4de.24xlarge"], "launcher", 0, "info"),
        (["ml.p4de.24xlarge"], "launcher", 2, None),
        (["ml.p4de.24xlarge"], "service", 0, None),
        ([], "launcher", 0, None),
    ],
)
def test_other_types_without_retries_are_an_information(
    severity_of, types: list[str], choice: str, retries: int, found: str | None
) -> None:
    resources = {"instance_type": KNOWN, "instance_types": types, "instance_choice": choice}
    assert severity_of("SPEC003", resources=resources, limits={"max_retries": retries}) == found


@pytest.mark.parametrize(
    ("instance_type", "hosts", "found"),
    [
        pytest.param("ml.g5.2xlarge", 2, "has no EFA", id="no EFA"),
        pytest.param("ml.g5.2xlarge", 1, None, id="no EFA, and no need of it"),
        pytest.param("ml.g5.12xlarge", 2, "no GPUDirect RDMA", id="EFA without RDMA"),
        pytest.param("ml.p3dn.24xlarge", 2, "no GPUDirect RDMA", id="the oldest EFA type"),
        pytest.param("ml.p4d.24xlarge", 2, None, id="EFA with RDMA"),
        pytest.param("ml.g7.12xlarge", 2, None, id="nobody knows of its RDMA"),
        pytest.param("ml.m5.xlarge", 4, None, id="CPUs wait for no gradients of GPUs"),
        pytest.param("ml.p9.48xlarge", 2, None, id="unknown type"),
    ],
)
def test_several_hosts_want_efa(judge, instance_type: str, hosts: int, found: str | None) -> None:
    findings = judge("EFA006", resources={"instance_type": instance_type, "instance_count": hosts})
    assert bool(findings) is (found is not None)
    for finding in findings:
        assert found in finding.message
        assert finding.message.startswith(f"{hosts} hosts of {instance_type}")
        assert finding.severity == "warning"


@pytest.mark.parametrize(
    ("instance_type", "subjects"),
    [
        ("ml.p6e-gb200.36xlarge", []),
        ("ml.trn2u.48xlarge", []),
        ("ml.p6-b200.48xlarge", ["resources.placement"]),
        ("ml.trn2.48xlarge", ["resources.placement"]),
    ],
)
def test_only_hosts_of_ultra_servers_are_placed(judge, instance_type: str, subjects: list[str]) -> None:
    resources = {"instance_type": instance_type, "instance_count": 2, "placement": {"share": True}}
    assert [found.subject for found in judge("SPEC003", resources=resources)] == subjects
    del resources["placement"]
    assert judge("SPEC003", resources=resources) == []


P4D = "ml.p4d.24xlarge"


M5 = "ml.m5.xlarge"


@pytest.mark.parametrize(
    ("resources", "found"),
    [
        pytest.param({"instance_type": P4D, "volume_size_gb": 500}, "info", id="beside disks of its own"),
        pytest.param({"instance_type": P4D}, None, id="the default is nobody's wish"),
        pytest.param({"instance_type": M5, "volume_size_gb": 500}, None, id="the only disk there is"),
    ],
)
def test_a_volume_without_effect_is_an_information(severity_of, resources: dict, found: str | None) -> None:
    assert severity_of("SPEC003", resources=resources) == found


PRICES = json.loads(files("launcher.planning").joinpath("prices.json").read_text("utf-8"))
NONE = {"strategy": "none"}
TWO_P4D = {"instance_type": "ml.p4d.24xlarge", "instance_count": 2}


@pytest.mark.parametrize(
    ("distribution", "instance_type", "found"),
    [
        pytest.param(None, "ml.p4d.24xlarge", "warning", id="no distribution is the strategy none"),
        pytest.param(NONE, "ml.p4d.24xlarge", "warning", id="the strategy none"),
        pytest.param(NONE, "ml.trn1.32xlarge", "warning", id="Neuron cores"),
        pytest.param({**NONE, "processes_per_host": 1}, "ml.p4d.24xlarge", None, id="asked for"),
        pytest.param({"strategy": "torchrun"}, "ml.p4d.24xlarge", None, id="torchrun starts them all"),
        pytest.param(NONE, "ml.g5.xlarge", None, id="one GPU"),
        pytest.param(NONE, "ml.m5.xlarge", None, id="no GPU"),
        pytest.param(NONE, "ml.p9.48xlarge", None, id="an unknown type"),
    ],
)
def test_idle_accelerators_are_a_warning(
    severity_of, distribution: dict | None, instance_type: str, found: str | None
) -> None:
    assert (
        severity_of("DIST001", distribution=distribution, resources={"instance_type": instance_type}) == found
    )


STARTS_ONE_PER_GPU = """
import subprocess, sys, torch
started = []
for rank in range(torch.cuda.device_count()):
    started.append(subprocess.Popen([sys.executable, "worker.py", f"--rank={rank}"]))
for each in started:
    each.wait()
"""
STARTS_LIGHTNING = """
import argparse, pytorch_lightning as pl
trainer = pl.Trainer.from_argparse_args(argparse.Namespace(gpus=8))
"""


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (STARTS_ONE_PER_GPU, []),
        (STARTS_LIGHTNING, []),
        ('import subprocess, sys\nsubprocess.Popen([sys.executable, "tensorboard.py"])\n', ["DIST001"]),
    ],
)
def test_a_script_that_starts_a_process_for_each_gpu_lets_none_idle(
    write_job: Callable[..., Path], text: str, codes: list[str]
) -> None:
    file = write_job(distribution=NONE, resources={"instance_type": "ml.p4d.24xlarge"})
    (file.parent / "src" / "train.py").write_text(text, "utf-8")
    found = prepare(read_job(JobSource(file)), session_region="us-west-2").findings
    assert [each.code for each in found if each.code == "DIST001"] == codes


def test_it_says_how_many_stand_idle_and_what_they_cost(judge) -> None:
    (found,) = judge("DIST001", distribution=None, resources=TWO_P4D, region="us-east-1")
    (price,) = [
        entry["prices"]["ml.p4d.24xlarge"]
        for entry in PRICES["lists"]
        if entry["region"] == "us-east-1" and "ml.p4d.24xlarge" in entry["prices"]
    ]
    assert "14 of the 16 GPUs stand idle" in found.message
    assert f"cost {price * 2 * 14 / 16:.2f} USD of {price * 2:.2f} USD an hour" in found.message
    assert "torchrun" in found.remedy


@pytest.mark.parametrize(
    ("distribution", "path"),
    [(None, ("resources", "instance_type")), (NONE, ("distribution", "strategy"))],
)
def test_it_stands_at_the_strategy_or_where_none_is_given_at_the_type(
    judge, distribution: dict | None, path: tuple[str, str]
) -> None:
    (found,) = judge("DIST001", distribution=distribution, resources=TWO_P4D)
    assert found.path == path
    assert ("without `distribution`" in found.message) is (distribution is None)


def test_what_is_paid_for_whole_has_no_cost_of_its_idle_part(judge) -> None:
    plan = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/large"
    resources = {
        "instance_type": "ml.trn1.32xlarge",
        "instance_count": 2,
        "capacity": {"training_plan": plan},
    }
    (found,) = judge("DIST001", distribution=NONE, resources=resources)
    assert "62 of the 64 NeuronCores stand idle" in found.message
    assert "USD" not in found.message


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("import jax\njax.grad(abs)\n", "Shard the arrays over jax.devices()"),
        ("import tensorflow as tf\ntf.keras.Model().fit([1])\n", "a tf.distribute.MirroredStrategy()"),
        ("import jax\njax.grad(abs)\njax.make_mesh((8,), 'x')\n", None),
        ("import tensorflow as tf\ntf.distribute.MirroredStrategy()\n", None),
    ],
)
def test_idle_accelerators_are_put_to_use_in_the_frameworks_way(
    judge, script: str, words: str | None
) -> None:
    found = judge("DIST001", files={"src/train.py": script}, distribution=NONE)
    assert len(found) == (words is not None)
    assert words is None or (words in found[0].remedy and "torchrun" not in found[0].remedy)


def test_a_shell_script_starts_its_ranks_itself(judge, tmp_path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.sh").write_text("torchrun train.py\n")
    code = {"source_dir": "src", "entry_point": "train.sh"}
    assert judge("DIST001", code_section=code, distribution=NONE) == []


@pytest.mark.parametrize(
    ("strategy", "here", "remedy"),
    [
        ("torchrun", False, "Leave `processes_per_host` out, or set it to 8."),
        (
            "torchrun",
            True,
            "Leave `processes_per_host` out, and give --processes 4, which is for this machine alone.",
        ),
        ("none", True, "Leave `processes_per_host` out, or set it to 1."),
    ],
)
def test_fewer_processes_on_this_machine_are_an_option_of_the_command(
    judge, strategy: str, here: bool, remedy: str
) -> None:
    asked = {"strategy": strategy, "processes_per_host": 4}
    (found,) = judge("DIST001", distribution=asked, resources=TWO_P4D, here=here)
    assert found.remedy == remedy


def test_a_run_on_this_machine_has_other_devices(judge) -> None:
    assert judge("DIST001", distribution=None, here=True) == []


@pytest.mark.parametrize(
    ("job", "subject"),
    [
        pytest.param({"hyperparameters": {"num_workers": 12}}, None, id="as many as CPUs"),
        pytest.param(
            {"hyperparameters": {"num_workers": 13}}, "hyperparameters.num_workers", id="one more than CPUs"
        ),
        pytest.param(
            {"hyperparameters": {"dataloader-num-workers": "13"}},
            "hyperparameters.dataloader-num-workers",
            id="by another name, as text",
        ),
        pytest.param({"hyperparameters": {"num_workers": "auto"}}, None, id="no number"),
        pytest.param({"hyperparameters": {"workers_per_day": 99}}, None, id="another meaning"),
        pytest.param(
            {"hyperparameters": {"num_workers": 12}, "distribution": {"strategy": "none"}},
            None,
            id="one process has all CPUs",
        ),
        pytest.param(
            {"hyperparameters": {"num_workers": 97}, "distribution": {"strategy": "none"}},
            "hyperparameters.num_workers",
            id="more than all CPUs",
        ),
        pytest.param(
            {"code_section": {"source_dir": "src", "entry_point": "train.py", "arguments": ["--workers=13"]}},
            "code.arguments.0",
            id="an argument in one word",
        ),
        pytest.param(
            {
                "code_section": {
                    "source_dir": "src",
                    "entry_point": "train.py",
                    "arguments": ["--lr", "1", "--num-workers", "13"],
                }
            },
            "code.arguments.2",
            id="an argument in two words",
        ),
        pytest.param(
            {
                "hyperparameters": {"num_workers": 99},
                "resources": {"instance_type": "ml.p9.48xlarge"},
            },
            None,
            id="unknown type",
        ),
        *(
            pytest.param(
                {
                    "hyperparameters": {"num_workers": workers},
                    "resources": {"instance_type": "ml.m5.xlarge"},
                    "distribution": {"strategy": "torchrun", "processes_per_host": 8},
                },
                subject,
                id=f"{workers} for each of more processes than vCPUs",
            )
            for workers, subject in ((1, None), (2, "hyperparameters.num_workers"))
        ),
    ],
)
def test_workers_have_their_cpus(judge, job: dict, subject: str | None) -> None:
    assert [finding.subject for finding in judge("DATA006", **job)] == ([subject] if subject else [])


@pytest.mark.parametrize(
    "given",
    [
        {"hyperparameters": {"data.num_workers": 64}},
        {"hyperparameters": {"dl_workers": 64}},
        {"environment": {"NUM_WORKERS": "64"}},
        {
            "code_section": {
                "source_dir": "src",
                "entry_point": "train.py",
                "arguments": ["trainer.workers=64"],
            }
        },
    ],
)
def test_workers_are_known_by_any_name_and_way(severity_of, given: dict) -> None:
    assert severity_of("DATA006", **given) == "warning"


def test_the_arithmetic_and_a_fitting_number_are_told(judge) -> None:
    (finding,) = judge("DATA006", hyperparameters={"num_workers": 16})
    assert "8 processes make 128 workers on the 96 vCPUs" in finding.message
    assert "at most 11" in finding.remedy
    assert finding.severity == "warning"


OWN_IMAGE = {"framework": None, "image": "111122223333.dkr.ecr.us-west-2.amazonaws.com/mine:1"}


@pytest.mark.parametrize(("strategy", "found"), [("torchrun", "warning"), ("none", "warning"), ("mpi", None)])
def test_an_image_of_ones_own_needs_the_toolkit_where_the_boot_would_do_without(
    severity_of, strategy: str, found: str | None
) -> None:
    job = {"distribution": {"strategy": strategy}, **OWN_IMAGE}
    assert severity_of("DIST002", tuning=TUNING, **job) == found
    assert severity_of("DIST002", **job) is None


AWS = "763104351884.dkr.ecr.us-west-2.amazonaws.com"


@pytest.mark.parametrize(
    ("image", "found"),
    [
        ("pytorch/pytorch:2.8.0-cuda12.6-cudnn9-runtime", "error"),
        ("docker.io/me/mine:1", "error"),
        (f"{AWS}/pytorch-training:2.9.9-gpu-py312", "warning"),
        (f"{AWS}/pytorch-training", "warning"),
        (f"{AWS}/pytorch-inference:2.6.0-gpu-py312", "warning"),
        (f"{AWS}/pytorch-training:2.10.0-gpu-py313-cu130-ubuntu22.04-sagemaker", None),
        (f"{AWS}/pytorch:2.13-cu130-amzn2023-sagemaker", None),
        (f"{AWS}/pytorch-training:2.10.0-gpu-py310-cu130-ubuntu22.04-sagemaker", "warning"),
        ("111122223333.dkr.ecr.us-west-2.amazonaws.com/pytorch-inference", None),
        ("111122223333.dkr.ecr.us-iso-east-1.c2s.ic.gov/mine:1", None),
    ],
)
def test_an_image_that_cannot_be_pulled_is_said_before(severity_of, image: str, found: str | None) -> None:
    job = {"framework": None, "image": image}
    assert severity_of("IMG001", **job) == found
    assert severity_of("IMG001", **job, here=True) is None


@pytest.mark.parametrize(
    ("region", "registry", "found"),
    [
        ("me-south-1", "763104351884.dkr.ecr.me-south-1.amazonaws.com", "warning"),
        ("me-south-1", "217643126080.dkr.ecr.me-south-1.amazonaws.com", None),
        ("cn-north-1", "111122223333.dkr.ecr.cn-north-1.amazonaws.com", "error"),
        ("cn-north-1", "111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn", None),
    ],
)
def test_a_registry_is_that_of_its_region(severity_of, region: str, registry: str, found: str | None) -> None:
    image = f"{registry}/pytorch-training:2.10.0-gpu-py313"
    job = {"framework": None, "image": image, "region": region, "cluster": None}
    role = f"arn:aws{'-cn' if region.startswith('cn') else ''}:iam::111122223333:role/training"
    assert severity_of("IMG001", **job, role_arn=role) == found


def test_an_unknown_version_of_awss_comes_with_those_near_it(judge) -> None:
    (finding,) = judge("IMG001", framework=None, image=f"{AWS}/pytorch-training:2.9.9-gpu-py312")
    assert "2.9.0" in finding.remedy
    assert finding.location is not None


@pytest.mark.parametrize(
    ("tag", "instance_type", "found"),
    [
        ("2.10.0-cpu-py313", "ml.g5.12xlarge", "warning"),
        ("2.10.0-gpu-py313", "ml.g5.12xlarge", None),
        ("2.10.0-cpu-py313", "ml.m5.xlarge", None),
    ],
)
def test_an_image_for_cpus_leaves_gpus_idle(
    severity_of, tag: str, instance_type: str, found: str | None
) -> None:
    job = {"framework": None, "image": f"{AWS}/pytorch-training:{tag}"}
    assert severity_of("IMG002", **job, resources={"instance_type": instance_type}) == found


P3 = "ml.p3.16xlarge"


@pytest.mark.parametrize(
    ("value", "strategy", "instance_type", "found"),
    [
        pytest.param("8", "torch_xla", P3, None, id="the GPUs of the host"),
        pytest.param("4", "torch_xla", P3, "error", id="fewer"),
        pytest.param("9", "torch_xla", P3, "error", id="more"),
        pytest.param("all", "torch_xla", P3, "error", id="no number"),
        pytest.param("4", "torchrun", P3, None, id="without the compiler nobody reads it"),
        pytest.param("4", "torch_xla", "ml.p9.48xlarge", None, id="unknown type"),
        pytest.param(None, "torch_xla", P3, None, id="the plan sets it"),
    ],
)
def test_gpu_num_devices(
    severity_of, value: str | None, strategy: str, instance_type: str, found: str | None
) -> None:
    environment = {} if value is None else {"GPU_NUM_DEVICES": value}
    job = {"distribution": {"strategy": strategy}, "resources": {"instance_type": instance_type}}
    assert severity_of("XLA001", environment=environment, **job) == found


@pytest.mark.parametrize("code", ["XLA007", "XLA008", "XLA009"])
def test_what_the_compiler_changes_is_an_information(severity_of, code: str) -> None:
    compiled = {"distribution": {"strategy": "torch_xla"}, "resources": {"instance_type": P3}}
    assert severity_of(code, **compiled) == "info"
    assert severity_of(code) is None


def test_the_batch_to_be_tuned_again_is_named(judge) -> None:
    compiled = {"distribution": {"strategy": "torch_xla"}, "resources": {"instance_type": P3}}
    (finding,) = judge("XLA008", data={"batch_size": 24}, **compiled)
    assert "24" in finding.message


SHELL = {"code_section": {"source_dir": "src", "entry_point": "run.sh"}, "distribution": {"strategy": "none"}}


@pytest.mark.parametrize(
    ("commands", "found"),
    [
        ("torchrun --nnodes=2 --nproc_per_node=4 train.py", ["DIST001"]),
        ("torchrun --nnodes=2 --nproc_per_node 4 train.py", ["DIST001"]),
        ("GPUS=4\ntorchrun --nnodes=2 --nproc_per_node=$GPUS train.py", ["DIST001"]),
        ("bash -c 'torchrun --nnodes=2 --nproc_per_node=4 train.py'", ["DIST001"]),
        ('torchrun --nproc_per_node=8 "$@" train.py', []),
        ("torchrun --standalone --nproc-per-node 16 train.py", ["DIST003", "DIST008"]),
        ("accelerate launch \\\n  --num_processes 8 train.py", ["DIST001"]),
        ("accelerate launch --num_processes 16 train.py", []),
        ("deepspeed --num_gpus=2 train.py", ["DIST001"]),
        ("torchrun --nnodes=2 --nproc_per_node=8 train.py", []),
        ("torchrun --nnodes=1 train.py", ["DIST008"]),
        ("torchrun --nproc_per_node=1 train.py\ntorchrun --nnodes 2 --nproc_per_node=8 train.py", []),
        ("# torchrun --nproc_per_node=4\ntorchrun --nnodes 2 --nproc_per_node=gpu train.py", []),
        ("torchrun --nnodes 2 --nproc_per_node=8 main.py", ["CODE002"]),
        ("cd app\npython main.py", []),
        ("export NCCL_NET_PLUGIN=none\npython train.py", ["EFA005"]),
        ("export NCCL_DEBUG=TRACE\npython train.py", ["NCCL003"]),
        ("export NCCL_DEBUG=$LEVEL\npython train.py", []),
        ("NCCL_DEBUG=TRACE python train.py", ["NCCL003"]),
        ("LEVEL=TRACE\nexport NCCL_DEBUG=$LEVEL\npython train.py", ["NCCL003"]),
        ("export NCCL_SHM_DISABLE=1 OMP_NUM_THREADS=2\npython train.py", ["NCCL001"]),
        ('if [ -n "$DEBUG" ]; then\n  export NCCL_DEBUG=TRACE\nfi\npython train.py', []),
        ("export NCCL_DEBUG=TRACE\nunset NCCL_DEBUG\npython train.py", []),
        ("export CUDA_VISIBLE_DEVICES=0,1\ntorchrun --nproc_per_node=gpu train.py", ["DIST001", "DIST008"]),
        ("export CUDA_VISIBLE_DEVICES=0,1\ntorchrun --nnodes 2 --nproc_per_node=gpu train.py", ["DIST001"]),
        ("CUDA_VISIBLE_DEVICES=0 python train.py --make\nCUDA_VISIBLE_DEVICES=1 python train.py", []),
    ],
)
def test_what_a_shell_script_starts_and_exports(judge, commands: str, found: list[str]) -> None:
    two = {"resources": {"instance_type": KNOWN, "instance_count": 2}}
    findings = judge(files={"src/run.sh": f"#!/bin/bash\n{commands}\n"}, **SHELL, **two)
    assert [each.code for each in findings if each.severity != "info"] == found


@pytest.mark.parametrize(
    ("commands", "line"),
    [
        ("export A=1\nexport NCCL_DEBUG=TRACE\npython train.py", 3),
        ("export A=1\nNCCL_DEBUG=TRACE python train.py", 3),
        ("torchrun --nnodes 2 \\\n  --rdzv_backend=c10d \\\n  --nproc-per-node 4 \\\n  train.py", 4),
    ],
)
def test_the_line_of_the_shell_script_is_shown(judge, commands: str, line: int) -> None:
    two = {"resources": {"instance_type": KNOWN, "instance_count": 2}}
    findings = judge(files={"src/run.sh": f"#!/bin/bash\n{commands}\n"}, **SHELL, **two)
    places = [each.location for each in findings if each.severity != "info"]
    assert [(each.line, each.file.endswith("src/run.sh")) for each in places] == [(line, True)]


@pytest.mark.parametrize(
    ("devices", "found"), [("0,1,2,3", "error"), ("0,1,2,3,4,5,6,7", None), ("", None), ("GPU-a1", None)]
)
def test_each_process_is_shown_a_device(severity_of, devices: str, found: str | None) -> None:
    assert severity_of("DIST003", environment={"CUDA_VISIBLE_DEVICES": devices}) == found
