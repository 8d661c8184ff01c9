"""States are loaded into what has the keys that they were saved with."""

from __future__ import annotations

import pytest

from launcher.failure_modes.model import Finding
from launcher.rules.script import state_keys
from tests.programs.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows

__all__ = ["program"]

START = """
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
class Net(nn.Module):
    pass
net = Net().to("cuda")
"""


def judge(program: ReadProgram, text: str) -> list[Finding]:
    read = program(START + text)
    return [finding for rule in state_keys.RULES for finding in rule(read)]


@shows(state_keys.states_are_loaded_as_they_are_saved)
@pytest.mark.parametrize(
    ("text", "prefixes"),
    [
        (
            'm = DDP(net)\ntorch.save(m.state_dict(), "a.pt")\nnet.load_state_dict(torch.load("a.pt"))',
            "`module.`",
        ),
        (
            'if resume:\n    net.load_state_dict(torch.load(args.path)["model"])\nnet = DDP(net)\n'
            'torch.save({"model": net.state_dict(), "epoch": 1}, args.path)',
            "`module.`",
        ),
        (
            'torch.save(net.state_dict(), "a.pt")\nm = DDP(net)\nm.load_state_dict(torch.load("a.pt"))',
            "no prefix",
        ),
        (
            'm = torch.compile(net)\ntorch.save(m.state_dict(), "a.pt")\n'
            'other = Net()\nstate = torch.load("a.pt")\nother.load_state_dict(state, strict=False)',
            "`_orig_mod.`",
        ),
        (
            'if distributed:\n    net = DDP(net)\ntorch.save(net.state_dict(), "a.pt")\n'
            'nn.Linear(1, 1).load_state_dict(torch.load("a.pt"))',
            "`module.`",
        ),
        (
            'm = DDP(torch.compile(net))\ntorch.save(m.state_dict(), "a.pt")\n'
            'DDP(net).load_state_dict(torch.load("a.pt"))',
            "`module._orig_mod.`",
        ),
    ],
)
def test_keys_that_do_not_match_are_found(program: ReadProgram, text: str, prefixes: str) -> None:
    (finding,) = judge(program, text)
    assert finding.code == "CKPT005"
    assert prefixes in finding.message
    assert len(finding.related) == 1


@leaves_alone(state_keys.states_are_loaded_as_they_are_saved)
@pytest.mark.parametrize(
    "text",
    [
        'm = DDP(net)\ntorch.save(m.module.state_dict(), "a.pt")\nnet.load_state_dict(torch.load("a.pt"))',
        'm = DDP(net)\ntorch.save(m.state_dict(), "a.pt")\nm.load_state_dict(torch.load("a.pt"))',
        'm = DDP(net)\ntorch.save(net.state_dict(), "a.pt")\nnet.load_state_dict(torch.load("a.pt"))',
        'm = DDP(net)\ntorch.save(m.state_dict(), "a.pt")\nnet.load_state_dict(torch.load("b.pt"))',
        'm = DDP(net)\ntorch.save({"a": m.state_dict()}, "x")\nnet.load_state_dict(torch.load("x")["b"])',
        "def save(path):\n    torch.save(DDP(net).state_dict(), path)\n"
        "def load(path):\n    net.load_state_dict(torch.load(path))",
        'm = DDP(net)\ntorch.save(m.state_dict(), "a.pt")\nstate = torch.load("a.pt")\nstrip(state)\n'
        "net.load_state_dict(state)",
        'm = DDP(net)\ntorch.save(m.state_dict(), "a.pt")\n'
        'net.load_state_dict({k[7:]: v for k, v in torch.load("a.pt").items()})',
        'm = DDP(net)\ntorch.save(m.state_dict(), "a.pt")\nunknown.load_state_dict(torch.load("a.pt"))',
        'm = wrap(net)\ntorch.save(m.state_dict(), "a.pt")\nnet.load_state_dict(torch.load("a.pt"))',
        'm = DDP(net)\nr = m.module\ntorch.save(r.state_dict(), "x")\nnet.load_state_dict(torch.load("x"))',
        'm = DDP(net)\ntorch.save(sgd.state_dict(), "x")\nsgd.load_state_dict(torch.load("x"))',
    ],
)
def test_keys_that_match_or_are_not_known_are_right(program: ReadProgram, text: str) -> None:
    assert judge(program, text) == []


def test_a_model_that_is_made_of_itself_in_every_method_is_followed_to_its_start(
    program: ReadProgram,
) -> None:
    methods = "".join(
        f"    def change_{number}(self):\n        self.model = self.model.{method}()\n"
        for number, method in enumerate(["half", "cuda", "train", "eval", "cpu"] * 4)
    )
    text = (
        "class Trainer:\n    def __init__(self):\n        self.model = nn.Linear(1, 1)\n"
        "        self.wrapped = DDP(self.model)\n"
        f"{methods}"
        '    def save(self):\n        torch.save(self.wrapped.state_dict(), "a.pt")\n'
        '    def load(self):\n        self.model.load_state_dict(torch.load("a.pt"))\n'
    )
    (found,) = judge(program, text)
    assert "`module.`" in found.message
