"""Try every command of an installed wheel, in an empty folder and without anything of the repository.

    python -m tools.checks.check_wheel build/wheel-check/newest/bin/launch     exit 1 where one fails

`make wheel-check` installs the wheel and runs this. Nothing is asked of AWS: a command that needs an account
is to say so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

SECONDS = 120
"""For each command; most take half a second."""

JOB = """
name: hello
code: {source_dir: src, entry_point: train.py}
framework: {name: pytorch, version: 2.8.0, python: py312}
resources: {instance_type: ml.m5.xlarge, instance_count: 1}
distribution: {strategy: none}
checkpoint: {}
"""

SCRIPT = """
import os, pathlib
pathlib.Path(os.environ["SLIPWAY_CHECKPOINT_DIR"], "state").write_text("1")
print("trained")
"""

BATCH_SCRIPT = """\
#!/bin/bash
#SBATCH --nodes=2
srun torchrun --nnodes 2 --nproc_per_node 8 src/train.py
"""

LOG = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB\n"


class Expected(NamedTuple):
    """A command, `NAME` in it for the job that ran here, its exit code and what it prints."""

    words: str
    code: int
    printed: str


WITHOUT_AN_ACCOUNT = (
    Expected("--version", 0, "."),
    Expected("--help", 0, "Usage: launch"),
    Expected("schema", 0, '"properties"'),
    Expected("explain EFA001", 0, "EFA001"),
    Expected("explain --all", 0, "NCCL"),
    Expected("find --gpu H100 --count 16", 0, "ml.p5.48xlarge"),
    Expected("init src/train.py --file drafted.yaml", 0, "drafted.yaml"),
    Expected("import start.sbatch --file imported.yaml", 0, "imported.yaml"),
    Expected("check job.yaml", 0, "no errors"),
    Expected("lint src/train.py --output json", 0, '"findings": []'),
    Expected("plan job.yaml", 0, "ml.m5.xlarge"),
    Expected("job.yaml --dry-run --output json", 0, '"TrainingJobName"'),
    Expected("job.yaml --local", 0, "algo-1 trained"),
    Expected("list --local", 0, "Completed"),
    Expected("status NAME", 0, "Completed"),
    Expected("logs NAME", 0, "algo-1 trained"),
    Expected("stop NAME", 0, "Completed already"),
    Expected("diagnose NAME", 0, "No failure found"),
    Expected("report NAME --file page.html", 0, "page.html"),
    Expected("resume NAME", 0, "algo-1 trained"),
    Expected("diagnose --log log", 1, "MEM001"),
    Expected("ladder job.yaml --up-to 1-here", 0, "It holds up to 1-here"),
    Expected("pair job.yaml --local --set tags.side=a --set tags.side=b", 0, "no loss was found"),
    Expected("proof --local --hosts 1", 2, "leaves no network between hosts"),
    Expected("clean --yes", 0, "nothing to delete"),
    Expected("--install-completion --shell bash", 0, "bash-completion"),
)
"""In this order: NAME is there once the job has run."""

WITH_AN_ACCOUNT = (
    Expected("job.yaml", 3, "credentials"),
    Expected("check job.yaml --live", 2, "placeholders"),
    Expected("list", 3, "credentials"),
    Expected("status nobody-s", 3, "credentials"),
    Expected("logs nobody-s", 3, "credentials"),
    Expected("stop nobody-s", 3, "credentials"),
    Expected("resume nobody-s", 3, "credentials"),
    Expected("cluster plan dev", 2, "clusters/dev.yaml does not exist"),
    Expected("cluster show dev", 3, "credentials"),
    Expected("cluster destroy dev", 3, "credentials"),
)
"""What only tells what it lacks here: credentials, and the folder of the CDK app."""


def problems(
    launch: Sequence[str], expectations: Sequence[Expected], environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """What the commands do otherwise than they should, with what they printed; nothing where all is well.

    `launch` starts the command line, in an environment that holds `environment` and little else.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "src").mkdir()
        (folder / "src" / "train.py").write_text(SCRIPT)
        (folder / "job.yaml").write_text(JOB)
        (folder / "start.sbatch").write_text(BATCH_SCRIPT)
        (folder / "log").write_text(LOG)
        surroundings = {
            "PATH": os.defpath,
            "HOME": scratch,
            "AWS_REGION": "us-west-2",
            "AWS_EC2_METADATA_DISABLED": "true",
            **(environment or {}),
        }
        for expected in expectations:
            words = [_name(folder) if word == "NAME" else word for word in expected.words.split()]
            run = subprocess.run(
                [*launch, *words],
                cwd=folder,
                env=surroundings,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=SECONDS,
            )
            if run.returncode != expected.code or expected.printed not in run.stdout:
                yield f"launch {' '.join(words)}: exit code {run.returncode}\n{run.stdout}"


def _name(folder: Path) -> str:
    """The job that ran in the folder first."""
    runs = (folder / ".slipway" / "local").glob("*/request.json")
    names = sorted(json.loads(file.read_text())["request"]["TrainingJobName"] for file in runs)
    return str(names[0]) if names else "NAME"


def main(launch: Sequence[str]) -> int:
    """Print what is wrong with the commands of an installed wheel; 1 where anything is."""
    found = list(problems(launch, [*WITHOUT_AN_ACCOUNT, *WITH_AN_ACCOUNT]))
    for problem in found:
        print(problem)
    tried = len(WITHOUT_AN_ACCOUNT) + len(WITH_AN_ACCOUNT)
    print(f"{tried - len(found)} of {tried} commands of {launch[0]} do as they should")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main([str(Path(sys.argv[1]).absolute()), *sys.argv[2:]]))
