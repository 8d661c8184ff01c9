"""Only what the entry comes to is judged, and a program that joins nobody is none of several processes."""

from __future__ import annotations

import pytest

from launcher.rules.script.check import check_program
from tests.programs.conftest import ReadProgram, program

__all__ = ["program"]

TRAINING = """
import torch
import torch.distributed as dist

def start():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % 8)

def train(model):
    start()
    torch.save(model.state_dict(), "model.pt")

def log(text):
    if dist.get_rank() == 0:
        dist.barrier()

def load(path):
    return torch.load(path, map_location="cpu", weights_only=True)

class Trainer:
    def __init__(self):
        start()

if __name__ == "__main__":
    train(None)
"""

CONVERT = """
import torch
import training
from training import load, log
torch.save(load("model.pt")["model"], "bare.pt")
"""


def told(program: ReadProgram, text: str, training: str = TRAINING) -> list[str]:
    found = check_program(program(text, **{"training.py": training}))
    return sorted(each.code for each in found if each.code in ("CKPT008", "DDP004"))


def test_a_converter_that_shares_a_module_with_the_training_is_one_process(program: ReadProgram) -> None:
    assert told(program, CONVERT) == []


@pytest.mark.parametrize(
    "line",
    [
        "training.start()",
        "begin = training.start\nbegin()",
        "from training import start as begin\nbegin()",
        "training.Trainer()",
        "getattr(training, 'start')()",
        "import sys\nrun = {'train': training.start}[sys.argv[1]]\nrun()",
        "class Mine(training.Trainer):\n    pass",
        "import accelerate",
    ],
)
def test_it_is_judged_as_several_where_it_may_come_to_the_start(program: ReadProgram, line: str) -> None:
    assert told(program, CONVERT + line) == ["CKPT008"]


@pytest.mark.parametrize(
    "change",
    [
        ("def start", "start_all = register('start')\n@start_all\ndef start"),
        ("def train(", "start()\ndef train("),
        ("def train(", "if dist.is_available():\n    start()\ndef train("),
        ("def train(", "try:\n    start()\nexcept OSError:\n    start()\ndef train("),
        ("def train(", "MODES = register({'start': start})\ndef train("),
    ],
)
def test_what_a_shared_module_may_start_by_itself_counts(
    program: ReadProgram, change: tuple[str, str]
) -> None:
    assert told(program, CONVERT, TRAINING.replace(*change, 1)) == ["CKPT008"]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("def start", "@REGISTRY.add\ndef start"), "print(training.REGISTRY)"),
        (("def train(", "REGISTRY.add(start)\ndef train("), "print(training.REGISTRY)"),
        (("def train(", "MODES = {'start': start}\ndef train("), "print(training.MODES)"),
    ],
)
def test_a_registry_is_come_to_where_it_is_read(
    program: ReadProgram, change: tuple[str, str], line: str
) -> None:
    training = TRAINING.replace(*change, 1)
    assert told(program, CONVERT, training) == []
    assert told(program, CONVERT + line, training) == ["CKPT008"]


def test_a_shared_function_is_judged_in_the_program_that_calls_it(program: ReadProgram) -> None:
    start = CONVERT + "training.start()\n"
    assert told(program, start) == ["CKPT008"]
    assert told(program, start + "log('done')\n") == ["CKPT008", "DDP004"]


def test_the_main_guard_of_a_module_is_for_the_program_that_it_starts(program: ReadProgram) -> None:
    guard = TRAINING.replace("    train(None)", "    if dist.get_rank() == 0:\n        dist.barrier()")
    assert told(program, "import training\ntraining.start()\n", guard) == []
    assert told(program, guard, "") == ["DDP004", "DDP004"]


def test_a_function_that_only_such_a_guard_calls_is_not_run(program: ReadProgram) -> None:
    line = "training.start()\nif 'train' == input():\n    print()\n"
    assert told(program, CONVERT + line) == ["CKPT008"]
    assert told(program, CONVERT + line + "training.train(None)\n") == ["CKPT008", "CKPT008"]


def test_the_functions_of_the_entry_are_judged_whoever_calls_them(program: ReadProgram) -> None:
    functions = TRAINING.partition("if __name__")[0]
    assert told(program, functions, "") == ["DDP004"]
    assert told(program, "from training import log\n" + functions, "") == ["DDP004"]


def test_what_a_demo_downloads_by_itself_is_fine(program: ReadProgram) -> None:
    """Accelerate, of which the demo takes something, does not make the group that the training makes."""
    fetching = TRAINING + (
        "from torchvision.datasets.utils import download_url\n"
        "def fetch(url):\n    download_url(url, 'models')\n"
    )
    demo = "import accelerate\nfrom training import fetch\nfetch('https://example.com/a.pt')\n"
    found = check_program(program(demo, **{"training.py": fetching}))
    assert [each.code for each in found if each.code == "DATA009"] == []
    joined = check_program(
        program(demo + "from training import start\nstart()\n", **{"training.py": fetching})
    )
    assert [each.code for each in joined if each.code == "DATA009"] == ["DATA009"]
