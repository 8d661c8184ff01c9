"""What a program gives to the SageMaker SDK, as a job file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from launcher.drafts.job_draft import JobDraft, SourceLine
from launcher.drafts.sdk.program import draft_of_sdk_job, find_sdk_jobs
from launcher.program.program import Program, read_program

HEAD = """\
import os
import sagemaker
from sagemaker.estimator import Estimator
from sagemaker.huggingface import HuggingFace
from sagemaker.inputs import FileSystemInput, TrainingInput
from sagemaker.pytorch import PyTorch
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, InputData, SourceCode, StoppingCondition
from sagemaker.train.distributed import MPI, SMP, Torchrun
role = sagemaker.get_execution_role()
"""
FIRST = HEAD.count("\n") + 1


def drafts(folder: Path, text: str) -> list[JobDraft]:
    file = folder / "start.py"
    file.write_text(HEAD + text, "utf-8")
    program = read_program(file)
    assert isinstance(program, Program)

    def line(_: object, number: int) -> SourceLine:
        return SourceLine(number)

    jobs = find_sdk_jobs(program, line)
    return [draft_of_sdk_job(program, job, line, name="start", origin="") for job in jobs]


def draft(folder: Path, text: str) -> JobDraft:
    (only,) = drafts(folder, text)
    return only


def asked(made: JobDraft) -> dict[str, str]:
    return {".".join(each.path): each.text for each in made.questions}


def test_an_estimator_with_constants_variables_and_functions_becomes_a_job(tmp_path: Path) -> None:
    made = draft(
        tmp_path,
        """
BUCKET = "my-bucket"
HOURS = 3
def place(name, bucket=BUCKET):
    return f"s3://{bucket}/{name}"
args = {"epochs": 3, "lr": 2e-5}
args["amp"] = True
common = dict(instance_type="ml.p4d.24xlarge", instance_count=2)
estimator = PyTorch(
    entry_point="train.py",
    source_dir="./src",
    role="arn:aws:iam::111122223333:role/training",
    framework_version="2.0.1",
    py_version="py310",
    hyperparameters=args,
    distribution={"torch_distributed": {"enabled": True}},
    base_job_name="my_job",
    max_run=HOURS * 60 * 60,
    output_path=place("output"),
    environment={"NCCL_DEBUG": "INFO"},
    metric_definitions=[{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
    debugger_hook_config=False,
    **common,
)
estimator.fit({"train": TrainingInput(place("train"), input_mode="FastFile"), "test": "s3://b/test"})
""",
    )
    assert made.data() == {
        "name": "my-job",
        "role_arn": "arn:aws:iam::111122223333:role/training",
        "code": {"source_dir": "./src", "entry_point": "train.py"},
        "framework": {"name": "pytorch", "version": "2.0.1", "python": "py310"},
        "hyperparameters": {"epochs": 3, "lr": 2e-5, "amp": "True"},
        "resources": {"instance_type": "ml.p4d.24xlarge", "instance_count": 2},
        "distribution": {"strategy": "torchrun"},
        "inputs": {"train": {"s3_uri": "s3://my-bucket/train", "mode": "FastFile"}, "test": "s3://b/test"},
        "environment": {"NCCL_DEBUG": "INFO"},
        "metrics": {"loss": "loss=([0-9.]+)"},
        "limits": {"max_runtime": 10800},
        "output": {"s3_uri": "s3://my-bucket/output"},
    }
    assert made.questions == ()
    lines = {each.path: each.line for each in made.fields}
    assert lines["resources", "instance_count"] == SourceLine(FIRST + 7)


def test_what_only_a_run_would_tell_is_a_question_with_its_line(tmp_path: Path) -> None:
    made = draft(
        tmp_path,
        """
bucket = sagemaker.Session().default_bucket()
args = {"epochs": 3}
if bucket:
    args["lr"] = 0.1
kind = "ml.g5.2xlarge" if bucket else "ml.p4d.24xlarge"
estimator = PyTorch("train.py", framework_version="2.0.1", role=role, instance_type=kind,
    instance_count=int(input()), hyperparameters=args, output_path=f"s3://{bucket}/out")
estimator.fit({"train": f"s3://{bucket}/train"})
""",
    )
    questions = asked(made)
    assert set(questions) == {
        "role_arn",
        "resources.instance_type",
        "resources.instance_count",
        "hyperparameters.lr",
        "output.s3_uri",
        "inputs.train",
    }
    assert "sagemaker.get_execution_role()" in questions["role_arn"]
    assert made.data()["hyperparameters"] == {"epochs": 3}
    lines = {each.path: each.line for each in made.questions}
    assert lines["output", "s3_uri"] == SourceLine(FIRST + 7)


def test_the_environment_of_who_starts_it_stays_a_variable(tmp_path: Path) -> None:
    made = draft(
        tmp_path,
        """
PyTorch("train.py", framework_version="2.0.1", role=os.environ["ROLE"], instance_count=1,
    instance_type=os.environ.get("TYPE", "ml.g5.xlarge"), output_path=f"s3://{os.environ['BUCKET']}/out",
    environment={"HOME_OF": "${HOME}"}).fit()
""",
    )
    data = made.data()
    assert data["role_arn"] == "${ROLE}"
    assert data["output"] == {"s3_uri": "s3://${BUCKET}/out"}
    assert data["resources"]["instance_type"] == "ml.g5.xlarge"
    assert data["environment"] == {"HOME_OF": "$${HOME}"}
    comments = {each.path: each.comment for each in made.fields}
    assert comments["resources", "instance_type"] == "where TYPE is not set"


def test_a_table_of_the_same_name_before_says_nothing(tmp_path: Path) -> None:
    made = draft(
        tmp_path,
        """
args = {}
args["old"] = 1
args = {"new": 2}
PyTorch("train.py", framework_version="2.0.1", role=role, instance_type="ml.g5.xlarge", instance_count=1,
    hyperparameters=args).fit()
args["later"] = 3
""",
    )
    assert made.data()["hyperparameters"] == {"new": 2}


DISTRIBUTIONS: list[tuple[str, dict[str, Any]]] = [
    ("None", {}),
    ('{"pytorchddp": {"enabled": True}}', {"strategy": "torchrun"}),
    ('{"smdistributed": {"dataparallel": {"enabled": True}}}', {"strategy": "smddp"}),
    (
        '{"mpi": {"enabled": True, "processes_per_host": 8, "custom_mpi_options": "-x A=1"}}',
        {"strategy": "mpi", "options": {"mpi_options": "-x A=1"}, "processes_per_host": 8},
    ),
    (
        '{"mpi": {"enabled": True, "processes_per_host": 4},'
        ' "smdistributed": {"modelparallel": {"enabled": True, "parameters": {"partitions": 2}}}}',
        {
            "strategy": "smp",
            "options": {"version": 1, "parameters": {"partitions": 2}},
            "processes_per_host": 4,
        },
    ),
    (
        '{"torch_distributed": {"enabled": True},'
        ' "smdistributed": {"modelparallel": {"enabled": True, "parameters": {"hybrid_shard_degree": 8}}}}',
        {"strategy": "smp", "options": {"parameters": {"hybrid_shard_degree": 8}}},
    ),
]


@pytest.mark.parametrize(("written", "expected"), DISTRIBUTIONS)
def test_each_distribution_has_its_strategy(written: str, expected: dict[str, Any], tmp_path: Path) -> None:
    made = draft(
        tmp_path,
        f"""
PyTorch("train.py", framework_version="2.0.1", role=role, instance_type="ml.p4d.24xlarge", instance_count=2,
    distribution={written}).fit()
""",
    )
    assert made.data().get("distribution", {}) == expected


def test_parameter_servers_are_a_question(tmp_path: Path) -> None:
    made = draft(
        tmp_path,
        """
PyTorch("train.py", framework_version="2.0.1", role=role, instance_type="ml.p4d.24xlarge", instance_count=2,
    distribution={"parameter_server": {"enabled": True}}).fit()
""",
    )
    assert "distribution.strategy" in asked(made)


def test_hugging_faces_estimator_is_pytorch_with_what_its_image_held(tmp_path: Path) -> None:
    made = draft(
        tmp_path,
        """
HuggingFace("py39", "train.py", transformers_version="4.26.0", pytorch_version="1.13.1", role=role,
    instance_type="ml.p3.2xlarge", instance_count=1, use_spot_instances=True, max_wait=7200).fit()
""",
    )
    assert made.data()["framework"] == {"name": "pytorch", "version": "1.13.1", "python": "py39"}
    assert made.data()["resources"]["capacity"] == "spot"
    assert "transformers 4.26.0" in made.origin


def test_a_file_system_is_mounted_below_its_mount_name(tmp_path: Path) -> None:
    made = draft(
        tmp_path,
        """
data = FileSystemInput("fs-0123456789abcdef0", "FSxLustre", "/abcdef/train", "rw")
PyTorch("train.py", framework_version="2.0.1", role=role, instance_type="ml.p4d.24xlarge",
    instance_count=2).fit({"train": data})
""",
    )
    assert made.data()["inputs"] == {"train": {"lustre": "/train", "access": "rw"}}
    assert "cluster" in asked(made)


def test_a_trainer_of_version_3_becomes_a_job(tmp_path: Path) -> None:
    made = draft(
        tmp_path,
        """
trainer = ModelTrainer(
    training_image="763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.8.0-gpu-py312",
    source_code=SourceCode(source_dir="src", entry_script="train.py", requirements="requirements.txt"),
    compute=Compute(instance_type="ml.p5.48xlarge", instance_count=2, volume_size_in_gb=100),
    distributed=Torchrun(smp=SMP(hybrid_shard_degree=8)),
    stopping_condition=StoppingCondition(max_runtime_in_seconds=7200),
    hyperparameters={"amp": True},
    base_job_name="llama",
)
trainer.train(input_data_config=[InputData(channel_name="train", data_source="s3://b/train")])
""",
    )
    assert made.data() == {
        "name": "llama",
        "code": {"source_dir": "src", "entry_point": "train.py", "requirements": "requirements.txt"},
        "image": "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.8.0-gpu-py312",
        "hyperparameters": {"amp": True},
        "resources": {"instance_type": "ml.p5.48xlarge", "instance_count": 2, "volume_size_gb": 100},
        "distribution": {"strategy": "smp", "options": {"parameters": {"hybrid_shard_degree": 8}}},
        "inputs": {"train": "s3://b/train"},
        "limits": {"max_runtime": 7200},
    }


def test_a_trainers_command_is_read_and_its_defaults_are_the_sdks(tmp_path: Path) -> None:
    made = draft(
        tmp_path,
        """
ModelTrainer(training_image="image", source_code=SourceCode(
    source_dir="src", command="torchrun --nproc_per_node 4 train.py --epochs 3")).train()
""",
    )
    data = made.data()
    assert data["code"] == {
        "source_dir": "src",
        "entry_point": "train.py",
        "arguments": ["--epochs", "3"],
        "requirements": "none",
    }
    assert data["distribution"] == {"strategy": "torchrun", "processes_per_host": 4}
    assert data["resources"] == {"instance_type": "ml.m5.xlarge"}
    assert data["limits"] == {"max_runtime": 3600}


def test_no_default_is_assumed_of_a_call_that_is_not_known_as_a_whole(tmp_path: Path) -> None:
    made = draft(tmp_path, "ModelTrainer(**load()).train()\n")
    assert set(made.data()) == {"name"}
    assert "resources" in asked(made)


def test_each_estimator_of_a_program_is_a_job_of_its_own(tmp_path: Path) -> None:
    text = """
for kind in ("a", "b"):
    Estimator("image:1", role, 1, "ml.m5.xlarge").fit("s3://b/data")
PyTorch("train.py", framework_version="2.0.1", role=role, instance_type="ml.g5.xlarge", instance_count=1)
"""
    first, second = drafts(tmp_path, text)
    assert first.data()["image"] == "image:1"
    assert first.data()["inputs"] == {"training": "s3://b/data"}
    assert second.data()["resources"]["instance_type"] == "ml.g5.xlarge"


TUNED = """
from sagemaker.tuner import CategoricalParameter, ContinuousParameter, HyperparameterTuner, IntegerParameter
estimator = PyTorch(
    entry_point="train.py", framework_version="2.0.1", py_version="py310", instance_count=1,
    instance_type="ml.g5.xlarge", role="arn:aws:iam::111122223333:role/training",
    hyperparameters={"epochs": 3, "lr": 0.1},
)
ranges = {
    "lr": ContinuousParameter(1e-4, 0.1, scaling_type="Logarithmic"),
    "layers": IntegerParameter(2, 8),
    "momentum": ContinuousParameter(min_value=0, max_value=1),
    "batch": CategoricalParameter([32, 64]),
}
"""


def test_a_tuner_becomes_the_tuning_of_the_estimators_job(tmp_path: Path) -> None:
    made = draft(
        tmp_path,
        TUNED
        + """
tuner = HyperparameterTuner(
    estimator, "loss", ranges, [{"Name": "loss", "Regex": "loss=([0-9.]+)"}], objective_type="Minimize",
    max_jobs=20, max_parallel_jobs=4, early_stopping_type="Auto", warm_start_config=earlier(),
)
tuner.fit({"train": "s3://b/train"})
""",
    )
    data = made.data()
    assert data["tuning"] == {
        "objective": {"metric": "loss", "goal": "minimize"},
        "ranges": {
            "lr": {"min": 1e-4, "max": 0.1, "scaling": "logarithmic"},
            "layers": {"min": 2, "max": 8, "type": "integer"},
            "momentum": {"min": 0, "max": 1, "type": "continuous"},
            "batch": [32, 64],
        },
        "max_jobs": 20,
        "parallel": 4,
        "early_stopping": True,
    }
    assert data["metrics"] == {"loss": "loss=([0-9.]+)"}
    assert data["hyperparameters"] == {"epochs": 3}  # The service takes no value beside a range.
    assert data["inputs"] == {"train": "s3://b/train"}
    assert "warm_start_config" in made.origin
    assert made.kept_out == ()
    assert asked(made) == {}


def test_what_a_tuner_is_given_and_nobody_can_follow_is_a_question(tmp_path: Path) -> None:
    made = draft(
        tmp_path,
        TUNED
        + """
ranges["lr"] = ContinuousParameter(low(), 0.1)
tuner = HyperparameterTuner(
    estimator=estimator, objective_metric_name=metric_of(model), hyperparameter_ranges=ranges,
    max_jobs=count(), strategy="Hyperband", strategy_config=StrategyConfig(10),
)
tuner.fit()
""",
    )
    questions = asked(made)
    assert questions["tuning.ranges.lr"] == (
        "which values may lr take? The program has ContinuousParameter(low(), 0.1)"
    )
    assert {"tuning.objective.metric", "tuning.max_jobs", "tuning.hyperband"} <= set(questions)
    assert made.data()["tuning"]["objective"] == {"goal": "maximize"}
    assert "lr" not in made.data()["hyperparameters"]


def test_a_tuner_of_version_3_is_read_with_its_trainer(tmp_path: Path) -> None:
    made = draft(
        tmp_path,
        """
from sagemaker.train.tuner import HyperparameterTuner
from sagemaker.core.parameter import ContinuousParameter
trainer = ModelTrainer(
    training_image="img", compute=Compute(instance_type="ml.g5.xlarge", instance_count=1),
    source_code=SourceCode(source_dir="src", entry_script="train.py"), hyperparameters={"lr": 0.1},
)
tuner = HyperparameterTuner(
    model_trainer=trainer, objective_metric_name="acc", max_jobs=4,
    hyperparameter_ranges={"lr": ContinuousParameter(0.1, 0.5)},
)
tuner.tune(inputs=[InputData(channel_name="train", data_source="s3://b/train")])
""",
    )
    assert made.data()["tuning"] == {
        "objective": {"metric": "acc", "goal": "maximize"},
        "ranges": {"lr": {"min": 0.1, "max": 0.5}},
        "max_jobs": 4,
    }
    assert made.data()["inputs"] == {"train": "s3://b/train"}
    assert "hyperparameters" not in made.data()


def test_two_tuners_of_one_estimator_are_a_question(tmp_path: Path) -> None:
    tuners = [f'{each} = HyperparameterTuner(estimator, "{each}", ranges)\n' for each in ("loss", "accuracy")]
    made = draft(tmp_path, TUNED + "".join(tuners))
    assert asked(made)["tuning"].startswith("which search? The program has 2 tuners of it.")
    assert "tuning" not in made.data()
