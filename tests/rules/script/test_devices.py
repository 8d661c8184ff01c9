"""Each process takes a device of its own, by its rank on the host."""

from __future__ import annotations

import pytest

from launcher.failure_modes.model import Finding
from launcher.rules.script import devices
from tests.programs.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows

__all__ = ["program"]

START = """
import os, sys, torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
"""


def judge(program: ReadProgram, text: str, start: str = START) -> list[str]:
    read = program(start + text)
    findings: list[Finding] = [finding for rule in devices.RULES for finding in rule(read)]
    return [each.code for each in findings]


@shows(devices.device_is_not_the_global_rank)
@pytest.mark.parametrize(
    "text",
    [
        "torch.cuda.set_device(dist.get_rank())",
        'rank = int(os.environ["RANK"])\ntorch.cuda.set_device(rank)',
        'device = torch.device("cuda", dist.get_rank())',
        'device = torch.device(f"cuda:{dist.get_rank()}")',
        "rank = dist.get_rank()\nmodel = DDP(model.to(local_rank), device_ids=[rank])",
        "if local_rank != -1:\n    torch.cuda.set_device(dist.get_rank())",
        "import argparse\nargs = argparse.ArgumentParser().parse_args()\n"
        "args.gpu = dist.get_rank()\ntorch.cuda.set_device(args.gpu)",
        "import argparse\nargs = argparse.ArgumentParser().parse_args()\n"
        'args.gpu = dist.get_rank()\ntorch.cuda.set_device(getattr(args, "gpu", 0))',
        "import argparse\nargs = argparse.ArgumentParser().parse_args()\n"
        "for i in range(2):\n    torch.cuda.set_device(args.gpu)\n    args.gpu = dist.get_rank()",
        'x = x.to(f"cuda:{dist.get_rank()}")',
        "x = x.cuda(dist.get_rank())",
        "def main(rank):\n    torch.cuda.set_device(rank)\nmain(dist.get_rank())",
    ],
)
def test_the_global_rank_as_a_device_index_is_found(program: ReadProgram, text: str) -> None:
    assert judge(program, text) == ["DIST006"]


@leaves_alone(devices.device_is_not_the_global_rank)
@pytest.mark.parametrize(
    "text",
    [
        "torch.cuda.set_device(local_rank)",
        "torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())",
        'device = torch.device("cuda", local_rank)\nmodel = DDP(model.to(device), device_ids=[local_rank])',
        "rank = dist.get_rank()\nprint(rank)",
        "def work(rank, n):\n    torch.cuda.set_device(rank)\nmp.spawn(work, args=(2,), nprocs=2)",
        "def work(i, n):\n    torch.cuda.set_device(dist.get_rank())\nmp.spawn(work, args=(2,), nprocs=2)",
        "if dist.get_world_size() <= torch.cuda.device_count():\n    torch.cuda.set_device(dist.get_rank())",
        "from torch.testing._internal.common_distributed import MultiProcessTestCase\n"
        "torch.cuda.set_device(dist.get_rank())",
        "rank = 3\nscores = scores.to(rank)",
        "import argparse\nargs = argparse.ArgumentParser().parse_args()\n"
        "torch.cuda.set_device(args.gpu)\nargs.gpu = dist.get_rank()",
        "torch.manual_seed(dist.get_rank())",
        "model = DDP(model)",
    ],
)
def test_another_index_is_left_alone(program: ReadProgram, text: str) -> None:
    assert judge(program, text) == []


@shows(devices.device_is_not_the_same_for_all)
@pytest.mark.parametrize(
    "text",
    [
        "torch.cuda.set_device(0)",
        'device = torch.device("cuda:0")',
        'device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")',
        'model = model.to("cuda:0")',
        "model = DDP(model, device_ids=[0])",
        'def main():\n    torch.cuda.set_device("cuda:0")\nif __name__ == "__main__":\n    main()',
        "x = x.cuda(0)",
    ],
)
def test_one_device_for_every_process_is_found(program: ReadProgram, text: str) -> None:
    assert judge(program, text) == ["DIST006"]


@leaves_alone(devices.device_is_not_the_same_for_all)
@pytest.mark.parametrize(
    "text",
    [
        'os.environ["CUDA_VISIBLE_DEVICES"] = str(local_rank)\ntorch.cuda.set_device(0)',
        'if sys.argv[1:]:\n    device = torch.device("cuda:0")',
        'device = torch.device("cuda:0")\nif dist.is_initialized():\n'
        '    device = torch.device("cuda", local_rank)',
        'device = torch.device("cuda:0" if local_rank == -1 else f"cuda:{local_rank}")',
        "def unused():\n    torch.cuda.set_device(0)",
        "def main(rank):\n    torch.cuda.set_device(rank)\nmain(0)",
        'class Runner:\n    def __init__(self, device=torch.device("cuda:0")):\n'
        "        self.device = device\nRunner(chosen())",
        "def test_it():\n    dist.init_process_group()\n    torch.cuda.set_device(0)",
        'device = torch.device("cpu")',
        "name = torch.cuda.get_device_name(0)",
        "try:\n    pass\nexcept RuntimeError:\n    torch.cuda.set_device(0)",
    ],
)
def test_a_device_that_may_be_another_is_left_alone(program: ReadProgram, text: str) -> None:
    assert judge(program, text) == []


def test_without_a_process_group_one_device_is_right(program: ReadProgram) -> None:
    assert judge(program, "torch.cuda.set_device(0)", start="import torch\n") == []


@shows(devices.each_process_takes_a_device, naming=")")
@pytest.mark.parametrize(
    "text",
    [
        "model = DDP(model.cuda())",
        "model = model.cuda()\nmodel = DDP(model)",
        'model = DDP(model.to("cuda"))',
        'device = torch.device("cuda")\nmodel = Net().to(device)\nmodel = DDP(model)',
        'model = FSDP(Net().to("cuda"))',
        "model = Net()\nmodel.cuda()\nmodel = DDP(model)",
        "model = DDP(model.cuda())\ntorch.cuda.set_device(local_rank)",
        "model = FSDP(Net())\ntorch.cuda.set_device(local_rank)",
    ],
)
def test_a_wrapped_model_without_a_device_of_its_process_is_found(program: ReadProgram, text: str) -> None:
    assert judge(program, text) == ["DIST003"]


@leaves_alone(devices.each_process_takes_a_device)
@pytest.mark.parametrize(
    "text",
    [
        "torch.cuda.set_device(local_rank)\nmodel = DDP(model.cuda())",
        "model = DDP(model.to(local_rank))",
        'model = DDP(model.to(f"cuda:{local_rank}"))',
        'model = DDP(Net().to("cpu"))',
        "model = DDP(Net())",
        "model = DDP(model.to(device))",
        "with torch.cuda.device(local_rank):\n    model = DDP(model.cuda())",
        "model = FSDP(Net(), device_id=local_rank)\ntorch.cuda.set_device(local_rank)",
        "from accelerate import Accelerator\na = Accelerator()\nmodel = DDP(model.cuda())",
        "if sys.argv[1:]:\n    torch.cuda.set_device(local_rank)\nmodel = FSDP(Net())",
        "def main():\n    model = FSDP(Net())\ntorch.cuda.set_device(local_rank)\nmain()",
    ],
)
def test_a_model_on_the_device_of_its_process_is_left_alone(program: ReadProgram, text: str) -> None:
    assert judge(program, text) == []
