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
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
JOB = ROOT / "examples" / "ddp" / "job.yaml"
SOURCE = JOB.parent / "src"
LAUNCH = str(Path(sys.executable).with_name("launch"))
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
    "cyclopts, pydantic and yaml": [
        sys.executable,
        "-c",
        "import cyclopts, yaml\nfrom pydantic import BaseModel",
    ],
    "all that launch plan imports": [
        *(sys.executable, "-c"),
        "import launcher.cli.app, launcher.cli.plan, launcher.session.prepare_plan",
    ],
    "torchx and its SDK": [
        *(str(TORCHX / "python"), "-c"),
        "import torchx.cli.main, torchx.schedulers.aws_sagemaker_scheduler",
    ],
    "the SDK's ModelTrainer": [
        sys.executable,
        "-c",
        "import boto3\nfrom sagemaker.train import ModelTrainer",
    ],
}


@dataclass(frozen=True, slots=True)
class Run:
    """One whole process: wall time, and the most memory that it held."""

    seconds: float
    megabytes: float


def measure(command: Sequence[str], folder: Path) -> Run:
    """Run a command in a folder.

    Raises:
        subprocess.CalledProcessError: the command fails.
    """
    with (folder / "output").open("wb+") as output:
        start = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, env=_environment(), stdout=output, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            raise subprocess.CalledProcessError(process.returncode, command, output.read())
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage(2): bytes there, kilobytes on Linux
    return Run(seconds, usage.ru_maxrss * unit / 1e6)


def main() -> int:
    """Measure in turn, print the ratios, exit with 1 where one is over its bound."""
    with tempfile.TemporaryDirectory(prefix="slipway-benchmark-") as name:
        folder = Path(name)
        peers = _peers(_request(), folder)
        commands = {**OURS, **peers, **IMPORTS}
        for command in commands.values():
            measure(command, folder)  # not counted: Python compiles what has changed
        rounds = [{what: measure(command, folder) for what, command in commands.items()} for _ in range(RUNS)]
    seconds = {what: statistics.median(each[what].seconds for each in rounds) for what in commands}
    megabytes = {what: max(each[what].megabytes for each in rounds) for what in commands}
    fastest = min(seconds[what] for what in peers)
    print("; ".join(f"{what} {seconds[what]:.2f} s, {megabytes[what]:.0f} MB" for what in peers))
    for what in OURS:
        print(
            f"{what} {seconds[what]:.3f} s (target {SECONDS_TARGET}), of the faster peer's "
            f"{seconds[what] / fastest:.3f} (bound {RATIO_BOUND:.3f}), "
            f"{megabytes[what]:.0f} MB (bound {MEGABYTES_BOUND})"
        )
    print("imports alone: " + ", ".join(f"{what} {seconds[what]:.3f} s" for what in IMPORTS))
    kept = all(seconds[what] <= fastest * RATIO_BOUND and megabytes[what] <= MEGABYTES_BOUND for what in OURS)
    return 0 if kept else 1


def _request() -> dict[str, Any]:
    """The request of the plan, which the peers are to make as well."""
    run = subprocess.run(OURS["launch plan"], env=_environment(), check=True, capture_output=True)
    request: dict[str, Any] = json.loads(run.stdout)["request"]
    return request


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
            *(
                sys.executable,
                str(ROOT / "tools" / "benchmarks" / "peers" / "model_trainer.py"),
                str(file),
                str(SOURCE),
            ),
        ],
    }


def _environment() -> dict[str, str]:
    """Compiled Python is kept, as where nothing is set; else our own modules are compiled in every run."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


if __name__ == "__main__":
    sys.exit(main())
