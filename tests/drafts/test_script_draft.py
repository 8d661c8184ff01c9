"""What the draft of a script's job says, and what it asks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from launcher.drafts.job_draft import JobDraft, render_draft
from launcher.drafts.script_draft import GivenByUser, ScriptSource, draft_script
from launcher.program.program import Program, read_program

Draft = Callable[..., JobDraft]


@pytest.fixture
def draft(tmp_path: Path) -> Draft:
    """The draft of a script with these texts, the first of which is started."""

    def make(
        script: str, wanted: GivenByUser | None = None, config: str | None = None, **modules: str
    ) -> JobDraft:
        for name, text in {"train": script, **modules}.items():
            (tmp_path / f"{name}.py").write_text(dedent(text))
        program = read_program(tmp_path / "train.py")
        assert isinstance(program, Program)
        code = {"source_dir": ".", "entry_point": "train.py"}
        source = ScriptSource("train.py", "job", code, program, config=config)
        return draft_script(source, wanted or GivenByUser())

    return make


def questions(made: JobDraft) -> dict[str, tuple[int | None, Any]]:
    """The line and the example of each question, by its field."""
    return {".".join(each.path): (each.line and each.line.line, each.example) for each in made.questions}


def defaults(made: JobDraft) -> dict[str, Any]:
    """The options and what they are by default."""
    return {each.path[-1]: each.computed or each.value for each in made.defaults}


def test_options_of_a_parser_that_a_helper_builds_stand_with_their_defaults(draft: Draft) -> None:
    made = draft(
        """
        from options import make_parser
        print(make_parser().parse_args())
        """,
        options="""
        import argparse, os
        def make_parser():
            parser = argparse.ArgumentParser()
            parser.add_argument("-b", "--batch-size", type=int, default=32)
            parser.add_argument("--workers", default=os.cpu_count())
            parser.add_argument("--model", required=True, choices=["small", "large"])
            parser.add_argument("--amp", action="store_true")
            parser.add_argument("data")
            return parser
        """,
    )
    assert defaults(made) == {"batch-size": 32, "workers": "os.cpu_count()"}
    assert questions(made)["hyperparameters.model"] == (None, "small")
    assert questions(made)["code.arguments"] == (None, ["DATA"])
    assert "--amp" in render_draft(made)
    assert "hyperparameters" not in made.data()


def test_an_option_of_one_letter_that_no_hyperparameter_can_give_is_asked_of_the_arguments(
    draft: Draft,
) -> None:
    made = draft(
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("corpus")
        parser.add_argument("--p", type=int, required=True)
        parser.add_argument("--k", type=int, default=3)
        parser.add_argument("-n", "--n", type=int, default=4)
        print(parser.parse_args())
        """
    )
    assert questions(made)["code.arguments"] == (4, ["CORPUS", "--p", "..."])
    assert defaults(made) == {"n": 4}
    assert "`arguments`: --k" in render_draft(made)


def test_dataclasses_are_options_and_those_of_a_library_are_named(draft: Draft) -> None:
    made = draft(
        """
        from dataclasses import dataclass, field
        from transformers import HfArgumentParser, Trainer, TrainingArguments

        @dataclass
        class Data:
            corpus: str
            length: int = field(default=512)

        data, options = HfArgumentParser((Data, TrainingArguments)).parse_args_into_dataclasses()
        Trainer(args=options).train()
        """
    )
    assert made.data()["hyperparameters"] == {"output_dir": "${SM_CHECKPOINT_DIR}"}
    assert (made.data()["checkpoint"], made.data()["distribution"]) == ({}, {"strategy": "torchrun"})
    assert questions(made)["hyperparameters.corpus"] == (7, "${SM_CHANNEL_TRAIN}")
    assert defaults(made) == {"length": 512}
    assert "those of TrainingArguments" in render_draft(made)


@pytest.mark.parametrize(
    "script",
    [
        """
        import click
        @click.command()
        @click.option("--lr", default=0.1)
        @click.option("--epochs", type=int, required=True)
        def main(lr, epochs): print(lr, epochs)
        if __name__ == "__main__":
            main()
        """,
        """
        import typer
        def main(epochs: int = typer.Option(...), lr: float = 0.1): print(lr, epochs)
        if __name__ == "__main__":
            typer.run(main)
        """,
    ],
    ids=["click", "typer"],
)
def test_options_of_click_and_typer_are_read(draft: Draft, script: str) -> None:
    made = draft(script)
    assert defaults(made) == {"lr": 0.1}
    assert "hyperparameters.epochs" in questions(made)


def test_values_of_hydra_are_dotted_and_missing_ones_are_asked(draft: Draft) -> None:
    made = draft(
        """
        import hydra
        @hydra.main(config_path="conf", config_name="config")
        def main(config): print(config)
        main()
        """,
        config="defaults: [model: small]\nepochs: 3\noptimizer:\n  lr: 0.1\n  name: ???\nrun: ${now:%Y}\n",
    )
    assert defaults(made) == {"epochs": 3, "optimizer.lr": 0.1}
    assert "hyperparameters.optimizer.name" in questions(made)
    assert made.data()["code"]["argument_style"] == "hydra"


STRATEGIES = {
    "torch.distributed": ("import torch.distributed as d\nd.init_process_group('nccl')", "torchrun"),
    "accelerate": ("from accelerate import Accelerator\na = Accelerator()", "torchrun"),
    "deepspeed": ("import deepspeed\ne = deepspeed.initialize()", "torchrun"),
    "lightning": ("import pytorch_lightning as pl\npl.Trainer(num_nodes=2)", "torchrun"),
    "by variables": ("import os\nprint(os.environ['LOCAL_RANK'])", "torchrun"),
    "one process": ("import torch\nprint(torch.ones(3))", "none"),
    "spawned": (
        "import torch.distributed as d\nimport torch.multiprocessing as mp\n"
        "def run(rank): d.init_process_group('nccl', rank=rank, world_size=4)\n"
        "if __name__ == '__main__': mp.spawn(run, nprocs=4)",
        "none",
    ),
    "elastic_launch": (
        "import torch.distributed as d, torch.distributed.launcher as pet\n"
        "def run(): d.init_process_group('gloo')\n"
        "pet.elastic_launch(pet.LaunchConfig(1, 1, 2), entrypoint=run)()",
        "none",
    ),
    "horovod": ("import horovod.torch as hvd\nhvd.init()", "mpi"),
    "mpi4py": ("from mpi4py import MPI\nprint(MPI.COMM_WORLD.Get_rank())", "mpi"),
    "MPI's variables": ("import os\nprint(os.environ['OMPI_COMM_WORLD_RANK'])", "mpi"),
    "smddp": ("if True:\n    import smdistributed.dataparallel.torch.torch_smddp", "smddp"),
    "smp 1": ("import smdistributed.modelparallel.torch as smp\nsmp.init()", "smp"),
    "smp 2": ("import torch.sagemaker as tsm\ntsm.init()", "smp"),
    "xla": ("import torch_xla.core.xla_model as xm\ndef _mp_fn(index): print(xm)", "torch_xla"),
    "tensorflow": ("import tensorflow as tf\nfrom transformers import TFAutoModel\nprint(tf)", "none"),
}


def test_the_strategy_is_that_of_what_the_script_uses(draft: Draft) -> None:
    chosen = {
        name: draft(script).data()["distribution"]["strategy"] for name, (script, _) in STRATEGIES.items()
    }
    assert chosen == {name: strategy for name, (_, strategy) in STRATEGIES.items()}


def test_a_trainer_that_is_not_told_of_the_hosts_is_asked_about(draft: Draft) -> None:
    bare = draft("import lightning\nlightning.Trainer(max_epochs=3)")
    told = draft("import lightning\nlightning.Trainer(num_nodes=2, max_epochs=3)")
    assert questions(bare)["distribution.strategy"][0] == 2
    assert "distribution.strategy" not in questions(told)


def test_what_a_failing_import_of_the_launcher_leaves_open_is_not_taken_for_mpi(draft: Draft) -> None:
    made = draft(
        """
        import os
        import torch.distributed as dist
        if "OMPI_COMM_WORLD_RANK" in os.environ:
            print(os.environ["OMPI_COMM_WORLD_RANK"])
        dist.init_process_group("nccl")
        """
    )
    assert made.data()["distribution"] == {"strategy": "torchrun"}


def test_what_a_module_imports_in_some_runs_alone_does_not_start_the_script(draft: Draft) -> None:
    made = draft(
        "import choice",
        choice="""
        import os
        try:
            import horovod.torch as hvd
        except ImportError:
            hvd = None
        if "OMPI_COMM_WORLD_SIZE" in os.environ:
            import horovod.tensorflow
            from mpi4py import MPI
        def joined():
            import horovod.torch
        """,
    )
    assert made.data()["distribution"] == {"strategy": "none"}
    made = draft("import start\nstart.join()", start="def join():\n    import horovod.torch\n")
    assert made.data()["distribution"] == {"strategy": "mpi"}


def test_a_folder_or_file_into_which_the_script_saves_is_given(draft: Draft) -> None:
    made = draft(
        """
        import argparse, os, torch
        from pathlib import Path
        parser = argparse.ArgumentParser()
        parser.add_argument("--out", default="runs")
        parser.add_argument("--file", default="runs/last.pt")
        parser.add_argument("--final", default="")
        parser.add_argument("--data_dir", default="data")
        parser.add_argument("--model_dir", default="model")
        parser.add_argument("--kept", default=os.environ.get("SM_MODEL_DIR", "model"))
        args = parser.parse_args()
        def save(model, folder):
            torch.save({"model": model, "epoch": 3}, Path(folder) / "last.pt")
        save(torch.ones(3), args.out)
        torch.save({"model": 3}, args.file)
        if args.final:
            torch.save({"model": 3}, args.final)
        torch.save({"words": 3}, os.path.join(args.data_dir, "words.pt"))
        torch.save({"model": 3}, os.path.join(args.model_dir, "model.pt"))
        torch.save({"model": 3}, os.path.join(args.kept, "model.pt"))
        """
    )
    assert made.data()["hyperparameters"] == {
        "out": "${SM_CHECKPOINT_DIR}",
        "file": "${SM_CHECKPOINT_DIR}/last.pt",
        "model_dir": "${SM_MODEL_DIR}",
    }
    assert made.data()["checkpoint"] == {}
    assert set(defaults(made)) == {"final", "data_dir", "kept"}


def test_a_script_that_keeps_its_model_alone_has_no_checkpoints(draft: Draft) -> None:
    made = draft(
        """
        import os, torch
        torch.save({"model": 1}, os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))
        """
    )
    assert "checkpoint" not in made.data()


def test_channels_that_are_read_and_options_that_name_data_are_asked(draft: Draft) -> None:
    reads = draft("import os\nprint(os.environ['SM_CHANNEL_TRAIN'], '/opt/ml/input/data/valid/x')")
    assert questions(reads)["inputs.train"] == (None, "s3://BUCKET/train")
    assert "inputs.valid" in questions(reads)
    named = draft(
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--data-dir", default="./data")
        parser.add_argument("--data_type", default="gpt")
        print(parser.parse_args())
        """
    )
    assert questions(named)["inputs.train"][0] == 4
    assert "inputs" not in named.data()


def test_precision_and_the_number_of_ranks_stand_at_the_hosts(draft: Draft) -> None:
    made = draft(
        """
        import torch, torch.distributed as dist
        dist.init_process_group("nccl")
        assert dist.get_world_size() == 8
        model = torch.nn.Linear(3, 3).to(torch.bfloat16)
        """
    )
    text = render_draft(made)
    assert "bf16" in text and "line 5" in text
    assert "dist.get_world_size() == 8 (line 4)" in text
    assert made.data()["resources"]["instance_type"] == "ml.g5.xlarge"
    assert "resources.instance_type" in questions(made)


def test_what_the_user_says_is_asked_no_more(draft: Draft) -> None:
    made = draft("print(1)", GivenByUser("ml.p5.48xlarge", 4, 8, "dev", ("--lr", "0.1")))
    assert made.data() == {
        "name": "job",
        "cluster": "dev",
        "code": {"source_dir": ".", "entry_point": "train.py", "arguments": ["--lr", "0.1"]},
        "framework": {"name": "pytorch"},
        "resources": {"instance_type": "ml.p5.48xlarge", "instance_count": 4},
        "distribution": {"strategy": "none", "processes_per_host": 8},
    }
    assert made.questions == ()


def test_a_parser_that_cannot_be_read_is_asked_about(draft: Draft) -> None:
    made = draft("import fire\ndef main(lr=0.1): print(lr)\nfire.Fire(main)")
    assert "hyperparameters...." in questions(made)


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("import sys\nfor word in sys.argv[1:]:\n    print(word)", 2),
        ("from sys import argv\nprint(len(argv))", 2),
        ("lr = 0.1\nexec(open('options.py').read())", 2),
    ],
)
def test_words_that_are_read_without_a_parser_are_asked(draft: Draft, script: str, line: int) -> None:
    assert questions(draft(script))["code.arguments"] == (line, ["..."])


def test_the_name_of_the_script_is_no_word_of_its_command_line(draft: Draft) -> None:
    assert "code.arguments" not in questions(draft("import sys\nprint(sys.argv[0])\nsys.argv = []"))


def test_a_configuration_of_hydra_that_is_no_yaml_is_asked_about(draft: Draft) -> None:
    assert "hyperparameters" in questions(draft("import hydra", config="a: [\n"))


def test_a_shell_script_is_asked_for_the_arguments_that_it_cannot_do_without() -> None:
    text = "set -e\nmodel=${1:-$SM_MODEL_DIR}\n# $4\npython train.py --data $2 --model $model\n"
    made = draft_script(ScriptSource("t.sh", "t", {"entry_point": "t.sh"}, None, text), GivenByUser())
    assert questions(made)["code.arguments"][0] == 4
    assert made.data()["distribution"] == {"strategy": "none"}


def test_every_draft_is_yaml_that_reads_back(draft: Draft) -> None:
    for script, _ in STRATEGIES.values():
        made = draft(script)
        assert yaml.safe_load(render_draft(made)) == made.data()


@pytest.mark.parametrize(
    ("processes", "expected"), [(1, "ml.g5.xlarge"), (2, "ml.g5.12xlarge"), (16, "ml.m5.xlarge")]
)
def test_hosts_that_stand_for_others_have_a_device_for_each_process(
    draft: Draft, processes: int, expected: str
) -> None:
    made = draft("import torch\ntorch.cuda.set_device(0)\n", GivenByUser(processes=processes))
    assert made.data()["resources"]["instance_type"] == expected
