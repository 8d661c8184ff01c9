"""Gradients: clipped, kept on their rank, never reduced; and the forward passes that they come from."""

from __future__ import annotations

import pytest

from launcher.failure_modes.model import Finding, Severity
from launcher.rules.script import gradients
from launcher.rules.script.gradients import steps_use_synchronised_gradients
from tests.program.conftest import ReadProgram, program
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
    return [finding for rule in gradients.CLIPPING_RULES for finding in rule(read)]


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


__all___no_sync = ["program"]

START_no_sync = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
net = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
"""


def judge_no_sync(program: ReadProgram, text: str) -> list[Finding]:
    return list(steps_use_synchronised_gradients(program(START_no_sync + text)))


@shows(steps_use_synchronised_gradients)
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
    (finding,) = judge_no_sync(program, "m = DDP(net)\n" + text)
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


PREPARED = """
m, o = DDP(net), torch.optim.{}
m, o = unknown.prepare(m, o)
with m.no_sync():
    unknown.backward(m(x))
    o.step()
"""


@pytest.mark.parametrize(("what", "found"), [("SGD(p)", 1), ("lr_scheduler.StepLR(q, 1)", 0)])
def test_the_step_of_an_optimizer_that_a_library_has_wrapped_is_found(
    program: ReadProgram, what: str, found: int
) -> None:
    assert len(judge_no_sync(program, PREPARED.format(what))) == found


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
    assert len(judge_no_sync(program, FIGURES.format(what))) == found


@leaves_alone(steps_use_synchronised_gradients)
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
        "if last:\n    loss = m(x)\nelse:\n    with m.no_sync():\n        loss = m(x)\n"
        "if last:\n    loss.backward()\nelse:\n    with m.no_sync():\n        loss.backward()",
        "loss = unknown(x)\nwith unknown.no_sync():\n    loss.backward()",
    ],
)
def test_a_no_sync_around_forward_and_backward_is_right(program: ReadProgram, text: str) -> None:
    assert judge_no_sync(program, "m = DDP(net)\n" + text) == []


__all___reduction = ["program"]

START_reduction = """
import torch, deepspeed
import torch.distributed as dist
from datetime import timedelta
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
"""


def judge_reduction(program: ReadProgram, text: str, **others: str) -> list[Finding]:
    read = program(START_reduction + text, **others)
    return [finding for rule in gradients.REDUCTION_RULES for finding in rule(read)]


def codes(findings: list[Finding], code: str) -> list[Finding]:
    return [each for each in findings if each.code == code]


LOOP_reduction = """
dist.init_process_group("nccl")
model = torch.nn.Linear(1, 1)
{wrap}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
sampler = DistributedSampler(data)
for batch in DataLoader(data, sampler=sampler):
    optimizer.zero_grad()
    loss = model(batch).sum()
    loss.backward()
    {reduce}
    optimizer.step()
"""


@shows(gradients.gradients_are_reduced)
@pytest.mark.parametrize(
    ("wrap", "reduce"),
    [
        ("", ""),
        ("model = model.to('cuda')", "print(loss)"),
        ("", "dist.all_reduce(loss)"),
        ("", "dist.all_reduce(loss, op=dist.ReduceOp.SUM)"),
        ("model = torch.compile(model)", "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"),
        ("", "dist.barrier()"),
        ("model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)", ""),
    ],
)
def test_gradients_that_nobody_reduces_are_found(program: ReadProgram, wrap: str, reduce: str) -> None:
    (finding,) = codes(judge_reduction(program, LOOP_reduction.format(wrap=wrap, reduce=reduce)), "DDP009")
    assert finding.subject == "loss.backward()"
    assert [each.message for each in finding.related] == ["the process group", "the data is divided"]


@leaves_alone(gradients.gradients_are_reduced)
@pytest.mark.parametrize(
    ("wrap", "reduce"),
    [
        ("model = DDP(model)", ""),
        ("from torch.distributed.fsdp import fully_shard\nfully_shard(model)", ""),
        ("", "for p in model.parameters():\n        dist.all_reduce(p.grad)"),
        (
            "def average(model):\n    for p in model.parameters():\n        dist.all_reduce(p.grad)",
            "average(model)",
        ),
        ("from lib import wrap_in_ddp\nmodel = wrap_in_ddp(model)", ""),
        ("import horovod.torch as hvd\nhvd.DistributedOptimizer(1)", ""),
        ("from lib import *", ""),
        ("from torch.distributed.tensor.parallel import parallelize_module\nparallelize_module(model)", ""),
        ("for p in model.parameters():\n    p.register_hook(average)", ""),
        ("model = torch.nn.DataParallel(model)", ""),
    ],
)
def test_gradients_that_somebody_may_reduce_are_right(program: ReadProgram, wrap: str, reduce: str) -> None:
    assert codes(judge_reduction(program, LOOP_reduction.format(wrap=wrap, reduce=reduce)), "DDP009") == []


def test_a_program_that_does_not_divide_the_data_says_nothing(program: ReadProgram) -> None:
    text = LOOP_reduction.format(wrap="", reduce="").replace("DistributedSampler(data)", "None")
    assert codes(judge_reduction(program, text), "DDP009") == []


ENGINE = "engine, optimizer, _, scheduler = deepspeed.initialize(model=model)\n"


@shows(gradients.engines_are_stepped)
@pytest.mark.parametrize(
    "text",
    [
        ENGINE + "engine.backward(loss)",
        ENGINE + "engine.backward(loss)\noptimizer.step()",
        ENGINE + "engine.backward(loss)\nscheduler.step()",
        ENGINE + "def train(model):\n    model.backward(model(1))\ntrain(engine)",
        "class T:\n    def __init__(self):\n        self.e, *_ = deepspeed.initialize(model=1)\n"
        "    def run(self):\n        self.e.backward(1)\nT().run()",
    ],
)
def test_an_engine_that_is_never_stepped_is_found(program: ReadProgram, text: str) -> None:
    (finding,) = codes(judge_reduction(program, text), "DDP010")
    assert "backward" in (finding.subject or "")


@leaves_alone(gradients.engines_are_stepped)
@pytest.mark.parametrize(
    "text",
    [
        ENGINE + "engine.backward(loss)\nengine.step()",
        ENGINE + "engine.backward(loss)\nfor _ in range(2):\n    engine.step()",
        ENGINE + "engine.train_batch()",
        ENGINE + "engine.eval()",
        ENGINE + "loss.backward()\noptimizer.step()",
        ENGINE + "engine.backward(loss)\nunknown().step()",
        ENGINE + "def train(model):\n    model.backward(model(1))\n    model.step()\ntrain(engine)",
        "import lib\nengine = lib.build()\nengine.backward(loss)",
    ],
)
def test_an_engine_that_is_stepped_or_not_driven_by_hand_is_right(program: ReadProgram, text: str) -> None:
    assert codes(judge_reduction(program, text), "DDP010") == []


__all___forward = ["program"]

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


def judge_forward(program: ReadProgram, text: str, wrap: str = "model = DDP(Model())") -> list[Finding]:
    lines = "".join(f"        {line}\n" for line in text.splitlines())
    read = program(MODEL.format(forward=lines, wrap=wrap))
    return [finding for rule in gradients.FORWARD_RULES for finding in rule(read)]


@shows(gradients.forward_is_alike_on_every_rank)
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
    (finding,) = judge_forward(program, text)
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
    assert len(judge_forward(program, "if self.rank == 0:\n    x = self.left(x)", wrap)) == 1


@leaves_alone(gradients.forward_is_alike_on_every_rank)
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
    assert judge_forward(program, text) == []


@pytest.mark.parametrize(
    "wrap", ["model = Model()", "model = DDP(Model(), find_unused_parameters=True)", "model = DDP(build())"]
)
def test_a_model_that_is_not_waited_for_says_nothing(program: ReadProgram, wrap: str) -> None:
    assert judge_forward(program, "if self.rank == 0:\n    x = self.left(x)", wrap) == []
