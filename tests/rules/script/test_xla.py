"""What a script must do by itself where torch_xla trains."""

from __future__ import annotations

import pytest

from launcher.failure_modes.model import Finding
from launcher.rules.script import xla
from tests.programs.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows

__all__ = ["program"]

START = """
import torch
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.distributed.xla_multiprocessing as xmp
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torch_xla.amp import GradScaler
"""
BEFORE = """
def _mp_fn(index):
    torch.manual_seed(42)
    device = xm.xla_device()
    sampler = DistributedSampler(data, num_replicas=xm.xrt_world_size(), rank=xm.get_ordinal())
    loader = DataLoader(data, sampler=sampler)
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
LOADER = "    loader = pl.MpDeviceLoader(loader, device)\n"
LOOP = "    for x, y in loader:\n        loss = model(x).sum()\n        loss.backward()\n"
GOOD_STEP = "        xm.optimizer_step(optimizer)\n"
AMP = (
    LOADER
    + "    scaler = GradScaler()\n    for x, y in loader:\n        scaler.scale(model(x).sum()).backward()\n"
)
FETCH = (
    "        gradients = xm._fetch_gradients(optimizer)\n"
    '        xm.all_reduce("sum", gradients, scale=1.0 / xm.xrt_world_size())\n'
)
CLIP = "        scaler.unscale_(optimizer)\n        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
SCALED_STEP = "        scaler.step(optimizer)\n        scaler.update()\n        xm.mark_step()\n"


def judge(program: ReadProgram, text: str) -> list[str]:
    read = program(text)
    findings: list[Finding] = [finding for rule in xla.RULES for finding in rule(read)]
    return [each.code for each in findings]


@shows(xla.weights_begin_alike, naming="XLA006")
@shows(xla.gradients_are_shared, naming="XLA005")
@shows(xla.batches_come_by_a_device_loader, naming="XLA004")
@shows(xla.steps_are_run, naming="XLA003")
@shows(xla.worker_function_takes_the_index, naming="XLA002")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def _mp_fn():\n    main()", ["XLA002"]),
        ("def work():\n    pass\nxmp.spawn(work, args=(), nprocs=8)", ["XLA002"]),
        ("import torch_xla\ndef work():\n    pass\ntorch_xla.launch(work)", ["XLA002"]),
        ("def _mp_fn(*, flags=None):\n    main()", ["XLA002"]),
        ("def work():\n    pass\nxmp.spawn(work)", ["XLA002"]),
        # A plain loader, and nothing that runs the graph.
        (BEFORE + LOOP + GOOD_STEP, ["XLA003", "XLA004"]),
        (BEFORE.replace("_mp_fn(index)", "main()") + LOOP + "        optimizer.step()\nmain()", ["XLA003"]),
        (BEFORE.replace("_mp_fn(index)", "main()") + LOOP + GOOD_STEP + "main()", ["XLA003"]),
        (
            BEFORE.replace("_mp_fn(index)", "main()")
            + LOOP.replace("loader:", "enumerate(loader):")
            + GOOD_STEP,
            ["XLA003"],
        ),
        (
            BEFORE.replace("_mp_fn(index)", "main()") + LOOP + GOOD_STEP + "        print(loss)\nmain()",
            ["XLA003"],
        ),
        # The graph is run, the batches are copied by hand.
        (BEFORE + LOOP + GOOD_STEP + "        xm.mark_step()", ["XLA004"]),
        (BEFORE + LOOP + "        xm.optimizer_step(optimizer, barrier=True)", ["XLA004"]),
        (
            BEFORE + LOOP.replace("loader:", "enumerate(loader):") + GOOD_STEP + "        xm.mark_step()",
            ["XLA004"],
        ),
        (
            BEFORE.replace("_mp_fn", "work") + LOOP + GOOD_STEP + "        xm.mark_step()\nxmp.spawn(work)",
            ["XLA004"],
        ),
        (
            BEFORE.replace(", sampler=sampler", "") + LOOP + GOOD_STEP + "        xm.mark_step()",
            ["XLA004"],
        ),
        # Nobody reduces.
        (BEFORE + LOOP + "        optimizer.step()\n        xm.mark_step()", ["XLA004", "XLA005"]),
        (
            BEFORE
            + "    scaler = GradScaler()\n"
            + LOOP
            + "        scaler.step(optimizer)\n        xm.mark_step()",
            ["XLA004", "XLA005"],
        ),
        # Too early.
        (BEFORE + AMP + CLIP + FETCH + SCALED_STEP, ["XLA005", "XLA005"]),
        (BEFORE + AMP + CLIP.splitlines(True)[0] + FETCH + SCALED_STEP, ["XLA005"]),
        (BEFORE + AMP + CLIP.splitlines(True)[1] + FETCH + SCALED_STEP, ["XLA005"]),
        # Weights of their own.
        (BEFORE.replace("42", "xm.get_ordinal()") + LOADER + LOOP + GOOD_STEP, ["XLA006"]),
        (BEFORE.replace("42", "42 + xm.get_ordinal()") + LOADER + LOOP + GOOD_STEP, ["XLA006"]),
        (
            BEFORE.replace("    torch.manual_seed(42)\n", "") + LOOP + GOOD_STEP + "        xm.mark_step()",
            ["XLA004", "XLA006"],
        ),
    ],
)
def test_what_is_missing_or_too_early_is_found(program: ReadProgram, text: str, expected: list[str]) -> None:
    assert judge(program, START + text) == expected


@leaves_alone(*xla.RULES)
@pytest.mark.parametrize(
    "text",
    [
        START + BEFORE + LOADER + LOOP + GOOD_STEP,
        START + BEFORE + AMP + FETCH + CLIP + SCALED_STEP,
        START + BEFORE + LOADER + LOOP + GOOD_STEP + "        xm.mark_step()\n        print(loss)",
        START + "def _mp_fn(index):\n    main()",
        START + "def _mp_fn(*args):\n    main()",
        START + "def work(index, flags):\n    pass\nxmp.spawn(work, args=({},), nprocs=8)",
        START + "def outer():\n    def _mp_fn():\n        pass",
        START
        + BEFORE.replace("_mp_fn(index)", "main()")
        + LOOP
        + GOOD_STEP
        + "        xm.mark_step()\nmain()",
        START
        + BEFORE.replace("42", "xm.get_ordinal()")
        + LOADER
        + "    xm.broadcast_master_param(model)\n"
        + LOOP
        + GOOD_STEP,
        START + BEFORE.replace("DataLoader(data, sampler=sampler)", "make()") + LOOP + GOOD_STEP,
        # A library does it, or no XLA at all.
        START + "from transformers import Trainer\n" + BEFORE + LOOP + "        optimizer.step()",
        "import torch\nfrom torch.utils.data import DataLoader\ndef _mp_fn():\n    pass\n"
        "optimizer = torch.optim.SGD(p)\nfor x in DataLoader(data):\n    optimizer.step()",
        START + BEFORE + "    for x, y in loader:\n        print(model(x))",
    ],
)
def test_what_is_complete_or_unknown_is_left_alone(program: ReadProgram, text: str) -> None:
    assert judge(program, text) == []
