"""Which device a process takes, and whether a script fits the job that starts it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from launcher.failure_modes.model import Finding, Severity
from launcher.jobs.load_job import load_job
from launcher.planning.planner import plan_job
from launcher.program.program import Program, read_program
from launcher.rules.script import processes
from launcher.rules.script.findings import ScriptSubject
from launcher.rules.script.processes import checkpoints_are_loaded_beside_the_gpu
from launcher.session.prepare_plan import source_of
from tests.program.conftest import ReadProgram, program
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
    findings: list[Finding] = [finding for rule in processes.DEVICE_RULES for finding in rule(read)]
    return [each.code for each in findings]


@shows(processes.device_is_not_the_global_rank)
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


@leaves_alone(processes.device_is_not_the_global_rank)
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


@shows(processes.device_is_not_the_same_for_all)
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


@leaves_alone(processes.device_is_not_the_same_for_all)
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


@shows(processes.each_process_takes_a_device, naming=")")
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


@leaves_alone(processes.each_process_takes_a_device)
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


__all___loading = ["program"]

START_loading = """
import os, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("nccl")
rank = dist.get_rank()
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
model = DDP(torch.nn.Linear(8, 8).cuda())
"""
SAVED = """
if rank == 0:
    torch.save({"model": model.state_dict()}, "model.pt")
"""
LOADED = 'model.load_state_dict(torch.load("model.pt"))\n'


@shows(checkpoints_are_loaded_beside_the_gpu)
@pytest.mark.parametrize(
    "text",
    [
        SAVED + LOADED,
        SAVED + 'state = torch.load("model.pt")\nmodel.load_state_dict(state["model"])\n',
        SAVED + 'model.module.load_state_dict(torch.load("model.pt", weights_only=True)["model"])\n',
        SAVED
        + 'def resume():\n    state = torch.load("model.pt")\n    model.load_state_dict(state)\nresume()\n',
        SAVED + f'if os.path.exists("model.pt"):\n    {LOADED}',
        'if rank == 0:\n    torch.save(model.module.state_dict(), "model.pt")\n' + LOADED,
    ],
)
def test_a_state_that_every_rank_loads_to_where_it_was_is_told(program: ReadProgram, text: str) -> None:
    (finding,) = checkpoints_are_loaded_beside_the_gpu(program(START_loading + text))
    assert (finding.code, finding.severity) == ("DIST003", Severity.INFO)
    assert finding.fix is not None
    assert not finding.fix.safe


@leaves_alone(checkpoints_are_loaded_beside_the_gpu)
@pytest.mark.parametrize(
    "text",
    [
        SAVED + 'model.load_state_dict(torch.load("model.pt", map_location="cpu"))\n',
        SAVED + 'model.load_state_dict(torch.load("model.pt", f"cuda:{local_rank}"))\n',
        SAVED + 'model.load_state_dict(torch.load("model.pt", **options))\n',
        SAVED + f"if rank == 0:\n    {LOADED}",
        SAVED + 'data = torch.load("data.pt")\nprint(data)\n',
        SAVED.replace("model.state_dict()", "{k: v.cpu() for k, v in model.state_dict().items()}") + LOADED,
        SAVED.replace("model.state_dict()", "losses") + LOADED,
        LOADED,
        SAVED + 'import json\nmodel.load_state_dict(json.load("model.pt"))\n',
    ],
)
def test_another_load_is_right(program: ReadProgram, text: str) -> None:
    assert list(checkpoints_are_loaded_beside_the_gpu(program(START_loading + text))) == []


def test_one_process_loads_to_where_it_saved(program: ReadProgram) -> None:
    text = 'import torch\nmodel = torch.nn.Linear(8, 8).cuda()\ntorch.save(model.state_dict(), "model.pt")\n'
    assert list(checkpoints_are_loaded_beside_the_gpu(program(text + LOADED))) == []


TORCHRUN = {"strategy": "torchrun"}
NONE = {"strategy": "none"}
TWO = {"instance_type": "ml.p4d.24xlarge", "instance_count": 2}
ONE_GPU = {"instance_type": "ml.g5.xlarge", "instance_count": 1}

Together = Callable[..., list[str]]


@pytest.fixture
def together(write_job: Callable[..., Path]) -> Together:
    """The codes of what a script and a job with these fields show."""

    def judge(text: str, **fields: Any) -> list[str]:
        file = write_job(**{"distribution": TORCHRUN, "resources": TWO, **fields})
        script = file.parent / "src" / "train.py"
        script.write_text(text, "utf-8")
        loaded = load_job(file)
        assert loaded.spec is not None, loaded.findings
        source = source_of(loaded.spec, file.parent)
        plan = plan_job(
            loaded.spec,
            None,
            unique="0unique",
            source=source,
            session_region="us-west-2",
            today=date(2026, 11, 22),
        )
        program = read_program(script)
        assert isinstance(program, Program)
        subject = ScriptSubject(program, plan.spec or loaded.spec, plan)
        findings: list[Finding] = [each for rule in processes.STRATEGY_JOB_RULES for each in rule(subject)]
        return [each.code for each in findings]

    return judge


SPAWN = "import torch.multiprocessing as mp\ndef work(i): ...\n"
GROUP = "import torch.distributed as dist\ndist.init_process_group()\n"
TRAINER = "from lightning.pytorch import Trainer\n"
TORCH_2 = {"name": "pytorch", "version": "2.8"}
TORCH_1 = {"name": "pytorch", "version": "2.1"}


@shows(processes.settings_suit_the_job, "NCCL002", naming="NCCL002")
@shows(processes.settings_suit_the_job, "NCCL001", naming="NCCL001")
@shows(processes.spawned_processes_are_the_hosts_accelerators, naming="DIST001")
@shows(processes.trainer_knows_its_processes, naming="DIST008")
@shows(processes.script_fits_the_strategy, naming="DIST005")
@pytest.mark.parametrize(
    ("text", "fields", "expected"),
    [
        (SPAWN + "mp.spawn(work, nprocs=8)", {}, ["DIST005"]),
        (SPAWN + "def main():\n    mp.spawn(work, nprocs=8)\nmain()", {}, ["DIST005"]),
        (SPAWN + "mp.start_processes(work, nprocs=8)", {}, ["DIST005"]),
        ("import torch\nloss = torch.nn.Linear(1, 1)(x)\nloss.backward()", {}, ["DIST005"]),
        ("import torch, numpy, argparse\nfor x in data:\n    net(x).backward()", {}, ["DIST005"]),
        (TRAINER + "Trainer(devices=1).fit(m)", {}, ["DIST008"]),
        ("import pytorch_lightning as pl\npl.Trainer(devices=1, accelerator='gpu')", {}, ["DIST008"]),
        (SPAWN + "mp.spawn(work, nprocs=4)", {"distribution": NONE}, ["DIST001"]),
        (SPAWN + "mp.spawn(work, nprocs=16)", {"distribution": NONE}, ["DIST001"]),
        (
            GROUP + 'import os\nos.environ["NCCL_ASYNC_ERROR_HANDLING"] = "1"',
            {"framework": TORCH_2},
            ["NCCL002"],
        ),
        (GROUP + 'import os\nos.environ["NCCL_BUFFSIZE"] = "1"', {}, ["NCCL001"]),
        (GROUP + 'import os\nos.environ["NCCL_NSOCKS_PERTHREAD"] = "4"', {}, ["NCCL001"]),
    ],
)
def test_what_does_not_fit_the_job_is_found(
    together: Together, text: str, fields: dict[str, Any], expected: list[str]
) -> None:
    assert together(text, **fields) == expected


@leaves_alone(processes.spawned_processes_are_the_hosts_accelerators, naming="strategy': 'none")
@leaves_alone(processes.script_fits_the_strategy, naming="backward()")
@leaves_alone(processes.script_fits_the_strategy, naming="spawn(")
@leaves_alone(processes.trainer_knows_its_processes, naming="Trainer(")
@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (GROUP, {}),
        (SPAWN + "import sys\nif sys.argv[1:]:\n    mp.spawn(work, nprocs=8)", {}),
        (SPAWN + "mp.spawn(work, nprocs=8)", {"distribution": NONE}),
        (SPAWN + "import torch\nmp.spawn(work, nprocs=torch.cuda.device_count())", {"distribution": NONE}),
        ("import torch\nnet(x).backward()", {"resources": ONE_GPU}),
        ("import torch\nprint(torch.__version__)", {}),
        ("import torch\nfrom accelerate import Accelerator\nnet(x).backward()", {}),
        ("import torch\nimport something_unknown\nnet(x).backward()", {}),
        ("import torch.distributed as d\nif d.is_available():\n    d.init_process_group()", {}),
        (TRAINER + "Trainer(devices=1, num_nodes=2)", {}),
        (TRAINER + 'Trainer(devices="auto")', {}),
        (TRAINER + "Trainer(devices=1)", {"resources": ONE_GPU}),
        (TRAINER + "Trainer(devices=8, num_nodes=2, strategy='ddp')", {}),
        (TRAINER + "Trainer(**options)", {}),
        (
            GROUP + 'import os\nos.environ["NCCL_ASYNC_ERROR_HANDLING"] = "1"',
            {"framework": TORCH_1},
        ),
        (GROUP + 'import os\nos.environ["NCCL_BUFFSIZE"] = "1"', {"resources": ONE_GPU}),
    ],
)
def test_what_fits_or_is_not_known_is_left_alone(
    together: Together, text: str, fields: dict[str, Any]
) -> None:
    assert together(text, **fields) == []


@leaves_alone(processes.entry_point_has_a_worker_function, naming="[])")
@shows(processes.entry_point_has_a_worker_function, naming="['XLA")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def main(): ...", ["XLA002"]),
        ("class Trainer:\n    def _mp_fn(self, index): ...", ["XLA002"]),
        ("def _mp_fn(index): ...", []),
        ("from work import _mp_fn", []),
        ("from work import *", []),
    ],
)
def test_the_launcher_of_torch_xla_needs_a_worker_function(
    together: Together, text: str, expected: list[str]
) -> None:
    resources = {"instance_type": "ml.p3.8xlarge", "instance_count": 1}
    assert together(text, distribution={"strategy": "torch_xla"}, resources=resources) == expected
