"""The sbatch script as text: what it asks for, and that no value of a job file is more than a value in it."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.backends.interface import BackendError
from launcher.backends.local.layout import RENDEZVOUS_VARIABLE
from launcher.backends.slurm.script import script_of
from launcher.jobs.load_job import load_job
from launcher.planning.training_plan import TrainingPlan
from launcher.session.prepare_plan import prepare

SECTION: dict[str, Any] = {"partition": "train", "shared": "/fsx/alice", "python": "/fsx/alice/venv"}


def plan_of(folder: Path, section: dict[str, Any] | None = None, **more: Any) -> TrainingPlan:
    (folder / "src").mkdir(exist_ok=True)
    (folder / "src" / "train.py").write_text("print('trained')\n")
    job = {
        "name": "digits",
        "code": {"source_dir": "src", "entry_point": "train.py"},
        "framework": {"name": "pytorch", "version": "2.8.0", "python": "py312"},
        "resources": {"instance_type": "ml.p5.48xlarge", "instance_count": 2},
        "distribution": {"strategy": "torchrun"},
        "backend": "slurm",
        "slurm": {**SECTION, **(section or {})},
        **more,
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    return prepare(load_job(folder / "job.yaml"), session_region=None)


def options(script: str) -> set[str]:
    """What the script asks sbatch for."""
    return {line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH ")}


def words_behind(script: str, begin: str) -> list[str]:
    (line,) = [line for line in script.splitlines() if line.strip().startswith(begin)]
    return shlex.split(line)


def test_whole_nodes_of_the_types_gpus_are_asked_for_and_all_their_memory(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, limits={"max_runtime": "26h"})
    asked = options(script_of(plan))
    run = f"/fsx/alice/slipway/{plan.name}"
    assert asked >= {
        f"--job-name={plan.name}", "--nodes=2", "--ntasks-per-node=1", "--time=1-02:00:00",
        "--partition=train", "--gpus-per-node=8", "--mem=0", "--exclusive",
        f"--output={run}/slurm/log", "--signal=B:TERM@120",
        "--requeue",
    }  # fmt: skip


def test_what_the_section_says_is_asked_for(tmp_path: Path) -> None:
    section = {
        "account": "vision", "qos": "high", "constraint": "a100&nvme", "exclude": ["gpu-7", "gpu-[9-11]"],
        "gpus": 4, "cpus": 48, "memory": "200GiB",
    }  # fmt: skip
    plan = plan_of(tmp_path, section, distribution={"strategy": "torchrun", "processes_per_host": 4})
    script = script_of(plan)
    asked = {shlex.split(option)[0] for option in options(script)}
    assert asked >= {
        "--account=vision", "--qos=high", "--constraint=a100&nvme", "--exclude=gpu-7,gpu-[9-11]",
        "--gpus-per-node=4", "--cpus-per-task=48", "--mem=204800M",
    }  # fmt: skip
    assert "--exclusive" not in asked
    assert "--cpus-per-task=48" in words_behind(script, "srun ")


def test_a_containers_image_sees_the_shared_folder_and_the_inputs(tmp_path: Path) -> None:
    section = {
        "python": None,
        "image": "nvcr.io#nvidia/pytorch:25.01-py3",
        "inputs": {"train": "/data/train"},
    }
    script = script_of(plan_of(tmp_path, section, inputs={"train": "s3://bucket/train"}))
    srun = words_behind(script, "srun ")
    assert "--container-image=nvcr.io#nvidia/pytorch:25.01-py3" in srun
    assert "--container-mounts=/fsx/alice:/fsx/alice,/data/train:/data/train" in srun
    assert words_behind(script, "python3 ")[1].endswith("/input/data/code/slipway.pyz")


NASTY = 'a\'b "c" $(touch /tmp/x) `id` ; rm -rf / \\ \n#SBATCH --uid=0 @NAME@ {x}'


def run_host(script: str, run: Path, boot: str, path: str = "/usr/bin:/bin", **variables: str) -> None:
    """Run the host's part of a script in a run's folder, with a boot of the test's own."""
    (run / "token").write_text("t")
    begin = next(line for line in script.splitlines() if line.startswith("export SLIPWAY_RUN="))
    script = script.replace(begin, f"export SLIPWAY_RUN={shlex.quote(str(run))}")
    script = script.replace("/fsx/alice/venv/bin/python ", boot)
    environment = {"PATH": path, **variables}
    subprocess.run(["bash", "-s", "host"], input=script, text=True, env=environment, check=True)


@pytest.mark.parametrize("field", ["environment", "hyperparameters", "arguments"])
def test_a_value_reaches_the_script_as_it_is_and_is_no_command(tmp_path: Path, field: str) -> None:
    changed: dict[str, Any] = {
        "environment": {"environment": {"WORDS": NASTY}},
        "hyperparameters": {"hyperparameters": {"words": NASTY}},
        "arguments": {
            "code": {"source_dir": "src", "entry_point": "train.py", "arguments": [NASTY, "/opt/ml/model/x"]}
        },
    }[field]
    script = script_of(plan_of(tmp_path, **changed))
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    assert not any("--uid" in option for option in options(script.split("\n\n")[0]))
    # The host's part, with a boot that prints what it is given.
    (tmp_path / "run" / "hosts" / "algo-1" / "ml").mkdir(parents=True)
    run_host(script, tmp_path / "run", "printf '%s\\0' \"$WORDS\" ", SLURM_NODEID="0", SLURMD_NODENAME="n1")
    log = (tmp_path / "run" / "hosts" / "algo-1" / "log").read_text()
    said = log.partition("\n")[2].split("\0")
    if field == "hyperparameters":
        return  # They reach the script by a file of JSON.
    assert NASTY in said
    if field == "arguments":
        assert f"{tmp_path}/run/hosts/algo-1/ml/model/x" in said


def test_a_variable_that_no_shell_can_have_is_refused(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, environment={"a-b": "1"})
    with pytest.raises(BackendError, match="'a-b' in `environment` cannot be a variable"):
        script_of(plan)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("shared", "relative"), ("shared", "/fsx/a b"), ("shared", "/fsx/%u"), ("python", "/x; id"),
        ("partition", "a b"), ("account", "x\n#SBATCH --uid=0"), ("qos", "$(id)"), ("image", "a b"),
        ("exclude", ["a;b"]), ("inputs", {"train": "/d,/e"}), ("gpus", -1), ("cpus", 0),
        ("host", "-oProxyCommand=id"), ("host", "a b"), ("host", "a;id"), ("host", "a@-l"), ("host", "a:/b"),
    ],
)  # fmt: skip
def test_a_section_that_sbatch_would_read_otherwise_is_refused(
    tmp_path: Path, field: str, value: object
) -> None:
    changed = {field: value, **({"python": None} if field == "image" else {})}
    plan = plan_of(tmp_path, changed)
    assert plan.refused
    assert any(found.code == "SPEC003" and f"slurm.{field}" in found.message for found in plan.findings)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"inputs": {"train": "s3://bucket/x"}}, "the input train has no folder on Slurm's nodes"),
        ({"distribution": {"strategy": "smddp"}}, "smddp is started by the training toolkit"),
        ({"checkpoint": {"resume_from": "s3://b/x"}}, "s3://b/x is on S3"),
        ({"slurm": None}, "`slurm` does not say where"),
        ({"slurm": {"shared": "/fsx"}}, "neither python nor image is given"),
        ({"slurm": {**SECTION, "image": "x"}}, "both python and image are given"),
    ],
)
def test_what_slurm_cannot_do_is_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    plan = plan_of(tmp_path, **changes)
    assert plan.refused
    assert said in " ".join(found.message for found in plan.findings)


def test_what_only_sagemaker_does_is_of_no_matter(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        cluster="never-deployed",
        resources={
            "instance_type": "ml.p5.48xlarge",
            "instance_count": 2,
            "capacity": "spot",
            "keep_alive": "30m",
        },
        limits={"max_runtime": "1h", "max_usd": 5},
        debugger=True,
        network={"isolation": True},
        checkpoint={"lustre": "/checkpoints"},
    )
    assert [found.code for found in plan.findings if found.blocks] == []


@pytest.mark.parametrize(
    ("checkpoint", "place"),
    [
        (
            {"s3_uri": "s3://mine/runs", "sync": "slipway", "resume_from": "s3://mine/runs/x"},
            "s3://mine/runs",
        ),
        ({"sync": "slipway"}, "/fsx/alice/slipway/{name}/checkpoints"),
        # That is for SageMaker.
        ({"s3_uri": "s3://mine/runs"}, None),
    ],
)
def test_checkpoints_are_copied_to_a_prefix_of_the_runs_own_where_the_job_file_says_so(
    tmp_path: Path, checkpoint: dict[str, str], place: str | None
) -> None:
    plan = plan_of(tmp_path, checkpoint=checkpoint)
    assert not plan.refused
    exported = [line for line in script_of(plan).splitlines() if "SLIPWAY_CHECKPOINT_URI=" in line]
    if place is None:
        assert exported == []
        return
    wanted = place.format(name=plan.name) if "{name}" in place else f"{place}/{plan.name}"
    (words,) = (shlex.split(line) for line in exported)
    assert words == ["export", f"SLIPWAY_CHECKPOINT_URI={wanted}"]


def test_the_gate_counts_the_interfaces_that_a_host_of_the_type_has(tmp_path: Path) -> None:
    script = script_of(
        plan_of(tmp_path, code={"source_dir": "src", "entry_point": "train.py", "arguments": ["a"]})
    )
    assert "--efa-interfaces 32 -- a" in script
    alone = {"instance_type": "ml.g5.xlarge", "instance_count": 2}
    assert "--efa-interfaces" not in script_of(plan_of(tmp_path, resources=alone))


SCONTROL = """#!/bin/bash
case "$2" in
  hostnames) echo n7; echo n8 ;;
  node) echo "NodeName=$4 NodeAddr=10.0.0.7 State=IDLE" ;;
esac
"""


@pytest.mark.parametrize(("on_hyperpod", "rendezvous"), [(True, "10.0.0.7:7777"), (False, "n1:7777")])
def test_hosts_that_srun_starts_again_on_hyperpod_meet_anew(
    tmp_path: Path, on_hyperpod: bool, rendezvous: str
) -> None:
    run, hyperpod = tmp_path / "run", tmp_path / "sagemaker_cluster"
    host = run / "hosts" / "algo-2"
    (host / "ml" / "output").mkdir(parents=True)
    for left in ("end", "ml/output/failure"):
        (host / left).write_text("of an earlier start")
    if on_hyperpod:
        hyperpod.mkdir()
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "scontrol").write_text(SCONTROL)
    (commands / "scontrol").chmod(0o755)
    script = script_of(plan_of(tmp_path, environment={"MASTER_PORT": "7777"}))
    assert "srun --ntasks-per-node=1 --kill-on-bad-exit=1 --cpu-bind=none $again bash" in script
    script = script.replace("HYPERPOD=/opt/sagemaker_cluster", f"HYPERPOD={hyperpod}")
    run_host(
        script,
        run,
        f'printenv {RENDEZVOUS_VARIABLE} > "$SLIPWAY_RUN/met"; true ',
        f"{commands}:/usr/bin:/bin",
        SLURM_NODEID="1",
        SLURMD_NODENAME="n8",
        SLURM_JOB_NODELIST="n[7-8]",
        **{RENDEZVOUS_VARIABLE: "n1:7777"},
    )
    assert (run / "met").read_text().strip() == rendezvous
    assert "slipway: started again on n[7-8]" in (host / "log").read_text()
    assert (host / "end").read_text().startswith("0 ")
    assert not (host / "ml" / "output" / "failure").exists()
