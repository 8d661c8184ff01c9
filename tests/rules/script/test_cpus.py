"""Workers of the script against the CPUs of the job: DATA006. A p4d has 96 vCPUs, 12 for each process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.failure_modes.model import Severity
from launcher.rules.script.cpus import workers_have_cpus
from tests.rules.script.counting import leaves_alone, shows
from tests.rules.script.judging_jobs import subject_of

START = """
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
    judged = list(workers_have_cpus(subject_of(write_job, START.format(default, given))))
    assert [each.subject for each in judged] == ([] if subject is None else [subject])
    assert {each.severity for each in judged} <= {Severity.WARNING}


def test_what_the_job_gives_is_judged_in_the_job_file(write_job: Callable[..., Path]) -> None:
    script = START.format(99, "num_workers=args.num_jobs")
    for fields in ({"hyperparameters": {"num_jobs": 4}}, {"hyperparameters": {"num-jobs": 4}}):
        assert list(workers_have_cpus(subject_of(write_job, script, **fields))) == []


def test_one_process_has_all_cpus(write_job: Callable[..., Path]) -> None:
    script = START.format(4, "num_workers=96")
    alone = subject_of(write_job, script, distribution={"strategy": "none"})
    assert list(workers_have_cpus(alone)) == []
