"""A sample of the matrix of faults: no command crashes, hangs, creates two jobs or ends in an unknown way."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache

import pytest

from tests.emulator.faults import DENIED
from tools import ROOT
from tools.attack.matrix.commands import LOOKS, Command
from tools.attack.matrix.judging import complaints
from tools.attack.matrix.running import Attack, Run

CELLS, SEED = 36, 1
LOOK = Command("status", ("status", "x"), LOOKS, beside=("batch",))
CREATE = Command("launch", ("job.yaml",), 100.0, creates=1)
AT_SAGEMAKER = Attack("sagemaker.DescribeTrainingJob", DENIED, for_good=True)
REFUSED = "error: AWS refused.\n  → Ask for the permission."


@cache
def judged() -> dict[str, list[str]]:
    """What was wrong with each cell of the sample, run in a process of one thread, which can fork."""
    command = [sys.executable, "-m", "tools.attack.matrix", str(CELLS), str(SEED)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=230)
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    return {line["cell"]: line["wrong"] for line in lines}


@pytest.mark.exhaustive
def test_no_fault_brings_a_command_down() -> None:
    wrong = {cell: complaints for cell, complaints in judged().items() if complaints}
    assert wrong == {}
    assert len(judged()) > CELLS / 2


def run(code: int = 0, printed: str = "", seconds: float = 1.0, created: tuple[str, ...] = ()) -> Run:
    return Run(code, printed, seconds, seconds, [], list(created))


@pytest.mark.parametrize(
    ("command", "attack", "seen", "says"),
    [
        (LOOK, AT_SAGEMAKER, run(0, "Traceback (most recent call last)"), "a traceback"),
        (
            LOOK,
            AT_SAGEMAKER,
            run(1, "error: KeyError: 'x'\n  → This is a fault of the launcher."),
            "KeyError",
        ),
        (LOOK, AT_SAGEMAKER, run(2, "error: no such job"), "ended with 2"),
        (LOOK, AT_SAGEMAKER, run(3, "no"), "did not say"),
        (LOOK, AT_SAGEMAKER, run(seconds=60.1), "took 60 s"),
        (LOOK, Attack("batch.ListServiceJobs", DENIED, for_good=False), run(3, REFUSED), "does not need"),
        (LOOK, AT_SAGEMAKER, run(created=("a",), printed="a"), "created a job"),
        (CREATE, AT_SAGEMAKER, run(created=("a", "b"), printed="a b"), "created 2 jobs"),
        (CREATE, AT_SAGEMAKER, run(3, REFUSED, created=("a-1",)), "without naming it"),
        (CREATE, AT_SAGEMAKER, run(0, "submitted"), "created no job"),
    ],
)
def test_what_should_not_be_is_seen(command: Command, attack: Attack, seen: Run, says: str) -> None:
    (complaint,) = complaints(command, attack, run(), seen)
    assert says in complaint


def test_a_refusal_and_an_end_as_without_the_fault_are_good() -> None:
    assert list(complaints(LOOK, AT_SAGEMAKER, run(), run(3, REFUSED, seconds=59.0))) == []
    assert list(complaints(CREATE, AT_SAGEMAKER, run(), run(0, "submitted a-1", created=("a-1",)))) == []


def test_a_job_that_is_not_stopped_is_seen_where_the_command_says_it_was() -> None:
    healthy = Run(0, "", 1.0, 1.0, [], [], stops=1)
    assert list(complaints(LOOK, AT_SAGEMAKER, healthy, run())) == ["ended with 0 and stopped nothing"]
