"""Every rule on scripts is listed, and says what it finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.failure_modes.model import Severity, Stage
from launcher.failure_modes.registry import registered
from launcher.rules.script.check import (
    JOB_RULES,
    RULES,
    check_program,
    unfinished_finding,
    unread_finding,
)
from launcher.scripts.program import Program
from launcher.scripts.reading import read_program

RULES_ROOM = "launcher.rules.script."


def test_every_registered_rule_is_called_once() -> None:
    listed = [*RULES, *JOB_RULES]
    registered_rules = {
        each.function
        for each in registered()
        if each.stage is Stage.SCRIPT and each.name.startswith(RULES_ROOM) and ".acceptance." not in each.name
    }
    assert set(listed) == registered_rules - {unread_finding, unfinished_finding}
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("train.py", Severity.ERROR),
        ("test_train.py", Severity.INFO),
        ("train_test.py", Severity.INFO),
        ("latest.py", Severity.ERROR),
        ("tests/training/lora.py", Severity.INFO),
        ("training/lora.py", Severity.ERROR),
    ],
)
@pytest.mark.parametrize("checkout", [".", "tests", "test/of/mine"])
def test_a_test_is_for_one_host_wherever_its_project_lies(
    tmp_path: Path, checkout: str, name: str, severity: Severity
) -> None:
    root = tmp_path / checkout
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(
        'import torch.distributed as dist\ndist.init_process_group("nccl")\n'
        'dist.init_process_group("nccl", init_method="tcp://10.0.0.1:23456")\n'
    )
    program = read_program(root / name, root)
    assert isinstance(program, Program)
    found = {each.severity for each in check_program(program) if each.code == "DIST006"}
    assert found == {severity}
