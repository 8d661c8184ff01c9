"""Batch scripts of Slurm as job files."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.drafts.batch.script import BatchScript, draft_of_batch_job, read_batch_script
from launcher.drafts.batch.start_line import read_start_line
from launcher.drafts.job_draft import JobDraft, SourceLine

FSDP = """\
#!/bin/bash
#SBATCH --nodes=4 # number of nodes
#SBATCH -J llama_fsdp
#SBATCH --exclusive
#SBATCH --time=1-02:00:00
#SBATCH --partition p5

GPUS_PER_NODE=8 # on p5
: "${DATA:=/fsx}"
export NCCL_DEBUG=INFO   # as always
export MASTER_ADDR=$(hostname)
export LD_LIBRARY_PATH=/opt/lib:$LD_LIBRARY_PATH
export TOKEN_OF=$(cat token)
export TORCHRUN=torchrun

declare -a TORCHRUN_ARGS=(
    --nproc_per_node=$GPUS_PER_NODE
    --nnodes=$SLURM_JOB_NUM_NODES
    --rdzv_endpoint=$(hostname)
)
declare -a ARGS=(
    --data=${DATA}/c4   # the data
    --name 'a b'
)
RESUME=""
if [ -d /opt/sagemaker_cluster ]; then
    RESUME="--auto-resume=1"
fi
srun ${RESUME} -l ${TORCHRUN} "${TORCHRUN_ARGS[@]}" ./train.py "${ARGS[@]}" \\
    --user $USER --seed $RANDOM
"""


def draft(text: str) -> JobDraft:
    script = read_batch_script(text)
    (job,) = script.jobs
    return draft_of_batch_job(script, job, name="script", origin="")


def test_a_script_becomes_a_job_with_questions_about_what_slurm_alone_knows() -> None:
    made = draft(FSDP)
    assert made.data() == {
        "name": "llama-fsdp",
        "code": {
            "entry_point": "train.py",
            "arguments": ["--data=/fsx/c4", "--name", "a b", "--user", "${USER}"],
        },
        "framework": {"name": "pytorch"},
        "resources": {"instance_count": 4},
        "distribution": {"strategy": "torchrun", "processes_per_host": 8},
        "environment": {"NCCL_DEBUG": "INFO"},
        "limits": {"max_runtime": 93600},
    }
    questions = {".".join(each.path): (each.text, each.line) for each in made.questions}
    assert questions["resources.instance_type"] == ("on which hosts? It asks for p5.", SourceLine(6))
    assert questions["code.arguments"] == (
        "what is --seed $RANDOM? It stands among the arguments.",
        SourceLine(29),
    )
    assert questions["environment.TOKEN_OF"] == ("which value? The script has $(cat token)", SourceLine(13))
    assert "MASTER_ADDR, LD_LIBRARY_PATH, TORCHRUN" in made.origin


def test_a_variable_set_under_a_condition_is_open() -> None:
    made = draft('if [ -n "$1" ]; then\n  SCRIPT=a.py\nfi\nsrun torchrun --nproc_per_node 8 $SCRIPT --x 1\n')
    assert "entry_point" not in made.data()["code"]
    assert any(each.path == ("code", "entry_point") for each in made.questions)


def test_a_default_under_a_condition_is_open() -> None:
    made = draft(
        'if [ $N -le 4 ]; then\n  : "${TP:=4}"\nfi\nsrun torchrun --nproc_per_node 8 a.py --tp $TP --lr 1\n'
    )
    assert made.data()["code"]["arguments"] == ["--lr", "1"]


def test_code_in_a_container_is_a_question() -> None:
    made = draft(
        "#SBATCH -N 1\nsrun --container-image /fsx/a.sqsh torchrun --nproc_per_node 8 /work/train.py\n"
    )
    questions = {each.path: each.text for each in made.questions}
    assert "/work/train.py" in questions["code", "source_dir"]
    assert "/fsx/a.sqsh" in questions["framework", "version"]


def test_ranks_that_slurm_starts_are_a_question() -> None:
    made = draft("#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\nsrun python train.py\n")
    assert any("SLURM_PROCID" in each.text for each in made.questions)
    assert "distribution" not in made.data()


def test_what_prepares_a_job_is_no_job() -> None:
    script: BatchScript = read_batch_script("python prepare.py\nsrun torchrun --nproc_per_node 8 train.py\n")
    assert [each.line for each in script.jobs] == [2]


STARTS: list[tuple[str, dict[str, Any]]] = [
    ("python -m torch.distributed.run --nproc-per-node=4 -m pkg.train a", {"code.module": "pkg.train"}),
    ("torchrun --standalone --nproc_per_node 4 train.py", {"distribution.processes_per_host": 4}),
    ("torchrun --max_restarts 3 train.py", {"limits.restarts": 3}),
    ("deepspeed --num_gpus 8 train.py --deepspeed ds.json", {"code.arguments": ["--deepspeed", "ds.json"]}),
    ("accelerate launch --multi_gpu --num_processes 16 train.py", {"distribution.strategy": "torchrun"}),
    ("mpirun -np 16 -x A=1 python train.py", {"distribution.strategy": "mpi"}),
    ("bash -c 'cd /app; torchrun --nproc_per_node 2 train.py'", {"distribution.processes_per_host": 2}),
    ("python -X faulthandler -m pkg.train 1", {"code.module": "pkg.train", "code.arguments": ["1"]}),
    ("python train.py --lr 0.1", {"code.entry_point": "train.py", "code.arguments": ["--lr", "0.1"]}),
]


@pytest.mark.parametrize(("text", "expected"), STARTS)
def test_each_starter_is_read(text: str, expected: dict[str, Any]) -> None:
    start = read_start_line(text)
    assert start is not None
    found = {".".join(path): value for path, value in start.fields()}
    assert {path: found.get(path) for path in expected} == expected


def test_what_accelerate_is_told_besides_is_a_question() -> None:
    start = read_start_line("accelerate launch --config_file fsdp.yaml --mixed_precision bf16 train.py")
    assert start is not None
    assert any("--config_file fsdp.yaml, --mixed_precision bf16" in text for _, text in start.questions)


@pytest.mark.parametrize(
    "text", ["echo torchrun train.py", "pip install torchrun", "python -m venv x", "python -c 'x'", ""]
)
def test_other_commands_start_nothing(text: str) -> None:
    assert read_start_line(text) is None
