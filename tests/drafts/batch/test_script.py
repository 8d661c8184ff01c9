"""Batch scripts of Slurm as job files."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.drafts.batch.script import draft_of_batch_job
from launcher.drafts.batch.start_line import fields_of_start, questions_of_start
from launcher.drafts.job_draft import JobDraft, SourceLine, render_draft
from launcher.source.start_line import read_start_line
from launcher.source.start_script import BatchScript, read_batch_script

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
    assert questions["environment.TOKEN_OF"] == (
        "which value has TOKEN_OF? The script has $(cat token)",
        SourceLine(13),
    )
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


def arguments(text: str) -> list[str]:
    return list(draft(text).data()["code"].get("arguments", []))


def open_words(text: str) -> list[str]:
    return [each.text for each in draft(text).questions if each.path == ("code", "arguments")]


@pytest.mark.parametrize(
    ("condition", "learning_rate"),
    [
        ('[ "$SIZE" = "big" ]', ["1"]),
        ("[[ ${SIZE} == small ]]", ["2"]),
        ('[ "${MODE:-0}" -eq 1 ]', ["2"]),
        ('[ -z "$SLURM_JOB_ID" ]', ["2"]),
        ("! test $SIZE != big", ["1"]),
        ('[ "$SIZE" = "big" ] && [ -f here ]', []),
        ("[[ $SIZE == b* ]]", []),
        ("[ $WHO_KNOWS -gt 4 ]", []),
    ],
)
def test_a_condition_is_decided_by_the_scripts_own_values(condition: str, learning_rate: list[str]) -> None:
    text = f"SIZE=big\nif {condition}; then\n  LR=1\nelse\n  LR=2\nfi\nsrun torchrun train.py --lr $LR\n"
    assert arguments(text) == (["--lr", *learning_rate] if learning_rate else [])


def test_of_several_branches_the_first_that_holds_is_taken() -> None:
    text = "N=2\nif [ $N == 1 ]; then A=1\nelif [ $N == 2 ]; then A=2\nelif [ $N == 2 ]; then A=3\nfi\n"
    assert arguments(f"{text}srun torchrun train.py --a $A\n") == ["--a", "2"]


def test_commands_in_variables_are_read_also_where_a_shell_of_its_own_puts_them_in() -> None:
    made = draft(
        "#SBATCH --nodes=2\nHOST=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\nGPUS=4\n"
        'ARGS=" \\\n  --layers 12 \\\n  --id $SLURM_JOBID \\\n"\n'
        'export LAUNCHER="python -u -m torch.distributed.run --nproc_per_node $GPUS --master_addr $HOST "\n'
        'export CMD="`pwd`/pretrain.py --tp 2 $ARGS "\n'
        "srun --jobid $SLURM_JOBID bash -c '$LAUNCHER --node_rank $SLURM_PROCID $CMD' 2>&1 | tee log\n"
    )
    data = made.data()
    assert data["code"] == {"entry_point": "pretrain.py", "arguments": ["--tp", "2", "--layers", "12"]}
    assert data["distribution"] == {"strategy": "torchrun", "processes_per_host": 4}
    assert "environment" not in data  # LAUNCHER and CMD are what the script itself uses.
    assert "what is --id $SLURM_JOBID? It stands among the arguments." in [
        each.text for each in made.questions
    ]


def test_what_is_added_under_a_condition_is_open_and_the_rest_is_not() -> None:
    text = (
        'ARGS="--lr 1"\nif [ -n "$EXTRA" ]; then\n  ARGS="$ARGS --extra $EXTRA"\nfi\n'
        "MORE=(--seed 2)\nif [ -f here ]; then\n  MORE+=(--from here)\nfi\n"
        'srun torchrun train.py $ARGS "${MORE[@]}"\n'
    )
    assert arguments(text) == ["--lr", "1", "--seed", "2"]
    assert [each.split("?")[0] for each in open_words(text)] == [
        "what is --extra ${EXTRA}",
        "what is --from here",
    ]


def test_values_of_one_option_are_known_together_or_not_at_all() -> None:
    text = "srun torchrun train.py --lr 1 --data 0.3 /a/$SLURM_JOB_ID 0.7 /b --bf16 $MORE\n"
    assert arguments(text) == ["--lr", "1", "--bf16", "${MORE}"]
    assert open_words(text) == ["what is --data 0.3 /a/$SLURM_JOB_ID 0.7 /b? It stands among the arguments."]


@pytest.mark.parametrize("word", ["$@", "${PARAMETERS}", "<path of the data>"])
def test_a_word_that_somebody_else_puts_in_is_open(word: str) -> None:
    text = f"srun torchrun train.py {word} --lr 1\n"
    assert arguments(text) == ["--lr", "1"]
    assert open_words(text) == [f"what is {word}? It stands among the arguments."]


def test_a_program_in_a_variable_is_passed_over() -> None:
    made = draft(
        'if [ "${PROFILE:-0}" -eq 1 ]; then\n  export WRAP="nsys profile"\nfi\n'
        'srun bash -c "\n  source ranks.sh\n  ${WRAP} python train.py --lr 1\n  "\n'
    )
    assert made.data()["code"] == {"entry_point": "train.py", "arguments": ["--lr", "1"]}


@pytest.mark.parametrize(
    ("options", "hosts"),
    [
        ("--ntasks=1", 1),
        ("--ntasks=8 --ntasks-per-node=4", 2),
        ("--ntasks=8", None),
        ("--ntasks=8 --ntasks-per-node=3", None),
    ],
)
def test_hosts_follow_from_tasks(options: str, hosts: int | None) -> None:
    made = draft(f"#SBATCH {options}\nsrun python train.py\n").data()
    assert made.get("resources", {}).get("instance_count") == hosts


def test_one_task_is_one_process_and_asks_for_no_strategy() -> None:
    made = draft("#SBATCH --ntasks=1\n#SBATCH --ntasks-per-node=1\nsrun python train.py\n")
    assert all(each.path != ("distribution", "strategy") for each in made.questions)


@pytest.mark.parametrize(
    ("options", "processes"),
    [
        ("--num_processes 4", 4),
        ("--num_processes $((SLURM_NNODES * GPUS)) --num_machines $SLURM_NNODES", 4),
        ("--num_processes $((SLURM_NNODES * GPUS - 1)) --num_machines 2", None),
        ("--num_processes $((SLURM_NNODES * UNKNOWN))", None),
    ],
)
def test_accelerate_counts_the_ranks_of_all_hosts(options: str, processes: int | None) -> None:
    made = draft(f"#SBATCH --nodes=2\nGPUS=4\nsrun accelerate launch {options} train.py\n").data()
    assert made["distribution"].get("processes_per_host") == processes


def test_a_variable_for_one_command_is_that_of_this_command() -> None:
    made = draft(
        "IFS=' ' read -ra WORDS <<< x\nA=1 python prepare.py\nsrun bash -c \"B=2 torchrun train.py\"\n"
    ).data()
    assert made["environment"] == {"B": "2"}


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
    found = {".".join(path): value for path, value in fields_of_start(start)}
    assert {path: found.get(path) for path in expected} == expected


def test_what_accelerate_is_told_besides_is_a_question() -> None:
    start = read_start_line("accelerate launch --config_file fsdp.yaml --mixed_precision bf16 train.py")
    assert start is not None
    assert any(
        "--config_file fsdp.yaml, --mixed_precision bf16" in text for _, text in questions_of_start(start)
    )


ON_SLURM = """\
#!/bin/bash
#SBATCH -A physics --qos=high
#SBATCH --partition=p5
#SBATCH -x n1,n[3-5,7]
#SBATCH --gpus-per-node=8
#SBATCH --mem=200G
{before}
srun {options} torchrun --nproc_per_node=8 train.py
"""


def slurm_section(before: str = "", options: str = "") -> list[str]:
    text = render_draft(draft(ON_SLURM.format(before=before, options=options)))
    return [line.strip("# ") for line in text[text.index("# slurm:") :].splitlines()[1:]]


def test_what_slurm_is_asked_for_stands_in_a_section_that_is_commented_out() -> None:
    assert slurm_section("source /fsx/venv/bin/activate") == [
        "partition: p5",
        "account: physics",
        "qos: high",
        "exclude: [n1, 'n[3-5,7]']",
        "shared:  # a folder that this machine and all nodes see",
        "python: /fsx/venv",
        "gpus: 8",
        "memory: '200GiB'",
    ]


@pytest.mark.parametrize(
    ("before", "options", "said"),
    [
        (". /fsx/e/bin/activate", "", "python: /fsx/e"),
        ("conda activate /fsx/conda/torch", "", "python: /fsx/conda/torch"),
        ("conda activate torch", "", "python:  # the Python, or its virtual environment, on all nodes"),
        ("source $VENV/bin/activate", "", "python:  # the Python, or its virtual environment, on all nodes"),
        ("V=/fsx/v\nsource $V/bin/activate", "", "python: /fsx/v"),
        ("", "--container-image=/fsx/torch.sqsh", "image: /fsx/torch.sqsh"),
        ("", "--container-image=$IMAGE", "python:  # the Python, or its virtual environment, on all nodes"),
    ],
)
def test_the_python_or_image_of_a_script_is_that_of_its_job(before: str, options: str, said: str) -> None:
    assert said in slurm_section(before, options)


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("cd code\ncd train\npython a.py\n", "code/train"),
        ("pushd /work/repo\npython a.py\npopd\n", "/work/repo"),
        ("cd tools\ncd -\npython a.py\n", None),
        ("pushd tools\npopd\npython a.py\ncd later\n", None),
    ],
)
def test_the_folder_is_the_one_in_which_the_shell_is_by_then(text: str, folder: str | None) -> None:
    assert draft(f"#SBATCH -N 1\n{text}").data()["code"].get("source_dir") == folder


def test_a_home_folder_of_the_clusters_is_asked_about() -> None:
    made = draft("#SBATCH -N 1\ncd ~/repo\ncd src\npython a.py\n")
    (question,) = (each for each in made.questions if each.path == ("code", "source_dir"))
    assert question.text.endswith("The script goes to ~/repo/src")


@pytest.mark.parametrize(
    ("options", "gpus", "cpus"),
    [
        ("--nodes=2 --gpus=8 --cpus-per-task=12 --ntasks-per-node=4", 4, 48),
        ("--nodes=1 --gres=gpu:v100:2,nvme:100 --cpus-per-task=10", 2, 10),
        ("--nodes=2 --ntasks=2 --gres=nvme:100 --cpus-per-task=6", None, 6),
        ("--nodes=2 --ntasks=8 --gpus=a100:3 --cpus-per-task=6", None, None),
    ],
)
def test_gpus_and_cpus_are_those_of_each_host(options: str, gpus: int | None, cpus: int | None) -> None:
    made = draft(f"#SBATCH {options}\nsrun python train.py\n")
    asked = {each.path[-1]: each.value for each in made.defaults if each.path[0] == "slurm"}
    assert (asked.get("gpus"), asked.get("cpus")) == (gpus, cpus)
