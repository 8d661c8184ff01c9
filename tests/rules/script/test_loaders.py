"""The workers of loaders: what they may do, and the CPUs they need."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.failure_modes.model import Severity
from launcher.rules.script.loaders import (
    workers_are_there,
    workers_have_cpus,
    workers_leave_the_devices_alone,
)
from tests.program.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows
from tests.rules.script.judging_jobs import subject_of

__all__ = ["program"]

START = """
import torch
from torch.utils.data import DataLoader, Dataset
"""


def told(program: ReadProgram, text: str) -> list[tuple[str, str]]:
    read = program(START + text)
    found = [*workers_are_there(read), *workers_leave_the_devices_alone(read)]
    return [(each.code, each.subject or "") for each in found]


@shows(workers_are_there)
@pytest.mark.parametrize(
    "call",
    [
        "DataLoader(dataset, prefetch_factor=2)",
        "DataLoader(dataset, num_workers=0, prefetch_factor=4)",
        "DataLoader(dataset, persistent_workers=True)",
        "DataLoader(dataset, 32, False, None, None, 0, persistent_workers=True)",
        "DataLoader(dataset, persistent_workers=True, prefetch_factor=2)",
    ],
)
def test_options_of_workers_without_workers_are_found(program: ReadProgram, call: str) -> None:
    assert told(program, call) == [("DATA005", call)]


@leaves_alone(workers_are_there)
@pytest.mark.parametrize(
    "call",
    [
        "DataLoader(dataset, num_workers=4, prefetch_factor=2)",
        "DataLoader(dataset, num_workers=args.workers, persistent_workers=True)",
        "DataLoader(dataset, persistent_workers=False)",
        "DataLoader(dataset, num_workers=0, prefetch_factor=None)",
        "DataLoader(dataset, num_workers=0, persistent_workers=workers > 0)",
        "DataLoader(dataset, persistent_workers=True, **options)",
        "DataLoader(dataset, 32, False, None, None, 2, persistent_workers=True)",
        "Loader(dataset, persistent_workers=True)",
    ],
)
def test_options_of_workers_that_may_be_there_are_fine(program: ReadProgram, call: str) -> None:
    assert told(program, call) == []


IMAGES = """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
class Images(Dataset):
    def __init__(self, device="cpu"): self.device = device
    def __getitem__(self, index):
        {}
loader = DataLoader(Images(), num_workers={})
"""


@shows(workers_leave_the_devices_alone)
@pytest.mark.parametrize(
    ("body", "subject"),
    [
        ("return load(index).cuda()", "load(index).cuda()"),
        ("return load(index).to('cuda')", "load(index).to('cuda')"),
        ("return load(index).to('cuda:1', non_blocking=True)", "load(index).to('cuda:1', non_blocking=True)"),
        ("return torch.tensor(load(index), device='cuda')", "torch.tensor(load(index), device='cuda')"),
        ("return load(index).to(device)", "load(index).to(device)"),
    ],
)
def test_cuda_in_a_worker_is_found(program: ReadProgram, body: str, subject: str) -> None:
    assert told(program, IMAGES.format(body, 4)) == [("DATA005", subject)]


def test_cuda_in_the_collate_function_is_found(program: ReadProgram) -> None:
    text = (
        "def collate(batch): return torch.stack(batch).cuda()\n"
        "DataLoader(data, num_workers=2, collate_fn=collate)"
    )
    assert told(program, text) == [("DATA005", "torch.stack(batch).cuda()")]


@leaves_alone(workers_leave_the_devices_alone)
@pytest.mark.parametrize(
    ("body", "workers"),
    [
        ("return load(index).cuda()", "0"),
        ("return load(index).cuda()", "args.workers"),
        ("return load(index).cuda()", "2, multiprocessing_context='spawn'"),
        ("return load(index).cuda()", "2)\ntorch.multiprocessing.set_start_method('spawn'"),
        ("return load(index).to('cpu')", "4"),
        ("return load(index).to(self.device)", "4"),
        ("return load(index).to(torch.float32)", "4"),
        ("return load(index).pin_memory()", "4"),
        ("return load(index).cuda() if self.on_device else load(index)", "4"),
    ],
)
def test_workers_without_cuda_are_fine(program: ReadProgram, body: str, workers: str) -> None:
    assert told(program, IMAGES.format(body, workers)) == []


def test_the_batch_is_moved_in_the_loop(program: ReadProgram) -> None:
    assert told(program, IMAGES.format("return load(index)", 4) + "for batch in loader: batch.cuda()") == []


START_cpus = """
import argparse
from torch.utils.data import DataLoader
parser = argparse.ArgumentParser()
parser.add_argument("-j", "--num-jobs", default={}, type=int)
args = parser.parse_args()
DataLoader(dataset, {})
"""


@leaves_alone(workers_have_cpus, naming="None)")
@shows(workers_have_cpus, naming="'13')")
@shows(workers_have_cpus, naming="args.num_jobs')")
@pytest.mark.parametrize(
    ("default", "given", "subject"),
    [
        (4, "num_workers=13", "13"),
        (4, "32, False, None, None, 13", "13"),
        (13, "num_workers=args.num_jobs", "args.num_jobs"),
        (200, "num_workers=args.num_jobs", "args.num_jobs"),
        (4, "num_workers=7 if debug else 7, prefetch_factor=2", None),
        (4, "num_workers=12", None),
        (12, "num_workers=args.num_jobs", None),
        (99, "num_workers=args.other", None),
        (99, "num_workers=count()", None),
        (99, "**options", None),
        (99, "batch_size=64", None),
        ("None", "num_workers=args.num_jobs", None),
    ],
)
def test_workers_of_all_processes_have_cpus(
    write_job: Callable[..., Path], default: Any, given: str, subject: str | None
) -> None:
    judged = list(workers_have_cpus(subject_of(write_job, START_cpus.format(default, given))))
    assert [each.subject for each in judged] == ([] if subject is None else [subject])
    assert {each.severity for each in judged} <= {Severity.WARNING}


def test_what_the_job_gives_is_judged_in_the_job_file(write_job: Callable[..., Path]) -> None:
    script = START_cpus.format(99, "num_workers=args.num_jobs")
    for fields in ({"hyperparameters": {"num_jobs": 4}}, {"hyperparameters": {"num-jobs": 4}}):
        assert list(workers_have_cpus(subject_of(write_job, script, **fields))) == []


def test_one_process_has_all_cpus(write_job: Callable[..., Path]) -> None:
    script = START_cpus.format(4, "num_workers=96")
    alone = subject_of(write_job, script, distribution={"strategy": "none"})
    assert list(workers_have_cpus(alone)) == []
