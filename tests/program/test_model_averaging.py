"""Which programs may average models or gradients between their ranks."""

from __future__ import annotations

import pytest

from launcher.program.ranks.model_averaging import averages_models
from tests.program.conftest import ReadProgram, program

__all__ = ["program"]

START = """
import functools
import torch
import torch.distributed as dist
net = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loss = net(x)
def mean(t):
    r = t.clone()
    dist.all_reduce(r)
    return r / 8
"""


@pytest.mark.parametrize(
    "text",
    [
        "for p in net.parameters():\n    dist.all_reduce(p.data)",
        "for p in net.parameters():\n    mean(p)",
        "for p in net.parameters():\n    mean(t=p.grad)",
        "for group in optimizer.param_groups:\n    for p in group['params']:\n        mean(p)",
        "dist.all_reduce(torch.cat([p.grad.view(-1) for p in net.parameters()]))",
        "flat = torch.cat([p.view(-1) for p in net.parameters()])\ndist.all_reduce(flat)",
        "def grads(): return [p.grad for p in net.parameters()]\nfor g in grads():\n    mean(g)",
        "def average(model):\n    for p in model.parameters():\n        mean(p)\naverage(net)",
        "class Averager:\n    def __init__(self, m): self.held = list(m.parameters())\n"
        "    def all(self): dist.all_reduce(self.held[0])\nAverager(net).all()",
        "def all_of(**given): dist.all_reduce(given['p'])\nall_of(p=next(net.parameters()))",
        "list(map(mean, net.parameters()))",
        "f = mean\nf(net.weight.grad)",
        "f = lambda t: dist.all_reduce(t)\nf(net.weight.grad)",
        "for p in net.parameters():\n    p.register_hook(mean)",
        "f = mean\nfor p in net.parameters():\n    p.register_hook(f)",
        "average_parameters(net)",
        "import hivemind\nhivemind.averaging.average(net)",
    ],
)
def test_what_is_given_parameters_or_may_be_averages_models(program: ReadProgram, text: str) -> None:
    assert averages_models(program(START + text))


@pytest.mark.parametrize(
    "text",
    [
        "mean(loss.data)",
        "mean(torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0))",
        "for group in optimizer.param_groups:\n    mean(group['lr'])",
        "functools.reduce(add, [1, 2])",
        "torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)",
        "class AverageMeter:\n    def update(self, value, n=1): self.total += value * n\n"
        "    def all(self): dist.all_reduce(self.total)\n"
        "def train(meter):\n    net.load_state_dict(old)\n    meter.update(loss.item(), 2)\n    meter.all()\n"
        "train(AverageMeter())",
        "def held():\n    for p in net.parameters():\n        print(p)\n    return mean(loss)",
    ],
)
def test_what_is_given_figures_averages_no_models(program: ReadProgram, text: str) -> None:
    assert not averages_models(program(START + text))


def test_a_function_that_is_set_from_itself_is_called_by_its_name(program: ReadProgram) -> None:
    assert not averages_models(program(START + "while more:\n    mean = mean\n    a = b\n    b = a\nmean(a)"))
