"""The examples on a real Slurm: they train as on this machine, and a failure of theirs is called the same."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import yaml

from tests.backends.slurm.cluster import SlurmPlace
from tests.backends.slurm.test_command_line import as_json

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]

EXAMPLES = Path(__file__).parents[3] / "examples"
SHORT = {
    "ddp": {"epochs": 2},
    "fsdp": {"steps": 6},
    "transformers": {"max_steps": 4, "save_steps": 2, "logging_steps": 1},
}
FAILS_ON_ONE_RANK = """
import os
if os.environ["RANK"] == "3":
    raise ValueError("planted")
"""

# What transformers requires is large, and comes from the package index.
each_example = pytest.mark.parametrize(
    "example",
    ["ddp", "fsdp", pytest.param("transformers", marks=[pytest.mark.gallery, pytest.mark.timeout(1800)])],
)


def job_of(example: str, cluster: SlurmPlace, first: str = "") -> str:
    """The job file of an example with a section for Slurm; `first` runs before its script's own code."""
    shutil.copytree(EXAMPLES / example / "src", cluster.folder / "src")
    script = cluster.folder / "src" / "train.py"
    text = script.read_text()
    head, mark, rest = text.partition("from __future__ import annotations\n")
    script.write_text(f"{head}{mark}{first}{rest}" if mark else f"{first}{text}")
    job = yaml.safe_load((EXAMPLES / example / "job.yaml").read_text())
    job["hyperparameters"] |= SHORT[example]
    # All nodes are one machine here, and its name may lead nowhere.
    job["environment"] |= {"GLOO_SOCKET_IFNAME": "lo"}
    job["slurm"] = {"shared": str(cluster.shared), "python": sys.executable}
    file = cluster.folder / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    return str(file)


@each_example
def test_an_example_trains_on_the_nodes(example: str, cluster: SlurmPlace) -> None:
    run = as_json(cluster, job_of(example, cluster), "--slurm", "train")
    assert (run["state"], run["verdict"], run["warnings"]) == ("Completed", "healthy", [])


@each_example
def test_the_rank_that_fails_is_called_what_it_is_called_on_this_machine(
    example: str, cluster: SlurmPlace
) -> None:
    file = job_of(example, cluster, FAILS_ON_ONE_RANK)
    on_nodes, here = (as_json(cluster, file, *where, code=1) for where in (["--slurm"], ["--local"]))
    assert "rank 3 on algo-2: ValueError: planted" in here["failure"]["message"]
    for what in ("code", "severity", "message", "retry"):
        assert on_nodes["failure"].get(what) == here["failure"].get(what)
