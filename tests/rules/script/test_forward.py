"""Every rank runs the same layers."""

from __future__ import annotations

import pytest

from launcher.failure_modes.model import Finding
from launcher.rules.script import forward
from tests.programs.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows

__all__ = ["program"]

MODEL = """
import random, torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rank = dist.get_rank()
        self.left = nn.Linear(1, 1)
        self.right = nn.Linear(1, 1)
        self.seen = 0
    def note(self, x):
        print(x)
    def forward(self, x):
{forward}
        return x
{wrap}
"""


def judge(program: ReadProgram, text: str, wrap: str = "model = DDP(Model())") -> list[Finding]:
    lines = "".join(f"        {line}\n" for line in text.splitlines())
    read = program(MODEL.format(forward=lines, wrap=wrap))
    return [finding for rule in forward.RULES for finding in rule(read)]


@shows(forward.forward_is_alike_on_every_rank)
@pytest.mark.parametrize(
    ("text", "layers"),
    [
        (
            "if self.rank == 0:\n    x = self.left(x)\nelse:\n    x = self.right(x)",
            "`self.left`, `self.right`",
        ),
        ("if dist.get_rank() == 0:\n    x = self.left(x)", "`self.left`"),
        ("x = self.left(x) if self.rank else x", "`self.left`"),
        ("if self.rank % 2 == 0:\n    for _ in range(2):\n        x = self.right(x)", "`self.right`"),
        ("if self.rank > 0:\n    pass\nelse:\n    x = self.left(self.right(x))", "`self.left`, `self.right`"),
    ],
)
def test_layers_of_some_ranks_are_found(program: ReadProgram, text: str, layers: str) -> None:
    (finding,) = judge(program, text)
    assert finding.code == "DDP001"
    assert f"runs {layers} on some ranks only" in finding.message


@pytest.mark.parametrize(
    "wrap",
    [
        "net = Model()\nnet = net.to('cuda')\nnet = DDP(net)",
        "def main():\n    net = Model().cuda()\n    if dist.is_initialized():\n        net = DDP(net)",
    ],
)
def test_the_model_is_followed_to_its_wrapper(program: ReadProgram, wrap: str) -> None:
    assert len(judge(program, "if self.rank == 0:\n    x = self.left(x)", wrap)) == 1


@leaves_alone(forward.forward_is_alike_on_every_rank)
@pytest.mark.parametrize(
    "text",
    [
        "x = self.left(x)",
        "if self.rank == 0:\n    print(x)",
        "if self.rank == 0:\n    self.note(x)\nx = self.left(x)",
        "if self.rank == 0:\n    x = self.left(x)\nelse:\n    x = self.left(2 * x)",
        "if self.training:\n    x = self.left(x)",
        "if dist.get_world_size() > 1:\n    x = self.left(x)",
        "if self.rank == 0:\n    self.seen += 1",
        "if x.sum() > 0:\n    x = self.left(x)",
        "if self.rank == 0:\n    x = self.unknown(x)",
    ],
)
def test_the_same_layers_on_every_rank_are_right(program: ReadProgram, text: str) -> None:
    assert judge(program, text) == []


@pytest.mark.parametrize(
    "wrap", ["model = Model()", "model = DDP(Model(), find_unused_parameters=True)", "model = DDP(build())"]
)
def test_a_model_that_is_not_waited_for_says_nothing(program: ReadProgram, wrap: str) -> None:
    assert judge(program, "if self.rank == 0:\n    x = self.left(x)", wrap) == []
