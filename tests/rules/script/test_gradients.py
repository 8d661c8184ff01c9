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


@shows(gradients.steps_use_synchronised_gradients)
@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("with m.no_sync():\n    m(x).backward()\n    optimizer.step()", Severity.ERROR),
        (
            "with m.no_sync():\n    for x in xs:\n        m(x).backward()\n        optimizer.step()",
            Severity.ERROR,
        ),
        ("with m.no_sync():\n    scaler.scale(m(x)).backward()\n    scaler.step(optimizer)", Severity.ERROR),
        ("with m.no_sync(), other():\n    if last:\n        optimizer.step()", Severity.ERROR),
        (
            "with m.no_sync():\n    unknown.zero_grad()\n    m(x).backward()\n    unknown.step()",
            Severity.ERROR,
        ),
        (
            "def epoch(model, o):\n    with model.no_sync():\n        model(x).backward()\n"
            "        o.step()\n    o.zero_grad()\nepoch(m, make(m))",
            Severity.ERROR,
        ),
        ("loss = m(x)\nwith m.no_sync():\n    loss.backward()", Severity.WARNING),
        ("loss = m(x)\nwith m.no_sync():\n    (loss / 4).backward()", Severity.WARNING),
        ("loss = m(x)\nwith m.no_sync():\n    scaler.scale(loss).backward()", Severity.WARNING),
    ],
)
def test_a_no_sync_around_too_much_or_too_little_is_found(
    program: ReadProgram, text: str, severity: Severity
) -> None:
    (finding,) = judge(program, "m = DDP(net)\n" + text)
    assert (finding.code, finding.severity) == ("DDP007", severity)


FIGURES = """
import torch.utils.data
import torch.distributed as dist
m = DDP(net)
class AverageMeter:
    def all_reduce(self): dist.all_reduce(self.total)
def evaluate():
    loader = torch.utils.data.DataLoader(held_out)
    meter = AverageMeter()
    meter.all_reduce()
def shown():
    for each in m.parameters(): {0}
evaluate()
shown()
with m.no_sync():
    m(x).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("what", "found"),
    [
        ("print(each)", 1),
        ("torch.optim.lr_scheduler.ReduceLROnPlateau(each)", 1),
        ("dist.all_reduce(each)", 0),
        ("reduced(each)", 0),
    ],
)
def test_figures_that_are_averaged_are_no_models(program: ReadProgram, what: str, found: int) -> None:
    assert len(judge(program, FIGURES.format(what))) == found


@leaves_alone(gradients.steps_use_synchronised_gradients)
@pytest.mark.parametrize(
    "text",
    [
        "with m.no_sync():\n    m(x).backward()\noptimizer.step()",
        "with m.no_sync():\n    loss = m(x)\n    loss.backward()",
        "with m.no_sync():\n    loss = loss_of(m, x)\n    loss.backward()",
        "with m.no_sync():\n    train_step(m, x)",
        "with m.no_sync():\n    m(x).backward()\n    scheduler.step()",
        "with m.no_sync():\n    m(x).backward()\n    unknown.step()",
        "with m.no_sync():\n    unknown.step()\n    m(x).backward()\nunknown.zero_grad()",
        "import accelerate\na = accelerate.Accelerator()\nwith a.no_sync(m):\n    m(x).backward()\n"
        "    unknown.step()\nunknown.zero_grad()",
        "with m.no_sync():\n    m(x).backward()\n    optimizer.step()\naverage_parameters(m)",
        "context = m.no_sync() if more else nullcontext()\nwith context:\n    m(x).backward()",
        "loss = unknown(x)\nwith unknown.no_sync():\n    loss.backward()",
    ],
)
def test_a_no_sync_around_forward_and_backward_is_right(program: ReadProgram, text: str) -> None:
    assert judge(program, "m = DDP(net)\n" + text) == []
