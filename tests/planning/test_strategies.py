"""What each strategy derives, where it runs, what it refuses, and what it tells the boot of the gate."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from launcher.failure_modes.model import Finding
from launcher.jobs.load_job import load_job
from launcher.planning.planner import plan_job
from launcher.planning.request_view import RequestView
from launcher.planning.training_plan import TrainingPlan
from launcher.session.prepare_plan import JobSource, prepare, read_job, source_of
from tests.planning.comparison import plan_of
from tests.planning.test_tuning_job import TUNING

VERSION_OF = {"smddp": "2.0.1", "smp1": "1.13.1", "smp2": "2.2.0", "torch_xla": "1.13.1", "mpi": "2.0.1"}
SMP1 = {"version": 1, "parameters": {"pipeline_parallel_degree": 1}}
TOOLKIT = ("smddp", "smp1", "mpi", "torch_xla")
BOOTED = ("torchrun", "smp2", "none")


def plan(strategy: str, instance_type: str = "ml.p4d.24xlarge", **changes: Any) -> TrainingPlan:
    """The plan of a job; `smp1` and `smp2` are smp with its version."""
    options = changes.pop("options", None)
    if options is None:
        options = {"smp1": SMP1, "smp2": {"version": 2}}.get(strategy, {})
    distribution = {"strategy": strategy.rstrip("12") if "smp" in strategy else strategy, "options": options}
    processes = changes.pop("processes_per_host", None)
    if processes is not None:
        distribution["processes_per_host"] = processes
    job = {
        "name": "g",
        "code": {"entry_point": "train.py"},
        "framework": {"version": VERSION_OF.get(strategy, "2.8.0")},
        "resources": {"instance_type": instance_type, "instance_count": changes.pop("hosts", 2)},
        "distribution": distribution,
        **changes,
    }
    return plan_of({key: value for key, value in job.items() if value is not None})


def errors(found: TrainingPlan) -> list[Finding]:
    return [finding for finding in found.findings if finding.blocks]


def codes(found: TrainingPlan) -> list[str]:
    return [finding.code for finding in errors(found)]


@pytest.mark.parametrize("strategy", [*TOOLKIT, *BOOTED])
def test_every_strategy_plans_a_job_that_fits_it(strategy: str) -> None:
    found = plan(strategy)
    assert codes(found) == []
    processes = 1 if strategy == "none" else 8
    assert found.job["distribution"]["processes_per_host"] == processes
    assert found.world_size == 2 * processes
    assert ("ContainerEntrypoint" in found.request["AlgorithmSpecification"]) is (strategy in BOOTED)


@pytest.mark.parametrize("strategy", TOOLKIT)
def test_the_toolkit_is_always_told_the_processes_per_host(strategy: str) -> None:
    assert plan(strategy).request["HyperParameters"]["sagemaker_mpi_num_of_processes_per_host"] == "8"


@pytest.mark.parametrize(
    ("strategy", "instance_type", "nearest"),
    [
        ("smddp", "ml.p5.48xlarge", "ml.p4de.24xlarge"),
        ("smddp", "ml.g5.48xlarge", "ml.p3.16xlarge"),
        ("smp1", "ml.g4dn.8xlarge", "ml.g4dn.12xlarge"),
        ("smp2", "ml.p9.48xlarge", "ml.p5.48xlarge"),
    ],
)
def test_an_unsupported_type_comes_with_the_one_most_like_it(
    strategy: str, instance_type: str, nearest: str
) -> None:
    found = plan(strategy, instance_type, processes_per_host=8)
    (remedy,) = [error.remedy for error in errors(found) if error.code == "DIST002"]
    assert remedy.startswith(f"Use {nearest}, ")


@pytest.mark.parametrize(
    ("strategy", "instance_type", "version", "said"),
    [
        ("smddp", "ml.p5.48xlarge", None, "ml.p4de.24xlarge"),
        ("smddp", "ml.p3.16xlarge", None, None),
        ("smddp", "ml.p4d.24xlarge", "2.3.0", None),
        ("smddp", "ml.p4d.24xlarge", "2.4.0", "2.3.0"),
        ("smddp", "ml.p4d.24xlarge", "1.7.1", None),
        ("smddp", "ml.p4d.24xlarge", "1.5.0", "1.7.1"),
        ("smp1", "ml.g4dn.12xlarge", None, None),
        ("smp1", "ml.g4dn.16xlarge", None, "ml.g4dn.12xlarge"),
        ("smp1", "ml.p4d.24xlarge", "2.0.0", None),
        ("smp1", "ml.p4d.24xlarge", "2.0.1", "2.0.0"),
        ("smp2", "ml.p5.48xlarge", "2.5", None),
        ("smp2", "ml.p3.16xlarge", None, "ml.p4d.24xlarge"),
        ("smp2", "ml.p4d.24xlarge", "2.6.0", "2.5.1"),
        ("torch_xla", "ml.g5.48xlarge", "1.12", None),
        ("torch_xla", "ml.p5.48xlarge", None, "ml.p3"),
        ("torch_xla", "ml.p3.16xlarge", "2.0.1", "1.13.1"),
        ("mpi", "ml.m5.xlarge", None, None),
        ("mpi", "ml.trn1.32xlarge", "1.11.0", "torchrun"),
        ("torchrun", "ml.g6.12xlarge", "2.10.0", None),
        ("torchrun", "ml.p3.16xlarge", "1.9.0", None),
        ("torchrun", "ml.p3.16xlarge", "1.8.1", "PyTorch 1.9 or later"),
        ("none", "ml.p3.16xlarge", "1.4.0", "PyTorch 1.9 or later"),
    ],
)  # fmt: skip
def test_a_strategy_knows_where_it_is_supported(
    strategy: str, instance_type: str, version: str | None, said: str | None
) -> None:
    framework = {"version": version or VERSION_OF.get(strategy, "2.8.0")}
    found = plan(strategy, instance_type, framework=framework, hosts=1)
    if said is None:
        assert codes(found) == []
    else:
        # An image of the framework alone may be missing as well.
        assert codes(found)[0] == "DIST002"
        assert said in errors(found)[0].remedy


def test_a_python_that_the_librarys_images_lack_is_refused_with_those_they_have() -> None:
    found = plan("torch_xla", "ml.p3.16xlarge", framework={"version": "1.13.1", "python": "py310"})
    assert codes(found)[0] == "DIST002"
    assert "py39" in errors(found)[0].remedy


def test_an_image_of_the_users_own_is_not_judged_by_version() -> None:
    found = plan("smddp", framework=None, image="111122223333.dkr.ecr.us-west-2.amazonaws.com/mine:1")
    assert codes(found) == []


REGISTRY = "763104351884.dkr.ecr.us-west-2.amazonaws.com"


@pytest.mark.parametrize(
    ("strategy", "image", "absent"),
    [
        ("smddp", "pytorch-training:2.0.1-gpu-py310-cu121-ubuntu20.04-sagemaker", True),
        ("smddp", "pytorch-training:2.0.1-gpu-py310-cu118-ubuntu20.04-sagemaker", False),
        ("smddp", "pytorch-training:2.1.0-gpu-py310-cu121-ubuntu20.04-sagemaker", False),
        ("smddp", "pytorch-training:2.8.0-gpu-py312", True),
        ("smddp", "pytorch:2.13-cu133-amzn2023-sagemaker", True),
        ("smddp", "huggingface-pytorch-training:2.1.0-transformers4.36.0-gpu-py310-cu121-ubuntu20.04", False),
        ("smp1", "pytorch-training:2.0.1-gpu-py310-cu121-ubuntu20.04-sagemaker", True),
        ("smp1", "pytorch-training:1.13.1-gpu-py39", False),
        ("smp2", "pytorch-training:2.2.0-gpu-py310", True),
        ("smp2", "smdistributed-modelparallel:2.2.0-gpu-py310-cu121", False),
        ("torch_xla", "pytorch-training:1.13.1-gpu-py39", True),
        ("mpi", "pytorch:2.13-cu133-amzn2023-sagemaker", False),
    ],
)
def test_an_image_of_aws_without_the_strategys_library_is_refused(
    strategy: str, image: str, absent: bool
) -> None:
    found = plan(strategy, framework=None, image=f"{REGISTRY}/{image}")
    assert codes(found) == (["DIST002"] if absent else [])
    assert all(finding.path == ("image",) and image in finding.message for finding in errors(found))


def test_the_second_build_without_the_library_is_known_in_any_registry() -> None:
    copied = "111122223333.dkr.ecr.us-west-2.amazonaws.com/copy:2.0.1-gpu-py310-cu121-ubuntu20.04-sagemaker"
    assert codes(plan("smddp", framework=None, image=copied)) == ["DIST002"]


def test_an_image_of_another_region_is_refused() -> None:
    found = plan("torchrun", framework=None, image="111122223333.dkr.ecr.eu-west-1.amazonaws.com/mine:1")
    (refused,) = errors(found)
    assert (refused.code, refused.path) == ("IMG001", ("image",))
    assert "eu-west-1 and the job in us-west-2" in refused.message
    assert codes(plan("torchrun", framework=None, image="somewhere/mine:1")) == []


def test_a_type_for_a_retry_is_held_against_the_image_too() -> None:
    resources = {"instance_type": "ml.p4d.24xlarge", "instance_types": ["ml.p6-b200.48xlarge"]}
    found = plan("torchrun", framework={"version": "2.6.0"}, resources=resources, limits={"max_retries": 1})
    (refused,) = errors(found)
    assert (refused.code, refused.path) == ("IMG002", ("resources", "instance_types", 0))


@pytest.mark.parametrize("strategy", ["torchrun", "mpi", "smddp", "smp1", "smp2"])
@pytest.mark.parametrize(("processes", "crowded"), [(7, False), (8, False), (9, True)])
def test_more_processes_than_devices_are_refused(strategy: str, processes: int, crowded: bool) -> None:
    assert ("DIST003" in codes(plan(strategy, processes_per_host=processes))) is crowded


def test_processes_on_a_host_without_devices_are_not_counted() -> None:
    assert codes(plan("torchrun", "ml.m5.4xlarge", processes_per_host=16)) == []


def test_an_unknown_type_needs_the_number_of_processes() -> None:
    assert codes(plan("torchrun", "ml.p9.48xlarge")) == ["DIST001"]
    assert plan("torchrun", "ml.p9.48xlarge", processes_per_host=16).world_size == 32


@pytest.mark.parametrize(
    ("strategy", "parameters", "fits"),
    [
        ("smp1", {"partitions": 4}, True),
        ("smp1", {"partitions": 3}, False),
        ("smp1", {"pipeline_parallel_degree": 4, "tensor_parallel_degree": 4, "ddp": True}, True),
        ("smp1", {"pipeline_parallel_degree": 4, "tensor_parallel_degree": 8, "ddp": True}, False),
        ("smp1", {"partitions": 2, "sharded_data_parallel_degree": 8, "ddp": True}, True),
        ("smp1", {"partitions": 2, "sharded_data_parallel_degree": 16, "ddp": True}, False),
        ("smp2", {}, True),
        ("smp2", {"hybrid_shard_degree": 0}, True),
        ("smp2", {"hybrid_shard_degree": 16}, True),
        ("smp2", {"hybrid_shard_degree": 32}, False),
        ("smp2", {"hybrid_shard_degree": 8, "tensor_parallel_degree": 2}, True),
        ("smp2", {"hybrid_shard_degree": 8, "tensor_parallel_degree": 4}, False),
        ("smp2", {"expert_parallel_degree": 16}, True),
        ("smp2", {"expert_parallel_degree": 6}, False),
        ("smp2", {"context_parallel_degree": 8, "hybrid_shard_degree": 8}, True),
        ("smp2", {"context_parallel_degree": 16, "hybrid_shard_degree": 8}, False),
    ],
)
def test_parallel_degrees_divide_the_world_size(strategy: str, parameters: dict, fits: bool) -> None:
    found = plan(strategy, options={"version": int(strategy[-1]), "parameters": parameters})
    assert codes(found) == ([] if fits else ["DIST004"])


def test_degrees_that_do_not_fit_come_with_those_that_do() -> None:
    (found,) = errors(plan("smp2", options={"parameters": {"hybrid_shard_degree": 6}}))
    assert "such as 4 or 8" in found.remedy
    assert found.subject == "distribution.options.parameters.hybrid_shard_degree"


@pytest.mark.parametrize(
    ("strategy", "options", "said"),
    [
        ("torchrun", {"mpi_options": "-x A"}, "takes none"),
        ("none", {"version": 1}, "takes none"),
        ("mpi", {"mpi_option": "-x A"}, "`mpi_options`"),
        ("mpi", {"mpi_options": ["-x", "A"]}, "a string"),
        ("smddp", {"custom_mpi_options": "-x A"}, "`mpi_options`"),
        ("smp2", {"version": 3}, "1, 2"),
        ("smp2", {"parameters": {"hybrid_shard_degre": 8}}, "`hybrid_shard_degree`"),
        ("smp2", {"parameters": {"hybrid_shard_degree": "8"}}, "a whole number"),
        ("smp2", {"parameters": {"hybrid_shard_degree": True}}, "a whole number"),
        ("smp2", {"parameters": {"partitions": 2}}, "hybrid_shard_degree"),
        ("smp2", {"parameters": [1]}, "a mapping"),
        ("smp1", {"version": 1}, "1 for no pipeline"),
        ("smp1", {"version": 1, "parameters": {"partitions": 2, "pipeline_parallel_degree": 4}}, "differ"),
        ("smp1", {"version": 1, "parameters": {"partitions": 0}}, "at least 1"),
        ("smp1", {"version": 1, "parameters": {"partitions": {"a": 2}}}, "partitions"),
        ("smp1", {"version": 1, "parameters": {"partitions": [2], "pipeline_parallel_degree": 4}}, "differ"),
        ("smp1", {"version": 1, "parameters": {"partitions": 1, "pipeline": "fast"}}, "interleaved"),
        ("smp1", {"version": 1, "parameters": {"partitions": 1, "memory_weight": 2}}, "at most 1"),
        ("smp1", {"version": 1, "parameters": {"partitions": 1, "tensor_parallel_degree": 2}}, "ddp: true"),
        ("smp1", {"version": 1, "parameters": {"partitions": 1, "trace_device": "tpu"}}, "cpu, gpu"),
        ("smp1", {"version": 1, "parameters": {"partitions": 1, "ddp": 2}}, "true or false"),
        ("smp1", {**SMP1, "hybrid_shard_degree": 2}, "parameters"),
        ("torch_xla", {"debug": "yes"}, "true or false"),
    ],
)  # fmt: skip
def test_options_that_a_strategy_does_not_know_are_refused_with_what_it_does(
    strategy: str, options: dict, said: str
) -> None:
    found = plan(strategy, options=options)
    assert found.request is None
    assert set(codes(found)) == {"SPEC003"}
    assert any(said in finding.message + finding.remedy for finding in errors(found))


@pytest.mark.parametrize(
    ("parameters", "subject"),
    [
        ({"auto_partition": False}, "auto_partition"),
        ({"auto_partition": 0}, "auto_partition"),
        ({"auto_partition": False, "default_partition": 0}, None),
        ({"auto_partition": True}, None),
        ({"default_partition": 1}, None),
        ({"default_partition": 2}, "default_partition"),
        ({"auto_partition": False, "default_partition": 2}, "default_partition"),
        ({"ddp": True, "horovod": True}, "horovod"),
        ({"ddp": 1, "horovod": 1}, "horovod"),
        ({"ddp": True, "horovod": False}, None),
        ({"ddp": False, "horovod": True}, None),
        ({"ddp_port": 8080}, "ddp_port"),
        ({"ddp_port": 8080, "ddp": False}, "ddp_port"),
        ({"ddp_port": 8080, "ddp": True}, None),
        ({"ddp_dist_backend": "nccl"}, "ddp_dist_backend"),
        ({"ddp_dist_backend": "nccl", "ddp": 1}, None),
        ({"tensor_parallel_degree": 2, "ddp": 1}, None),
        ({"trace_device": "cpu"}, None),
    ],
)
def test_parameters_of_smp_1_that_do_not_go_together_are_refused(
    parameters: dict, subject: str | None
) -> None:
    found = plan("smp1", options={"version": 1, "parameters": {"partitions": 2, **parameters}})
    expected = [f"distribution.options.parameters.{subject}"] if subject else []
    assert [finding.subject for finding in errors(found)] == expected
    assert codes(found) == ["SPEC003"] * len(expected)


def test_the_default_partition_is_held_against_the_pipeline_degree_under_either_name() -> None:
    parameters = {"pipeline_parallel_degree": 4, "default_partition": 4}
    (found,) = errors(plan("smp1", options={"version": 1, "parameters": parameters}))
    assert "default_partition is 4, but the model has 4 partitions" in found.message


def test_smp_1_gets_true_and_false_where_1_and_0_stand_for_them() -> None:
    parameters = {"partitions": 1, "ddp": 1, "auto_partition": 1, "fp16": 0, "microbatches": 1}
    request = plan("smp1", options={"version": 1, "parameters": parameters}).request
    sent = request["HyperParameters"]["mp_parameters"]
    assert '"ddp": true' in sent and '"fp16": false' in sent
    assert '"partitions": 1' in sent and '"microbatches": 1' in sent


def test_a_version_of_smp_may_be_quoted_and_is_2_unless_given() -> None:
    assert "mp_parameters" in plan("smp2", options={}).request["HyperParameters"]
    quoted = plan("smp1", options={**SMP1, "version": "1"})
    assert quoted.request["HyperParameters"]["sagemaker_mpi_enabled"] == "true"


DANGEROUS = ["a b", "", "$(reboot)", "a;b", "a&b", "a|b", "`id`", "a'b", 'a"b', "a\nb", "*", "~", "a>b", "\\"]


@pytest.mark.parametrize("value", DANGEROUS)
@pytest.mark.parametrize("strategy", BOOTED)
def test_the_boot_takes_any_hyperparameter_as_it_stands(strategy: str, value: str) -> None:
    assert plan(strategy, hyperparameters={"x": value}).request["HyperParameters"]["x"] == value


@pytest.mark.parametrize("value", [*DANGEROUS, [1, 2], {"a": "b c"}])
@pytest.mark.parametrize("strategy", TOOLKIT)
def test_what_the_toolkits_shell_would_read_otherwise_is_refused(strategy: str, value: Any) -> None:
    found = plan(strategy, hyperparameters={"x": value})
    assert codes(found) == ["SPEC003"]
    assert errors(found)[0].subject == "hyperparameters.x"


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("adam", '"adam"'), ("0.1", '"0.1"'), (0.1, "0.1"), (True, "true"), ("s3://b/k-1_2.bin", '"s3://b/k-1_2.bin"'),
        ({"a": 1, "b": "c"}, '{"a": 1, "b": "c"}'), ("größe", json.dumps("größe")), (-1, "-1"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("strategy", TOOLKIT)
def test_the_toolkit_gets_json(strategy: str, value: Any, sent: str) -> None:
    assert plan(strategy, hyperparameters={"x": value}).request["HyperParameters"]["x"] == sent


@pytest.mark.parametrize(
    ("changes", "subject"),
    [
        ({"hyperparameters": {"a b": 1}}, "hyperparameters.a b"),
        ({"hyperparameters": {"sagemaker_program": "x.py"}}, "hyperparameters.sagemaker_program"),
        ({"hyperparameters": {"mp_parameters": "{}"}}, "hyperparameters.mp_parameters"),
        ({"code": {"entry_point": "my train.py"}}, "code.entry_point"),
        ({"code": {"entry_point": "train.py", "arguments": ["--deep"]}}, "code.arguments"),
        ({"options": {"mpi_options": "-x A=$(id)"}}, "distribution.options.mpi_options"),
        ({"options": {"mpi_options": "-x 'A=b c'"}}, "distribution.options.mpi_options"),
    ],
)
def test_what_the_toolkit_cannot_pass_on_is_refused(changes: dict, subject: str) -> None:
    found = plan("mpi", **changes)
    assert {(finding.code, finding.subject) for finding in errors(found)} >= {("SPEC003", subject)}
    assert found.request is None


def test_mpi_options_of_plain_words_are_passed_on() -> None:
    options = {"mpi_options": "--mca btl ^openib -x NCCL_DEBUG=INFO"}
    sent = plan("mpi", options=options).request["HyperParameters"]["sagemaker_mpi_custom_mpi_options"]
    assert json.loads(sent) == options["mpi_options"]


def test_the_compilers_launcher_for_several_workers_is_left_out_with_one_gpu() -> None:
    several, one = plan("torch_xla", "ml.p3.8xlarge"), plan("torch_xla", "ml.p3.2xlarge", hosts=1)
    name = "sagemaker_pytorch_xla_multi_worker_enabled"
    assert several.request["HyperParameters"][name] == "true"
    assert name not in one.request["HyperParameters"]
    assert (several.request["Environment"]["GPU_NUM_DEVICES"], several.world_size) == ("4", 8)
    assert codes(plan("torch_xla", "ml.p3.2xlarge", hosts=2)) == ["DIST002"]


def test_the_users_gpu_num_devices_is_never_overwritten() -> None:
    environment = plan("torch_xla", environment={"GPU_NUM_DEVICES": "2"}).request["Environment"]
    assert environment["GPU_NUM_DEVICES"] == "2"


def test_the_compiler_starts_python_scripts_only() -> None:
    for entry_point in ("train.sh", "train"):
        assert codes(plan("torch_xla", code={"entry_point": entry_point})) == ["CODE002"]


@pytest.mark.parametrize(
    ("entry_point", "started_by"),
    [
        ("train.py", {"torchrun", "smp2", "smddp", "smp1", "mpi", "none"}),
        ("train", {"torchrun", "smp2", "smddp", "smp1", "mpi", "none"}),
        ("run/train.sh", {"mpi", "none"}),
        ("train.R", {"mpi"}),
        ("a.b/train", {"torchrun", "smp2", "smddp", "smp1", "mpi", "none"}),
    ],
)
def test_a_strategy_starts_only_what_it_can(entry_point: str, started_by: set[str]) -> None:
    strategies = {*TOOLKIT, *BOOTED} - {"torch_xla"}
    found = {each: plan(each, code={"entry_point": entry_point}) for each in strategies}
    assert {each for each in strategies if codes(found[each]) == []} == started_by
    for each in strategies - started_by:
        (finding,) = errors(found[each])
        assert (finding.code, finding.path) == ("CODE002", ("code", "entry_point"))
        assert "strategy: none" in finding.remedy


@pytest.mark.parametrize("strategy", BOOTED)
def test_the_boot_is_told_the_module_and_the_style_of_the_arguments(strategy: str) -> None:
    code = {"module": "pkg.train", "argument_style": "hydra", "arguments": ["a=1"]}
    arguments = plan(strategy, code=code).request["AlgorithmSpecification"]["ContainerArguments"]
    assert arguments[4:8] == ["--module", "pkg.train", "--argument-style", "hydra"]
    assert arguments[-2:] == ["--", "a=1"]
    assert RequestView(plan(strategy, code=code).request).boot_options["--module"] == "pkg.train"


@pytest.mark.parametrize("strategy", BOOTED)
@pytest.mark.parametrize(
    ("watchdog", "told"),
    [
        ({}, ["--watchdog-stall", "auto", "--watchdog-first-step", "1800"]),
        ({"stall": "10m", "first_step": "2h"}, ["--watchdog-stall", "600", "--watchdog-first-step", "7200"]),
        ("off", ["--watchdog-stall", "off"]),
    ],
)
def test_the_boot_is_told_when_a_job_stands_still(strategy: str, watchdog: object, told: list[str]) -> None:
    arguments = plan(strategy, watchdog=watchdog).request["AlgorithmSpecification"]["ContainerArguments"]
    assert arguments[arguments.index("--watchdog-stall") :][: len(told)] == told


@pytest.mark.parametrize("strategy", BOOTED)
@pytest.mark.parametrize(("limits", "told"), [({}, "0"), ({"restarts": 3}, "3")])
def test_the_boot_is_told_how_often_ranks_may_be_started_again(
    strategy: str, limits: dict, told: str
) -> None:
    assert RequestView(plan(strategy, limits=limits).request).boot_options["--restarts"] == told


@pytest.mark.parametrize("strategy", TOOLKIT)
def test_restarts_are_refused_where_the_toolkit_starts_the_script(strategy: str) -> None:
    found = errors(plan(strategy, limits={"restarts": 1}))
    assert [(finding.code, finding.subject) for finding in found] == [("SPEC003", "limits.restarts")]
    assert errors(plan(strategy, limits={"restarts": 0})) == []


@pytest.mark.parametrize("strategy", TOOLKIT)
def test_nobody_watches_where_the_toolkit_starts_the_script(strategy: str) -> None:
    found = errors(plan(strategy, watchdog={"stall": "10m"}))
    assert [(finding.code, finding.subject) for finding in found] == [("SPEC003", "watchdog")]
    assert errors(plan(strategy, watchdog="off")) == errors(plan(strategy)) == []


@pytest.mark.parametrize("strategy", TOOLKIT)
@pytest.mark.parametrize(
    ("code", "subject"),
    [
        ({"module": "pkg.train"}, "code.module"),
        ({"entry_point": "train.py", "argument_style": "equals"}, "code.argument_style"),
        ({"entry_point": "train.py", "argument_style": "none"}, "code.argument_style"),
    ],
)
def test_what_only_the_boot_can_start_is_refused_elsewhere(strategy: str, code: dict, subject: str) -> None:
    found = plan(strategy, code=code)
    assert [(finding.code, finding.subject) for finding in errors(found)] == [("SPEC003", subject)]
    assert "strategy: torchrun" in errors(found)[0].remedy


NAMED = {
    "hyperparameters": {
        "out": "${SM_MODEL_DIR}/a",
        "deep": ["${SM_CHANNEL_TRAIN}"],
        "text": "$${SM_MODEL_DIR}",
    },
    "environment": {"CACHE": "${SM_CHECKPOINT_DIR}"},
    "inputs": {"train": "s3://bucket/train"},
}


def test_folders_keep_their_names_where_the_boot_puts_them_in() -> None:
    request = plan(
        "torchrun", **NAMED, code={"entry_point": "a.py", "arguments": ["${SM_MODEL_DIR}"]}
    ).request
    assert request["HyperParameters"]["out"] == "${SM_MODEL_DIR}/a"
    assert request["HyperParameters"]["deep"] == '["${SM_CHANNEL_TRAIN}"]'
    assert request["HyperParameters"]["text"] == "$${SM_MODEL_DIR}"
    assert request["Environment"]["CACHE"] == "${SM_CHECKPOINT_DIR}"
    assert request["AlgorithmSpecification"]["ContainerArguments"][-1] == "${SM_MODEL_DIR}"


def test_folders_are_paths_where_the_toolkit_starts_the_script() -> None:
    hyperparameters = {"out": "${SM_MODEL_DIR}/a", "data": {"train": "${SM_CHANNEL_TRAIN}"}}
    checkpoint = {"s3_uri": "s3://bucket/kept", "local_path": "/opt/ml/kept"}
    found = plan("mpi", **{**NAMED, "hyperparameters": hyperparameters}, checkpoint=checkpoint)
    assert codes(found) == []
    assert found.request["HyperParameters"]["out"] == '"/opt/ml/model/a"'
    assert found.request["HyperParameters"]["data"] == '{"train": "/opt/ml/input/data/train"}'
    assert found.request["Environment"]["CACHE"] == "/opt/ml/kept"


@pytest.mark.parametrize(
    ("changes", "subject", "meant"),
    [
        ({"hyperparameters": {"out": "${SM_MODEL_DIRS}"}}, "hyperparameters.out", "${SM_MODEL_DIR}?"),
        ({"hyperparameters": {"a": {"b": ["${SM_CHANNEL_VAL}"]}}}, "hyperparameters.a.b.0", "`inputs`"),
        ({"environment": {"A": "x/${SM_NUM_GPUS}"}}, "environment.A", "SM_OUTPUT_DATA_DIR"),
        (
            {"code": {"entry_point": "a.py", "arguments": ["${SM_CHANNEL_TRIAN}"]}},
            "code.arguments.0",
            "${SM_CHANNEL_TRAIN}?",
        ),
    ],
)
def test_a_folder_that_the_job_does_not_have_is_refused(changes: dict, subject: str, meant: str) -> None:
    found = plan("torchrun", **{"inputs": {"train": "s3://bucket/train"}, **changes})
    (finding,) = errors(found)
    assert (finding.code, finding.subject) == ("SPEC003", subject)
    assert meant in finding.remedy


def test_a_null_hyperparameter_is_not_passed_under_any_strategy() -> None:
    for strategy in ("torchrun", "mpi"):
        assert "x" not in plan(strategy, hyperparameters={"x": None, "y": 1}).request["HyperParameters"]


PlanOf = Callable[..., TrainingPlan]


@pytest.fixture
def plan_of_tensorflow(write_job: Callable[..., Path]) -> PlanOf:
    def plan(strategy: str, version: str = "2.11", **fields: Any) -> TrainingPlan:
        file = write_job(
            framework={"name": "tensorflow", "version": version},
            distribution={"strategy": strategy},
            **fields,
        )
        return prepare(read_job(JobSource(file)), session_region="us-west-2")

    return plan


def refusals(plan: TrainingPlan) -> list[str]:
    return [each.message for each in plan.findings if each.code == "DIST002"]


@pytest.mark.parametrize("strategy", ["smddp", "mpi"])
def test_what_the_images_toolkit_starts_runs(plan_of_tensorflow: PlanOf, strategy: str) -> None:
    plan = plan_of_tensorflow(strategy)
    assert not plan.refused and plan.view is not None
    assert str(plan.view.image).endswith("/tensorflow-training:2.11.0-gpu-py39")
    assert not [name for name in plan.view.environment if name.startswith("TORCH_")]


def test_the_example_of_the_guide_is_a_job_file(plan_of_tensorflow: PlanOf) -> None:
    # SageMaker developer guide, distributed-troubleshooting-data-parallel: checkpoints, and no Debugger.
    plan = plan_of_tensorflow(
        "smddp", checkpoint={"s3_uri": "s3://bucket/test/checkpoints", "local_path": "/opt/ml/checkpoints"}
    )
    assert not plan.refused and plan.request is not None
    assert plan.request["HyperParameters"]["sagemaker_distributed_dataparallel_enabled"] == "true"
    assert plan.request["CheckpointConfig"]["LocalPath"] == "/opt/ml/checkpoints"
    assert not plan.debugger.on


def test_a_script_alone_is_started_by_the_boot(plan_of_tensorflow: PlanOf) -> None:
    plan = plan_of_tensorflow(
        "none", "2.19.0", resources={"instance_type": "ml.m5.xlarge", "instance_count": 1}
    )
    assert not plan.refused and plan.with_boot and plan.view is not None
    assert str(plan.view.image).endswith("/tensorflow-training:2.19.0-cpu-py312")


@pytest.mark.parametrize("strategy", ["torchrun", "smp", "torch_xla"])
def test_what_is_pytorchs_alone_is_refused_once(plan_of_tensorflow: PlanOf, strategy: str) -> None:
    (message,) = [
        each for each in refusals(plan_of_tensorflow(strategy)) if "TensorFlow" in each or "PyTorch" in each
    ]
    assert f"the strategy {strategy} starts PyTorch" in message


@pytest.mark.parametrize(
    ("version", "refused"), [("2.4.1", False), ("2.11", False), ("2.12", True), ("2.3.2", True)]
)
def test_smddp_comes_with_some_versions(plan_of_tensorflow: PlanOf, version: str, refused: bool) -> None:
    assert bool(refusals(plan_of_tensorflow("smddp", version))) is refused


@pytest.mark.parametrize(("version", "refused"), [("2.5", True), ("2.6", False)])
def test_the_boot_needs_a_newer_python_than_the_oldest_images_have(
    plan_of_tensorflow: PlanOf, version: str, refused: bool
) -> None:
    assert bool(refusals(plan_of_tensorflow("none", version))) is refused
    assert refusals(plan_of_tensorflow("mpi", version)) == []


Plan = Callable[..., TrainingPlan]


@pytest.fixture
def plan_with_gate(write_job: Callable[..., Path]) -> Plan:
    def plan(hosts: int = 2, **fields: Any) -> TrainingPlan:
        resources = {"instance_type": "ml.p4d.24xlarge", "instance_count": hosts}
        file = write_job(**{"resources": resources, "distribution": {"strategy": "torchrun"}, **fields})
        job = load_job(file).spec
        assert job is not None
        source = source_of(job, Path(str(file)).parent)
        return plan_job(
            job, None, unique="0unique", source=source, session_region="us-west-2", today=date(2026, 11, 22)
        )

    return plan


def told(plan: TrainingPlan) -> str | None:
    assert plan.view is not None
    return plan.view.boot_options.get("--gate")


def about_gate(plan: TrainingPlan) -> list[Finding]:
    return [found for found in plan.findings if found.path == ("gate",)]


@pytest.mark.parametrize(("hosts", "mode"), [(1, "warn"), (2, "on"), (16, "on")])
def test_several_hosts_are_refused_and_one_is_warned(plan_with_gate: Plan, hosts: int, mode: str) -> None:
    assert told(plan_with_gate(hosts)) == mode


@pytest.mark.parametrize("mode", ["off", "warn", "on"])
@pytest.mark.parametrize("hosts", [1, 2])
def test_what_the_job_file_says_stands(plan_with_gate: Plan, hosts: int, mode: str) -> None:
    assert told(plan_with_gate(hosts, gate=mode)) == mode


@pytest.mark.parametrize(
    "fields",
    [
        {"distribution": {"strategy": "smddp"}},
        {"distribution": {"strategy": "mpi"}},
        {"distribution": {"strategy": "smp", "options": {"version": 1}}},
        {"distribution": {"strategy": "torch_xla"}},
        {"tuning": TUNING},
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", ["on", "warn"])
def test_a_gate_is_refused_where_the_images_toolkit_starts_the_script(
    plan_with_gate: Plan, fields: dict[str, Any], mode: str
) -> None:
    (found,) = about_gate(plan_with_gate(gate=mode, **fields))
    assert (found.code, found.blocks) == ("SPEC003", True)
    assert "nobody would look at them" in found.message


@pytest.mark.parametrize("fields", [{}, {"gate": "off"}])
def test_no_gate_is_fine_there(plan_with_gate: Plan, fields: dict[str, Any]) -> None:
    assert not about_gate(plan_with_gate(distribution={"strategy": "smddp"}, **fields))
