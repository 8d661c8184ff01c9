"""What the draft of a script's job says, and what it asks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from launcher.drafts.hydra_config import HydraConfig
from launcher.drafts.job_draft import JobDraft, render_draft
from launcher.drafts.script_draft import GivenByUser, ScriptSource, draft_script
from launcher.program.program import Program, read_program

Draft = Callable[..., JobDraft]


@pytest.fixture
def draft(tmp_path: Path) -> Draft:
    """The draft of a script with these texts, the first of which is started."""

    def make(
        script: str, wanted: GivenByUser | None = None, config: HydraConfig | None = None, **modules: str
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
    assert any(each.text.endswith("for `arguments`: --k 3") for each in made.notes)


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
        config=HydraConfig(
            {"epochs": 3, "optimizer.lr": 0.1, "run": "${now:%Y}"}, {"model": "small"}, ("optimizer.name",)
        ),
    )
    assert defaults(made) == {"epochs": 3, "optimizer.lr": 0.1, "run": "${now:%Y}", "model": "small"}
    assert "run:  # ${now:%Y}" in render_draft(made)
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
    one = draft("import lightning\nlightning.Trainer(num_nodes=1, devices=1)")
    assert questions(one)["distribution.strategy"][0] == 2


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
    assert "The script names bf16" in text and "line 5" in text
    assert "dist.get_world_size() == 8 (line 4)." in text
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
    made = draft("import fire\nclass Main:\n    def train(self, lr=0.1): print(lr)\nfire.Fire(Main)")
    assert "hyperparameters...." in questions(made)


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("import sys\nfor word in sys.argv[1:]:\n    print(word)", 2),
        ("from sys import argv\nprint(argv[1])", 2),
        ("lr = 0.1\nexec(open('options.py').read())", 2),
    ],
)
def test_words_that_are_read_without_a_parser_are_asked(draft: Draft, script: str, line: int) -> None:
    assert questions(draft(script))["code.arguments"] == (line, ["..."])


def test_the_name_of_the_script_is_no_word_of_its_command_line(draft: Draft) -> None:
    assert "code.arguments" not in questions(draft("import sys\nprint(sys.argv[0])\nsys.argv = []"))


def test_a_configuration_of_hydra_that_is_not_found_is_asked_about(draft: Draft) -> None:
    assert "hyperparameters" in questions(draft("import hydra"))


def test_the_parameters_of_what_fire_starts_are_options(draft: Draft) -> None:
    made = draft("import fire\ndef main(data, lr=0.1, fast=False): print(lr)\nfire.Fire(main)")
    assert defaults(made) == {"lr": 0.1, "fast": False}
    assert questions(made)["hyperparameters.data"] == (2, "${SM_CHANNEL_TRAIN}")


def test_a_field_that_is_false_or_zero_by_default_is_an_option(draft: Draft) -> None:
    made = draft(
        """
        from dataclasses import dataclass, field
        from transformers import HfArgumentParser

        @dataclass
        class Options:
            freeze: bool = field(default=False)
            dropout: float = field(default=0.0)
            parts: list[str] = field(default_factory=lambda: ["q", "v"])
            made: int = field(init=False, default=3)

        HfArgumentParser(Options).parse_args_into_dataclasses()
        """
    )
    assert defaults(made) == {"freeze": False, "dropout": 0.0, "parts": "['q', 'v']"}


def test_options_are_those_of_a_parser_that_a_library_has_added_to(draft: Draft) -> None:
    made = draft(
        """
        import argparse, deepspeed
        parser = argparse.ArgumentParser()
        parser.add_argument("--lr", default=0.1)
        parser = deepspeed.add_config_arguments(parser)
        parser.add_argument("--epochs", default=3)
        print(parser.parse_args())
        """
    )
    assert defaults(made) == {"lr": 0.1, "epochs": 3}
    assert "and others that could not be read" in render_draft(made)


def test_a_parser_that_reads_what_another_one_leaves_adds_its_options(draft: Draft) -> None:
    made = draft(
        """
        import argparse
        first = parser = argparse.ArgumentParser(add_help=False)
        parser.add_argument("--config", default="a.yaml")
        parser = argparse.ArgumentParser()
        parser.add_argument("--lr", default=0.1)
        def options():
            known, rest = first.parse_known_args()
            return parser.parse_args(rest)
        options()
        """
    )
    assert defaults(made) == {"config": "a.yaml", "lr": 0.1}


def test_switches_that_a_loop_declares_are_no_hyperparameters(draft: Draft) -> None:
    made = draft(
        """
        import argparse
        parser = argparse.ArgumentParser()
        for name in ("--amp", "--compile"):
            parser.add_argument(name, action="store_true")
        print(parser.parse_args())
        """
    )
    assert defaults(made) == {}
    assert "switches of the script, for `arguments`: --amp --compile" in render_draft(made)


def test_a_command_of_typer_that_is_called_as_a_function_reads_no_words(draft: Draft) -> None:
    script = "import typer\napp = typer.Typer()\n@app.command()\ndef train(lr: float = 0.1): print(lr)\n"
    assert defaults(draft(f"{script}app()\n")) == {"lr": 0.1}
    assert defaults(draft(f"{script}train()\n")) == {}


@pytest.mark.parametrize(
    "script",
    [
        "import click\n@click.group()\ndef cli(): ...\n"
        "@cli.command()\n@click.option('--lr', default=0.1)\ndef train(lr): ...\n"
        "@cli.command('show')\ndef other(): ...\ncli()\n",
        "import typer\napp = typer.Typer()\n@app.command()\ndef train(lr: float = 0.1): ...\n"
        "@app.command('show')\ndef other(): ...\napp()\n",
    ],
    ids=["click", "typer"],
)
def test_a_program_of_several_commands_is_asked_which_one(draft: Draft, script: str) -> None:
    made = draft(script)
    assert "`command` (one of train, show)" in render_draft(made)
    assert questions(made)["code.arguments"][1] == ["train"]
    assert defaults(made) == {}


def test_words_that_a_script_reads_by_itself_are_asked_about(draft: Draft) -> None:
    assert questions(draft("import sys\nprint(open(sys.argv[1]))"))["code.arguments"][0] == 2
    assert questions(draft("exec(open('options.py').read())"))["code.arguments"][0] == 1
    assert "code.arguments" not in questions(draft("import sys\nprint(sys.argv, sys.argv[0])"))


def test_a_required_option_is_shown_with_the_default_that_it_has(draft: Draft) -> None:
    made = draft(
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--data", required=True, default="wikitext")
        parser.add_argument("--outdir", required=True)
        print(parser.parse_args())
        """
    )
    assert questions(made)["hyperparameters.data"] == (4, "wikitext")
    assert questions(made)["hyperparameters.outdir"] == (5, "${SM_CHECKPOINT_DIR}")


def test_of_options_that_name_data_a_path_is_asked_about_first(draft: Draft) -> None:
    script = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--dataset')\n"
    assert questions(draft(f"{script}parser.parse_args()\n"))["inputs.train"][0] == 3
    path = "parser.add_argument('--root_path', default='./data/')\n"
    assert questions(draft(f"{script}{path}parser.parse_args()\n"))["inputs.train"][0] == 4


def test_flags_of_absl_are_options_and_those_that_are_marked_are_required(draft: Draft) -> None:
    made = draft(
        """
        from absl import app, flags
        RATE = flags.DEFINE_float("learning_rate", 0.1, "The step.")
        flags.DEFINE_bool("amp", False, "Whether to save memory.")
        flags.DEFINE_string("workdir", None, "Where to.")
        def main(words): print(RATE.value)
        if __name__ == "__main__":
            flags.mark_flags_as_required(["workdir"])
            app.run(main)
        """
    )
    assert defaults(made) == {"learning_rate": 0.1}
    assert questions(made)["hyperparameters.workdir"][0] == 5
    assert "switches of the script, for `arguments`: --amp" in render_draft(made)


def test_fields_of_what_tyro_is_given_are_options(draft: Draft) -> None:
    made = draft(
        """
        from dataclasses import dataclass
        import tyro
        @dataclass
        class Model:
            width: int = 8
        @dataclass
        class Options:
            seed: int = 1
            cuda: bool = True
            model: Model = Model()
        print(tyro.cli(Options))
        """
    )
    assert defaults(made) == {"seed": 1}
    assert "and others that could not be read" in render_draft(made)
    assert "switches of the script, for `arguments`: --cuda" in render_draft(made)


def test_of_several_classes_for_tyro_only_what_all_have_by_default_is_known(draft: Draft) -> None:
    made = draft(
        """
        from dataclasses import dataclass
        import tyro
        @dataclass
        class Base:
            env: str = "walk"
            steps: int = 10
            init: bool | float = True
        @dataclass
        class Run(Base):
            steps: int = 20
        options = tyro.cli(Base)
        if options.env == "run":
            options = tyro.cli(Run)
        """
    )
    assert defaults(made) == {"env": "walk", "init": True}
    assert "switches" not in render_draft(made)


@pytest.mark.parametrize(
    "read",
    [
        "from simple_parsing import parse\nprint(parse(Options))",
        "import simple_parsing\nparser = simple_parsing.ArgumentParser()\n"
        "parser.add_arguments(Options, dest='options')\nprint(parser.parse_args())",
    ],
)
def test_fields_of_dataclasses_within_one_are_options_of_simple_parsing(draft: Draft, read: str) -> None:
    made = draft(
        "from dataclasses import dataclass, field\n"
        "@dataclass\nclass Net:\n    width: int = 8\n"
        "@dataclass\nclass Options:\n    name: str\n    net: Net = field(default_factory=Net)\n"
        f"    seed: int = 1\n{read}\n"
    )
    assert defaults(made) == {"width": 8, "seed": 1}
    assert "hyperparameters.name" in questions(made)


def test_what_a_method_declares_that_nobody_calls_is_no_option(draft: Draft) -> None:
    made = draft(
        "from shared import Shared\nargs = Shared().for_training()\n",
        shared="""
        import argparse
        class Shared(object):
            def __init__(self):
                self.parser = argparse.ArgumentParser()
                self.parser.add_argument("--seed", type=int, default=1)
            def for_training(self):
                self.parser.add_argument("--task", default="train")
                return self.parser.parse_args()
            def for_tests(self):
                self.parser.add_argument("--task", default="test")
                self.parser.add_argument("--shards", type=int, default=4)
                return self.parser.parse_args()
        if __name__ == "__main__":
            Shared().for_tests()
        """,
    )
    assert defaults(made) == {"seed": 1, "task": "train"}


@pytest.mark.parametrize(
    "other",
    [
        "import argparse\ndef parse_args():\n    parser = argparse.ArgumentParser()\n"
        "    parser.add_argument('--seed', default=2)\n    parser.add_argument('--weights', default='a.pt')\n"
        "    return parser.parse_args()\ndef main():\n    print(parse_args())\n",
        "import click\n@click.command()\n@click.option('--seed', default=2)\n"
        "@click.option('--weights', default='a.pt')\ndef main(seed, weights): ...\n",
    ],
)
def test_what_a_module_reads_when_it_is_started_itself_is_no_option(draft: Draft, other: str) -> None:
    made = draft(
        """
        import argparse
        from other import helper
        def parse_args():
            parser = argparse.ArgumentParser()
            parser.add_argument("--seed", type=int, default=1)
            return parser.parse_args()
        def main():
            args = parse_args()
        if __name__ == "__main__":
            main()
        """,
        other=f"{other}def helper(): ...\nif __name__ == '__main__':\n    main()\n",
    )
    assert defaults(made) == {"seed": 1}


def test_a_default_that_is_calculated_stands_as_its_number(draft: Draft) -> None:
    made = draft(
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--steps", type=int, default=int(1e6))
        parser.add_argument("--size", type=int, default=50 * 1024)
        print(parser.parse_args())
        """
    )
    assert defaults(made) == {"steps": 1_000_000, "size": 51_200}
    assert "steps: 1000000\n" in render_draft(made)


@pytest.mark.parametrize(
    "script",
    [
        "import argparse, deepspeed\ndeepspeed.init_distributed()\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--local_rank', type=int, dest='local_rank', default=-1)\n"
        "args = parser.parse_args()\nrank = args.local_rank\nprint(rank % 8)\n",
        "import torch.distributed as dist\nfrom absl import app, flags\nFLAGS = flags.FLAGS\n"
        "flags.DEFINE_integer('local_rank', 0, 'set by the launcher')\n"
        "def main(_):\n    dist.init_process_group('nccl')\n    print(FLAGS.local_rank)\napp.run(main)\n",
    ],
)
def test_a_local_rank_by_an_option_is_asked_about_wherever_it_is_read(draft: Draft, script: str) -> None:
    assert "distribution.strategy" in questions(draft(script))


def test_ray_starts_the_workers_of_its_trainer(draft: Draft) -> None:
    made = draft(
        "import torch.distributed as dist\nfrom ray.train.torch import TorchTrainer\n"
        "def loop():\n    dist.init_device_mesh('cuda', (2,))\nTorchTrainer(loop).fit()\n"
    )
    assert made.data()["distribution"] == {"strategy": "none"}


def test_data_parallel_without_a_group_is_one_process(draft: Draft) -> None:
    made = draft(
        "import os, torch\nmodel = torch.nn.DataParallel(torch.nn.Linear(1, 1))\n"
        "if os.environ.get('LOCAL_RANK', '0') == '0':\n    print(model)\n"
    )
    assert made.data()["distribution"] == {"strategy": "none"}


def test_a_worker_that_takes_more_than_its_rank_is_not_training_compilers(draft: Draft) -> None:
    made = draft(
        "import torch_xla.distributed.xla_multiprocessing as xmp\n"
        "def _mp_fn(rank, flags):\n    print(rank, flags)\n"
        "if __name__ == '__main__':\n    xmp.spawn(_mp_fn, args=({},), nprocs=8)\n"
    )
    assert made.data()["distribution"] == {"strategy": "none"}


def test_a_file_that_only_defines_is_asked_what_calls_it(draft: Draft) -> None:
    only = "import torch\nSIZE = 3\ndef main():\n    torch.save({}, 'a.pt')\n"
    assert questions(draft(only))["code.entry_point"] == (None, "train.py")
    assert "code.entry_point" not in questions(draft(f"{only}main()\n"))


def test_one_of_several_dataclasses_is_a_command_of_simple_parsing(draft: Draft) -> None:
    made = draft(
        "from dataclasses import dataclass\nfrom typing import Union\nfrom simple_parsing import parse\n"
        "@dataclass\nclass Train:\n    seed: int = 1\n@dataclass\nclass Eval:\n    seed: int = 2\n"
        "@dataclass\nclass Main:\n    command: Union[Train, Eval]\nprint(parse(Main))\n"
    )
    assert questions(made)["code.arguments"] == (12, ["train"])
    assert defaults(made) == {}


def test_words_of_omegaconf_are_asked_about(draft: Draft) -> None:
    made = draft("from omegaconf import OmegaConf\nprint(OmegaConf.from_cli())\n")
    assert questions(made)["code.arguments"] == (2, ["..."])


def test_a_local_rank_that_torchrun_does_not_give_is_asked_about(draft: Draft) -> None:
    script = """
        import argparse, os, deepspeed, torch
        parser = argparse.ArgumentParser()
        parser.add_argument("--local_rank", type=int, default=DEFAULT)
        args = parser.parse_args()
        deepspeed.init_distributed()
        device = torch.device("cuda", args.local_rank)
        """
    assert questions(draft(script.replace("DEFAULT", "-1")))["distribution.strategy"][0] == 7
    by_variable = script.replace("DEFAULT", 'int(os.environ["LOCAL_RANK"])')
    assert "distribution.strategy" not in questions(draft(by_variable))


def test_a_folder_of_a_trainer_is_that_of_checkpoints_whatever_its_name(draft: Draft) -> None:
    made = draft(
        """
        import argparse, torch
        from transformers import Trainer, TrainingArguments
        parser = argparse.ArgumentParser()
        parser.add_argument("--model_dir", default="out")
        args = parser.parse_args()
        Trainer(model=None, args=TrainingArguments(output_dir=args.model_dir)).train()
        """
    )
    assert made.data()["hyperparameters"] == {"model_dir": "${SM_CHECKPOINT_DIR}"}


def test_an_attribute_of_another_object_is_not_the_option_of_that_name(draft: Draft) -> None:
    made = draft(
        """
        import argparse, os, torch
        import settings as own
        parser = argparse.ArgumentParser()
        parser.add_argument("--folder", default="")
        args = parser.parse_args()
        if args.folder:
            torch.load(args.folder)
        torch.save({"model": 1}, os.path.join(own.folder, "last.pt"))
        """,
        settings="folder = 'out'\n",
    )
    assert "hyperparameters" not in made.data()


def test_workers_of_tensorflow_join_by_their_configuration(draft: Draft) -> None:
    made = draft("import tensorflow as tf\ns = tf.distribute.MultiWorkerMirroredStrategy()\n")
    assert made.data()["distribution"] == {"strategy": "none"}
    assert "by TF_CONFIG (line 2)" in render_draft(made)


def test_a_program_of_neither_framework_is_asked_about(draft: Draft) -> None:
    made = draft("import jax\nprint(jax.devices())")
    assert "framework" in questions(made)
    assert "framework" not in questions(draft("import jax, tensorflow\nprint(jax.devices())"))


def test_an_option_that_the_program_sets_itself_is_not_given(draft: Draft) -> None:
    script = """
        import argparse, os, torch
        parser = argparse.ArgumentParser()
        parser.add_argument("--out", default="")
        args = parser.parse_args()
        args.out = {}
        torch.save({{"model": 1, "epoch": 2}}, os.path.join(args.out, "last.pt"))
        """
    assert "hyperparameters" not in draft(script.format("'runs/' + str(os.getpid())")).data()
    assert "hyperparameters" in draft(script.format("os.path.join(args.out, 'run')")).data()


def test_lightning_whose_trainer_a_configuration_makes_is_asked_about(draft: Draft) -> None:
    made = draft("from pytorch_lightning import seed_everything\nseed_everything(1)")
    assert made.data()["distribution"] == {"strategy": "torchrun"}
    assert {"distribution.strategy", "checkpoint"} <= set(questions(made))


def test_a_library_that_is_imported_where_another_one_says_so_chooses_nothing(draft: Draft) -> None:
    made = draft(
        """
        from transformers import Trainer
        from transformers.utils import is_sagemaker_mp_enabled
        if is_sagemaker_mp_enabled():
            import smdistributed.modelparallel.torch as smp
        Trainer().train()
        """
    )
    assert made.data()["distribution"] == {"strategy": "torchrun"}


def test_a_rank_that_an_option_gives_is_asked_about(draft: Draft) -> None:
    made = draft(
        """
        import argparse, torch.distributed as dist
        parser = argparse.ArgumentParser()
        parser.add_argument("--rank", type=int, default=0)
        args = parser.parse_args()
        dist.init_process_group("nccl", init_method="tcp://localhost:1", world_size=2, rank=args.rank)
        """
    )
    assert questions(made)["distribution.strategy"][0] == 6


def test_precisions_are_those_of_code_that_runs_and_not_of_a_table_of_all(draft: Draft) -> None:
    made = draft(
        """
        import torch
        from more import convert
        print(convert(torch.ones(3)), {"a": torch.float16, "b": torch.float32, "c": torch.float64})
        """,
        more="""
        import torch
        def convert(x): return x
        def other(x): return x.to(torch.bfloat16)
        """,
    )
    assert "The script names" not in render_draft(made)


def test_neither_comments_nor_one_rank_are_taken_for_granted(draft: Draft) -> None:
    made = draft(
        """
        import torch, torch.distributed as dist
        dist.init_process_group("gloo")  # or "nccl", with bfloat16
        assert dist.get_world_size() >= 1
        """
    )
    text = render_draft(made)
    assert "takes for granted" not in text
    assert "The script names" not in text


def test_a_trainer_of_the_programs_own_class_is_the_librarys(draft: Draft) -> None:
    made = draft("from lightning import Trainer\nclass Mine(Trainer): ...\nMine(num_nodes=2).fit(1)")
    assert "PyTorch Lightning (line 3)" in render_draft(made)
    assert "checkpoint" in questions(made)


@pytest.mark.parametrize(
    "save",
    [
        "import deepspeed\nengine, *_ = deepspeed.initialize()\nengine.save_checkpoint(args.out)",
        "from tensorflow import keras\nkeras.callbacks.ModelCheckpoint(args.out + '/{epoch}.keras')",
    ],
    ids=["DeepSpeed", "Keras"],
)
def test_a_folder_into_which_a_library_saves_is_given(draft: Draft, save: str) -> None:
    options = (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--out')\nargs = p.parse_args()\n"
    )
    made = draft(f"{options}{save}\n")
    assert made.data()["hyperparameters"] == {"out": "${SM_CHECKPOINT_DIR}"}
    assert made.data()["checkpoint"] == {}


def test_an_option_that_is_the_models_folder_by_default_keeps_no_checkpoints(draft: Draft) -> None:
    made = draft(
        """
        import argparse, os, torch
        parser = argparse.ArgumentParser()
        parser.add_argument("--out", default=os.environ["SM_OUTPUT_DATA_DIR"])
        args = parser.parse_args()
        torch.save({"model": 1}, os.path.join(args.out, "model.pt"))
        """
    )
    assert "checkpoint" not in made.data()
    assert "hyperparameters" not in made.data()


def test_data_that_is_kept_for_later_is_no_checkpoint(draft: Draft) -> None:
    made = draft(
        """
        import argparse, torch
        parser = argparse.ArgumentParser()
        parser.add_argument("--cache", default="cache")
        args = parser.parse_args()
        train_dataset = make()
        torch.save(train_dataset, args.cache + "/train.pt")
        """
    )
    assert "hyperparameters" not in made.data()
    assert "checkpoint" not in made.data()


def test_a_script_that_starts_the_ranks_of_one_of_several_hosts_is_asked_how(draft: Draft) -> None:
    made = draft(
        """
        import argparse, torch.distributed as dist, torch.multiprocessing as mp
        def run(local, size, host, gpus):
            dist.init_process_group("nccl", rank=host * gpus + local, world_size=size)
        def launch(gpus, hosts, host): mp.spawn(run, nprocs=gpus, args=(hosts * gpus, host, gpus))
        parser = argparse.ArgumentParser()
        parser.add_argument("--hosts", type=int, default=1)
        parser.add_argument("--host", type=int, default=0)
        args = parser.parse_args()
        launch(8, args.hosts, args.host)
        """
    )
    assert made.data()["distribution"] == {"strategy": "none"}
    assert questions(made)["distribution.strategy"][0] == 5


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
