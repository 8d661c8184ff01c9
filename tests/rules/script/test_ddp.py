"""How process groups are made and ended."""

from __future__ import annotations

import pytest

from launcher.failure_modes.model import Finding, Severity
from launcher.rules.script import ddp
from tests.programs.conftest import ReadProgram, program
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
    return [finding for rule in ddp.RULES for finding in rule(read)]


def codes(findings: list[Finding], code: str) -> list[Finding]:
    return [each for each in findings if each.code == code]


@shows(ddp.unused_parameters_are_not_looked_for)
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


@leaves_alone(ddp.unused_parameters_are_not_looked_for)
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


@shows(ddp.groups_have_a_fitting_timeout)
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


@leaves_alone(ddp.groups_have_a_fitting_timeout)
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


@leaves_alone(ddp.groups_are_destroyed)
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
