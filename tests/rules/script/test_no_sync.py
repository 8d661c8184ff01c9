"""Steps and backward passes inside no_sync(): DDP007."""

from __future__ import annotations

import pytest

from launcher.failure_modes.model import Finding, Severity
from launcher.rules.script.no_sync import steps_use_synchronised_gradients
from tests.programs.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows

__all__ = ["program"]

START = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
net = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
"""


def judge(program: ReadProgram, text: str) -> list[Finding]:
    return list(steps_use_synchronised_gradients(program(START + text)))


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
    assert judge(program, "m = DDP(net)\n" + text) == []
