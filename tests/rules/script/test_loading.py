"""A checkpoint is loaded beside each process's own GPU: DIST003."""

from __future__ import annotations

import pytest

from launcher.failure_modes.model import Severity
from launcher.rules.script.loading import checkpoints_are_loaded_beside_the_gpu
from tests.programs.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows

__all__ = ["program"]

START = """
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
    (finding,) = checkpoints_are_loaded_beside_the_gpu(program(START + text))
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
    assert list(checkpoints_are_loaded_beside_the_gpu(program(START + text))) == []


def test_one_process_loads_to_where_it_saved(program: ReadProgram) -> None:
    text = 'import torch\nmodel = torch.nn.Linear(8, 8).cuda()\ntorch.save(model.state_dict(), "model.pt")\n'
    assert list(checkpoints_are_loaded_beside_the_gpu(program(text + LOADED))) == []
