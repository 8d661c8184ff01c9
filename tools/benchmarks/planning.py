"""What `launch check` and `launch plan` take, in time and memory, against what else makes the request.

The peers are given the same job: `torchx run --dryrun` with torchx's SageMaker scheduler (0.7.0, with version
2 of the SageMaker SDK, in a virtual environment of its own), which stops at the arguments of the SDK's
estimator, and the dry run of ModelTrainer of version 3 (`peers/model_trainer.py`). None of them calls
anything: torchx has nothing to ask once role and image are given, and ModelTrainer's calls are answered in
its own process.

Bounds: a third of the faster peer's time (medians of whole processes in one run, so that a slow machine does
not matter) and 90 MB at the peak. 0.4 s are a target and no bound, as the machine counts; seen on two cores:
0.5 s, so the target is missed. Half of that is importing cyclopts, pydantic and yaml, most of the rest
importing our own modules with their models; planning and judging take a tenth.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from tools import ROOT
from tools.benchmarks.measuring import LAUNCH, Figure, in_turn, run_process

JOB = ROOT / "examples" / "ddp" / "job.yaml"
SOURCE = JOB.parent / "src"
TORCHX = ROOT / "build" / "torchx" / "bin"
RUNS = 5
RATIO_BOUND = 1 / 3
MEGABYTES_BOUND = 90
SECONDS_TARGET = 0.4

OURS = {
    "launch check": [LAUNCH, "check", str(JOB)],
    "launch plan": [LAUNCH, "plan", str(JOB), "--output", "json"],
}
IMPORTS = {
    what: [str(python), "-c", f"import {modules}"]
    for what, python, modules in (
        ("cyclopts, pydantic and yaml", sys.executable, "cyclopts, yaml\nfrom pydantic import BaseModel"),
        (
            "all that launch plan imports",
            sys.executable,
            "launcher.cli.app, launcher.cli.plan, launcher.session.prepare_plan",
        ),
        (
            "torchx and its SDK",
            TORCHX / "python",
            "torchx.cli.main, torchx.schedulers.aws_sagemaker_scheduler",
        ),
        ("the SDK's ModelTrainer", sys.executable, "boto3\nfrom sagemaker.train import ModelTrainer"),
    )
}


def figures(folder: Path) -> Iterator[Figure]:
    """Times and memory of ours, then what the peers and the imports take."""
    request = json.loads(run_process(OURS["launch plan"], folder=folder).printed)["request"]
    peers = _peers(request, folder)
    commands = {**OURS, **peers, **IMPORTS}
    runs = in_turn(
        {what: partial(run_process, command, folder=folder) for what, command in commands.items()}, RUNS
    )
    seconds = {what: median(run.seconds for run in each) for what, each in runs.items()}
    megabytes = {what: max(run.megabytes for run in each) for what, each in runs.items()}
    fastest = min(seconds[what] for what in peers)
    for what in OURS:
        beside = f"{seconds[what]:.3f} s (target {SECONDS_TARGET})"
        yield Figure(f"{what} against the faster peer", seconds[what] / fastest, RATIO_BOUND, "", beside)
        yield Figure(f"{what}, memory", megabytes[what], MEGABYTES_BOUND, " MB")
    for what in (*peers, *IMPORTS):
        imported = "" if what in peers else ", imported alone"
        yield Figure(f"{what}{imported}", seconds[what], None, " s", f"{megabytes[what]:.0f} MB")


def _peers(request: Mapping[str, Any], folder: Path) -> dict[str, list[str]]:
    file = folder / "request.json"
    file.write_text(json.dumps(request), "utf-8")
    options = {
        "role": request["RoleArn"],
        "instance_type": request["ResourceConfig"]["InstanceType"],
        "instance_count": request["ResourceConfig"]["InstanceCount"],
        "volume_size": request["ResourceConfig"]["VolumeSizeInGB"],
        "max_run": request["StoppingCondition"]["MaxRuntimeInSeconds"],
        "output_path": request["OutputDataConfig"]["S3OutputPath"],
        "checkpoint_s3_uri": request["CheckpointConfig"]["S3Uri"],
        "environment": f"OMP_NUM_THREADS:{request['Environment']['OMP_NUM_THREADS']}",
        "source_dir": SOURCE,
    }
    return {
        "torchx run --dryrun": [
            *(str(TORCHX / "torchx"), "run", "--dryrun"),
            *("--workspace", ""),  # else it would build an image with Docker
            *("--scheduler", "aws_sagemaker"),
            *("--scheduler_args", ",".join(f"{name}={value}" for name, value in options.items())),
            # The scheduler itself asks the SDK for torchrun, so the component is the plain one.
            *("utils.python", "--script", "train.py", "--name", "digits-ddp"),
            *("--image", request["AlgorithmSpecification"]["TrainingImage"], "--"),
            *(word for name, value in request["HyperParameters"].items() for word in (f"--{name}", value)),
        ],
        "ModelTrainer": [
            *(sys.executable, str(ROOT / "tools" / "benchmarks" / "peers" / "model_trainer.py")),
            *(str(file), str(SOURCE)),
        ],
    }
