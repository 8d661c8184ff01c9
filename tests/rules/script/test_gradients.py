"""What happens to gradients between backward and step."""

from __future__ import annotations

import pytest

from launcher.failure_modes.model import Finding, Severity
from launcher.rules.script import gradients
from tests.programs.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows

__all__ = ["program"]

START = """
import torch
from torch.nn.utils import clip_grad_norm_
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, ShardingStrategy, fully_shard
net = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
"""
SCALE = "    scaler.scale(loss).backward()\n"
UNSCALE = "    scaler.unscale_(optimizer)\n"
OWN = (
    "def clip_gradients(model, most):\n    for p in model.parameters():\n"
    "        p.grad.data.mul_(most / p.grad.norm())\n"
)
CLIP = "    clip_grad_norm_(net.parameters(), 1.0)\n"
STEP = "    scaler.step(optimizer)\n    scaler.update()\n"
LOOP = "for x in data:\n    loss = net(x)\n"


def judge(program: ReadProgram, text: str) -> list[Finding]:
    read = program(START + text)
    return [finding for rule in gradients.RULES for finding in rule(read)]


@shows(gradients.gradients_are_unscaled_before_they_are_clipped)
@pytest.mark.parametrize(
    "text",
    [
        LOOP + SCALE + CLIP + STEP,
        LOOP + SCALE + "    if args.clip:\n    " + CLIP + STEP,
        LOOP + SCALE + "    torch.nn.utils.clip_grad_value_(net.parameters(), 1.0)\n" + STEP,
        LOOP + SCALE + CLIP + UNSCALE + STEP,
        OWN + LOOP + SCALE + "    clip_gradients(net, 1.0)\n" + STEP,
        LOOP + "    if amp:\n    " + SCALE + "    else:\n        loss.backward()\n" + CLIP + STEP,
        "def train(scaler):\n" + SCALE + "    norm = clip_grad_norm_(net.parameters(), 1.0)\n" + STEP,
    ],
)
def test_clipping_scaled_gradients_is_found(program: ReadProgram, text: str) -> None:
    (finding,) = judge(program, text)
    assert (finding.code, finding.severity) == ("DDP007", Severity.ERROR)
    assert "clip_grad" in (finding.subject or "")


@leaves_alone(gradients.gradients_are_unscaled_before_they_are_clipped)
@pytest.mark.parametrize(
    "text",
    [
        LOOP + SCALE + UNSCALE + CLIP + STEP,
        LOOP + "    loss.backward()\n" + CLIP + "    optimizer.step()\n",
        LOOP + SCALE + STEP + "    print(loss)\n",
        LOOP + SCALE + "    if scaler is None:\n    " + CLIP + STEP,
        LOOP + "    if amp:\n    " + SCALE + "    else:\n        loss.backward()\n    " + CLIP + STEP,
        'scaler = torch.amp.GradScaler("cuda", enabled=False)\n' + LOOP + SCALE + CLIP + STEP,
        LOOP + SCALE + "    unscale_all(optimizer)\n" + CLIP + STEP,
        OWN + LOOP + SCALE + UNSCALE + "    clip_gradients(net, 1.0)\n" + STEP,
        OWN.replace("    for p", "    scaler.unscale_(optimizer)\n    for p")
        + LOOP
        + SCALE
        + "    clip_gradients(net, 1.0)\n"
        + STEP,
        OWN.replace("p.grad.data.mul_", "p.data.mul_")
        + LOOP
        + SCALE
        + "    clip_gradients(net, 1.0)\n"
        + STEP,
        LOOP + SCALE + "    lib.clip_gradients(net, 1.0)\n" + STEP,
        LOOP + CLIP + SCALE + STEP,
        "class Scaler:\n    def scale(self, loss):\n        return loss\nscaler = Scaler()\n"
        + LOOP
        + SCALE
        + CLIP
        + STEP,
    ],
)
def test_clipping_other_gradients_is_right(program: ReadProgram, text: str) -> None:
    assert judge(program, text) == []


def test_the_fix_unscales_on_a_line_of_its_own_before_the_clip(program: ReadProgram) -> None:
    text = LOOP + SCALE + CLIP + STEP
    (finding,) = judge(program, text)
    assert finding.fix is not None and finding.fix.safe
    (edit,) = finding.fix.edits
    whole = START + text
    fixed = whole[: edit.start] + edit.text + whole[edit.end :]
    assert fixed == START + LOOP + SCALE + UNSCALE + CLIP + STEP
    assert judge(program, fixed.removeprefix(START)) == []


@shows(gradients.sharded_gradients_are_clipped_together)
@pytest.mark.parametrize(
    "text",
    [
        "m = FSDP(net)\nclip_grad_norm_(m.parameters(), 1.0)",
        "m = FSDP(net, sharding_strategy=ShardingStrategy.FULL_SHARD)\nclip_grad_norm_(m.parameters(), 1.0)",
        "m = net\nif args.fsdp:\n    m = FSDP(m)\ntorch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)",
        "def step(m):\n    clip_grad_norm_(m.parameters(), 1.0)\nstep(FSDP(net))",
        "class T:\n    def __init__(self):\n        self.m = FSDP(net)\n    def clip(self):\n"
        "        clip_grad_norm_(self.m.parameters(), 1.0)",
    ],
)
def test_clipping_one_shard_is_found(program: ReadProgram, text: str) -> None:
    (finding,) = judge(program, text)
    assert finding.code == "DDP007"
    assert "shard" in finding.message


@leaves_alone(gradients.sharded_gradients_are_clipped_together)
@pytest.mark.parametrize(
    "text",
    [
        "m = FSDP(net)\nm.clip_grad_norm_(1.0)",
        "fully_shard(net)\nclip_grad_norm_(net.parameters(), 1.0)",
        "m = DDP(net)\nclip_grad_norm_(m.parameters(), 1.0)",
        "m = FSDP(net, sharding_strategy=ShardingStrategy.NO_SHARD)\nclip_grad_norm_(m.parameters(), 1.0)",
        "m = FSDP(net, sharding_strategy=args.strategy)\nclip_grad_norm_(m.parameters(), 1.0)",
        "m = FSDP(net) if a else DDP(net)\nif a:\n    m.clip_grad_norm_(1.0)\nelse:\n"
        "    clip_grad_norm_(m.parameters(), 1.0)",
        "m = FSDP(net)\nm = DDP(net)\nclip_grad_norm_(m.parameters(), 1.0)",
        "clip_grad_norm_(unknown.parameters(), 1.0)",
    ],
)
def test_clipping_by_the_whole_norm_is_right(program: ReadProgram, text: str) -> None:
    assert judge(program, text) == []
