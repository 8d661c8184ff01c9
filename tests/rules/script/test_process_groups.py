"""How process groups are made and ended, their backends, and training through torch_xla."""

from __future__ import annotations

import pytest

from launcher.failure_modes.model import Finding, Severity
from launcher.rules.script import process_groups
from launcher.rules.script.process_groups import backends_are_imported
from tests.program.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows

__all__ = ["program"]

START = """
import torch
import torch.distributed as dist
from datetime import timedelta
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
"""


def judge(program: ReadProgram, text: str, **others: str) -> list[Finding]:
    read = program(START + text, **others)
    return [finding for rule in process_groups.GROUP_RULES for finding in rule(read)]


def codes(findings: list[Finding], code: str) -> list[Finding]:
    return [each for each in findings if each.code == code]


@shows(process_groups.unused_parameters_are_not_looked_for)
@pytest.mark.parametrize(
    "text",
    [
        "DDP(model, find_unused_parameters=True)",
        "DDP(model, device_ids=[0], find_unused_parameters=True)",
        "torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)",
        "unused = True\nDDP(model, find_unused_parameters=unused)",
        "from accelerate import DistributedDataParallelKwargs\n"
        "DistributedDataParallelKwargs(find_unused_parameters=True)",
    ],
)
def test_looking_for_unused_parameters_is_an_information(program: ReadProgram, text: str) -> None:
    (finding,) = judge(program, text)
    assert (finding.code, finding.severity) == ("DDP003", Severity.INFO)


@leaves_alone(process_groups.unused_parameters_are_not_looked_for)
@pytest.mark.parametrize(
    "text",
    [
        "DDP(model)",
        "DDP(model, find_unused_parameters=False)",
        "DDP(model, find_unused_parameters=args.unused)",
        "DDP(model, static_graph=True)",
        "DDP(model, **options)",
        "build(model, find_unused_parameters=True)",
        "parser.add_argument('--find_unused_parameters')",
        "def wrap(model, find_unused_parameters=True):\n    pass",
    ],
)
def test_nobody_looks_for_unused_parameters(program: ReadProgram, text: str) -> None:
    assert codes(judge(program, text), "DDP003") == []


SAVES = "\nif dist.get_rank() == 0:\n    torch.save(state, 'x.pt')\n"


@shows(process_groups.groups_have_a_fitting_timeout)
@pytest.mark.parametrize(
    "text",
    [
        "dist.init_process_group('nccl', timeout=timedelta(seconds=60))" + SAVES,
        "dist.init_process_group('nccl', timeout=timedelta(minutes=5))" + SAVES,
        "dist.init_process_group('nccl', None, timedelta(0, 120))" + SAVES,
        "limit = timedelta(seconds=30)\ndist.init_process_group('nccl', timeout=limit)" + SAVES,
        "dist.init_process_group('nccl', timeout=timedelta(seconds=60))\ndef save():\n"
        "    torch.save(state, 'x.pt')\nif dist.get_rank() == 0:\n    save()",
    ],
)
def test_a_timeout_shorter_than_what_one_rank_does_alone_is_found(program: ReadProgram, text: str) -> None:
    (finding,) = codes(judge(program, text), "DDP005")
    assert finding.severity is Severity.WARNING
    assert "rank 0 alone saves" in finding.message
    assert len(finding.related) == 1


@leaves_alone(process_groups.groups_have_a_fitting_timeout)
@pytest.mark.parametrize(
    "text",
    [
        "dist.init_process_group('nccl', timeout=timedelta(minutes=30))" + SAVES,
        "dist.init_process_group('nccl', timeout=timedelta(seconds=60))",
        "dist.init_process_group('nccl', timeout=timedelta(seconds=args.timeout))" + SAVES,
        "dist.init_process_group('nccl', timeout=args.timeout)" + SAVES,
        "dist.init_process_group('nccl', timeout=timedelta(hours=1, seconds=1))" + SAVES,
        "dist.init_process_group(**options)" + SAVES,
        "dist.init_process_group('nccl', timeout=timedelta(seconds=60))\ntorch.save(state, name())",
        "dist.new_group([0, 1], timeout=timedelta(seconds=60))" + SAVES,
    ],
)
def test_a_timeout_that_fits_is_right(program: ReadProgram, text: str) -> None:
    assert codes(judge(program, text), "DDP005") == []


def test_no_timeout_is_an_information(program: ReadProgram) -> None:
    (finding,) = codes(judge(program, "dist.init_process_group('nccl')"), "DDP005")
    assert finding.severity is Severity.INFO


def test_a_group_that_is_never_destroyed_is_an_information(program: ReadProgram) -> None:
    (finding,) = codes(judge(program, "dist.init_process_group('nccl')"), "DDP006")
    assert finding.severity is Severity.INFO


@leaves_alone(process_groups.groups_are_destroyed)
@pytest.mark.parametrize(
    ("text", "helper"),
    [
        ("dist.init_process_group('nccl')\ndist.destroy_process_group()", ""),
        (
            "import helper\ndist.init_process_group('nccl')",
            "from torch.distributed import destroy_process_group",
        ),
        ("import helper\ndist.init_process_group('nccl')", "no python ("),
        ("print('no group')", ""),
        (
            "import helper",
            "import torch.distributed as dist\ndef make():\n    dist.init_process_group('nccl')\n"
            "def start():\n    make()",
        ),
        (
            "import helper",
            "import torch.distributed as dist\ndef start():\n    dist.init_process_group('nccl')",
        ),
    ],
)
def test_a_group_that_may_be_destroyed_is_right(program: ReadProgram, text: str, helper: str) -> None:
    assert codes(judge(program, text, **{"helper.py": helper}), "DDP006") == []


def test_a_group_that_a_helper_makes_for_this_program_is_found(program: ReadProgram) -> None:
    helper = "import torch.distributed as dist\ndef start():\n    dist.init_process_group('nccl')"
    judged = judge(program, "import helper\nhelper.start()", **{"helper.py": helper})
    assert len(codes(judged, "DDP006")) == 1


__all___backends = ["program"]

START_backends = "import os, argparse, torch\nimport torch.distributed as dist\n"
SMDDP = "import smdistributed.dataparallel.torch.torch_smddp\n"
GROUP = 'dist.init_process_group("smddp")\n'


def told(program: ReadProgram, text: str, **others: str) -> list[tuple[str, Severity]]:
    found = backends_are_imported(program(START_backends + text, **others))
    return [(each.code, each.severity) for each in found]


@shows(backends_are_imported)
@pytest.mark.parametrize(
    "text",
    [
        GROUP,
        'dist.init_process_group(backend="smddp")',
        'BACKEND = "smddp"\ndist.init_process_group(BACKEND)',
        'def setup(backend="smddp"):\n    dist.init_process_group(backend=backend)\nsetup()',
        'from torch.distributed import init_process_group as init\ninit("SMDDP")',
        "import numpy as np\nfrom torchvision import datasets\nfrom tqdm import tqdm\n" + GROUP,
        'if torch.cuda.is_available():\n    dist.init_process_group("smddp", timeout=limit)',
    ],
)
def test_a_backend_that_nothing_imports_is_found(program: ReadProgram, text: str) -> None:
    assert told(program, text) == [("DIST005", Severity.ERROR)]


def test_a_helper_of_the_program_that_does_not_import_it_either_is_looked_into(program: ReadProgram) -> None:
    assert told(program, "from tools import start\n" + GROUP, **{"tools.py": "import torch\n"}) != []


@leaves_alone(backends_are_imported)
@pytest.mark.parametrize(
    "text",
    [
        SMDDP + GROUP,
        "import smdistributed.dataparallel.torch.torch_smddp as smddp\n" + GROUP,
        "from smdistributed.dataparallel.torch import torch_smddp\n" + GROUP,
        "def main():\n    " + SMDDP + "    " + GROUP,
        "try:\n    " + SMDDP + "except ImportError:\n    pass\n" + GROUP,
        'dist.init_process_group("nccl")',
        "dist.init_process_group(backend=os.environ['BACKEND'])",
        "p = argparse.ArgumentParser()\np.add_argument('--backend', default='smddp')\n"
        "dist.init_process_group(p.parse_args().backend)",
        "import importlib\nimportlib.import_module(name)\n" + GROUP,
        "from accelerate import Accelerator\n" + GROUP,
        "import torch.sagemaker as tsm\n" + GROUP,
        "import our_own_library\n" + GROUP,
        'dist.init_process_group(*options, backend="smddp")',
    ],
)
def test_a_backend_that_is_or_may_be_imported_is_silent(program: ReadProgram, text: str) -> None:
    assert told(program, text) == []


def test_a_helper_of_the_program_may_import_it(program: ReadProgram) -> None:
    assert told(program, "from tools import start\n" + GROUP, **{"tools.py": SMDDP}) == []


__all___xla = ["program"]

START_xla = """
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


def judge_xla(program: ReadProgram, text: str) -> list[str]:
    read = program(text)
    findings: list[Finding] = [finding for rule in process_groups.XLA_RULES for finding in rule(read)]
    return [each.code for each in findings]


@shows(process_groups.weights_begin_alike, naming="XLA006")
@shows(process_groups.gradients_are_shared, naming="XLA005")
@shows(process_groups.batches_come_by_a_device_loader, naming="XLA004")
@shows(process_groups.steps_are_run, naming="XLA003")
@shows(process_groups.worker_function_takes_the_index, naming="XLA002")
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
    assert judge_xla(program, START_xla + text) == expected


@leaves_alone(*process_groups.XLA_RULES)
@pytest.mark.parametrize(
    "text",
    [
        START_xla + BEFORE + LOADER + LOOP + GOOD_STEP,
        START_xla + BEFORE + AMP + FETCH + CLIP + SCALED_STEP,
        START_xla + BEFORE + LOADER + LOOP + GOOD_STEP + "        xm.mark_step()\n        print(loss)",
        START_xla + "def _mp_fn(index):\n    main()",
        START_xla + "def _mp_fn(*args):\n    main()",
        START_xla + "def work(index, flags):\n    pass\nxmp.spawn(work, args=({},), nprocs=8)",
        START_xla + "def outer():\n    def _mp_fn():\n        pass",
        START_xla
        + BEFORE.replace("_mp_fn(index)", "main()")
        + LOOP
        + GOOD_STEP
        + "        xm.mark_step()\nmain()",
        START_xla
        + BEFORE.replace("42", "xm.get_ordinal()")
        + LOADER
        + "    xm.broadcast_master_param(model)\n"
        + LOOP
        + GOOD_STEP,
        START_xla + BEFORE.replace("DataLoader(data, sampler=sampler)", "make()") + LOOP + GOOD_STEP,
        # A library does it, or no XLA at all.
        START_xla + "from transformers import Trainer\n" + BEFORE + LOOP + "        optimizer.step()",
        "import torch\nfrom torch.utils.data import DataLoader\ndef _mp_fn():\n    pass\n"
        "optimizer = torch.optim.SGD(p)\nfor x in DataLoader(data):\n    optimizer.step()",
        START_xla + BEFORE + "    for x, y in loader:\n        print(model(x))",
    ],
)
def test_what_is_complete_or_unknown_is_left_alone(program: ReadProgram, text: str) -> None:
    assert judge_xla(program, text) == []
